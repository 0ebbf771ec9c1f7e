"""GPUs that are not there or do not answer."""

from __future__ import annotations

import re

from hwcheck.advise.rule import HostFindings, Sign, rule, sign
from hwcheck.contract.reasons import (
    COUNT_IN_DOUBT,
    DRIVER_BROKEN,
    GPU_LOST,
    NO_ANSWER,
    NO_IDENTIFIER,
)
from hwcheck.judge.records import Finding

LOST = re.compile(r"(xid (79|143)|gpu_unavailable)$")
RECOVERY = re.compile(r"xid 154$")
WANTED = ("restart_events", "reset_events")
"""Metrics of what an Xid 154 asks for where the GPU takes no work until then."""
LEAST_CHECKS = 3
"""As many checks without an answer are no chance."""


def _status(host: HostFindings) -> str:
    """Return the code of why NVML cannot be used; empty where it can."""
    if not host.bad("driver", "nvml_status"):
        return ""
    return str(host.value("driver", "nvml_status_code") or "")


def _driver(host: HostFindings) -> tuple[Finding, ...]:
    """Return the findings of a driver or NVML that cannot be used."""
    return host.bad("driver", "driver_loaded", "nvml_status", "nvml_driver_version")


def _is_more(finding: Finding) -> bool:
    """Whether a count is above what it is held against."""
    count, wanted = finding.value, finding.wanted
    return isinstance(count, int) and isinstance(wanted, int) and count > wanted


@rule(
    title="GPUs are missing: off the bus, without power, not bound to the driver, or not given "
    "to this machine",
    effect="jobs that ask for all GPUs of the node do not start",
    fix="look for Xid 79 and for PCIe errors at boot; reboot, power off and on, then reseat "
    "board and cables; in a guest or container see what it is given",
    confirm="lspci -d 10de:; nvidia-smi -L; sudo dmesg | grep -iE 'nvrm|aer'",
    source="the inventory's hwcheck_gpus, the PCI bus and NVML API Reference Guide, "
    "nvmlDeviceGetCount_v2",
)
def gpu_missing(host: HostFindings) -> Sign | None:
    """A driver that does not run explains the count better; more GPUs are another matter."""
    none_on_the_bus = host.value("gpu_count", "pci_gpus") == 0
    driver = _driver(host)
    if driver and not none_on_the_bus:
        return None
    count = [finding for finding in host.bad("gpu_count") if not _is_more(finding)]
    unmeasured = host.blinded() if none_on_the_bus else host.unmeasured(COUNT_IN_DOUBT)
    return sign("certain", count, follows=(*driver, *unmeasured))


@rule(
    title="The host has more GPUs than it should",
    effect="jobs that reckon with the declared number leave some idle; a job over several hosts "
    "gets unequal shares",
    fix="correct hwcheck_gpus in the inventory, or see whether the address leads to another host; "
    "where a board was added on purpose, group the host with those like it",
    confirm="lspci -d 10de:; nvidia-smi -L",
    source="the inventory's hwcheck_gpus, and the number on most hosts",
)
def more_gpus(host: HostFindings) -> Sign | None:
    """Counts are what they are; which number was meant, the inventory says."""
    return sign("certain", (finding for finding in host.bad("gpu_count") if _is_more(finding)))


@rule(
    title="A GPU is lost: it fell off the bus, or takes no work until it is reset",
    effect="every job on the node ends, and tools that open all GPUs fail or hang",
    fix="drain the node; reset the GPU, or power the node off and on; when it happens again, "
    "reseat the board and its power cables, then have it replaced",
    confirm="sudo dmesg | grep -E 'Xid.*: (79|143|154)'; nvidia-smi -L; lspci -d 10de:",
    source="NVIDIA Xid catalog, Xid 79, 143 and 154; NVML API Reference Guide, "
    "NVML_ERROR_GPU_IS_LOST",
)
def gpu_lost(host: HostFindings) -> Sign | None:
    """What cannot be measured while a GPU is lost follows from it, and so do errors of its link."""
    lost = (*host.bad("gpu_lost"), *host.bad("faults_under_load", "gpu_answer_after_load"))
    if _status(host) == GPU_LOST:
        lost += host.bad("driver", "nvml_status")
    logged = (*host.logged(LOST), *host.logged(RECOVERY, *WANTED))
    gone = (*lost, *logged)
    gpus = {host.gpu_of(finding.subject) for finding in gone}
    link = [*host.bad("pcie_aer"), *host.bad("pcie_errors"), *host.bad("pcie_link")]
    link += [*host.bad("pcie_link_under_load"), *host.bad("errors_under_load", "new_pcie_replays")]
    count = [f for f in host.bad("gpu_count") if not _is_more(f)] if gone else []
    unmeasured = host.blinded() if lost else ()
    return sign("certain", (*gone, *count, *host.of_gpus(gpus, link), *unmeasured))


@rule(
    title="The NVIDIA driver does not run: not loaded, or its library and module are of two "
    "versions",
    effect="no job finds a GPU, and nothing on the GPUs can be measured",
    fix="install the driver and its kernel module in one version, then reboot, or unload and "
    "load the module",
    confirm="cat /proc/driver/nvidia/version; nvidia-smi; dkms status; sudo dmesg | grep NVRM",
    source="NVML API Reference Guide, NVML_ERROR_LIB_RM_VERSION_MISMATCH and "
    "NVML_ERROR_DRIVER_NOT_LOADED",
    role="nvidia_driver",
)
def driver_not_whole(host: HostFindings) -> Sign | None:
    """NVML's words for it, two versions that were read, or a kernel without the module."""
    driver, status = _driver(host), _status(host)
    if not driver or host.value("gpu_count", "pci_gpus") == 0:
        return None
    if status in (NO_ANSWER, GPU_LOST):
        return None
    no_module = bool(host.bad("driver", "driver_loaded")) and not host.container
    two_versions = bool(host.bad("driver", "nvml_driver_version"))
    if not (no_module or two_versions or status == DRIVER_BROKEN):
        return None
    return sign("certain", (*driver, *host.bad("gpu_count"), *host.blinded()))


@rule(
    title="NVML cannot be used, and its error does not say why",
    effect="nvidia-smi and what watches the GPUs fail here; whether jobs run is not known",
    fix="see whether the login may open /dev/nvidia*, or the container was given the GPUs; read "
    "the kernel log for what the driver wrote, then load the driver again or reboot",
    confirm="nvidia-smi; ls -l /dev/nvidia*; id; sudo dmesg | grep NVRM | tail -n 30",
    source="NVML API Reference Guide, nvmlInit_v2 and nvmlReturn_t: NVML_ERROR_NO_PERMISSION, "
    "NVML_ERROR_OPERATING_SYSTEM and NVML_ERROR_UNKNOWN",
)
def nvml_unusable(host: HostFindings) -> Sign | None:
    """A hang, a lost GPU, or a driver that is not whole has words of its own."""
    driver, status = _driver(host), _status(host)
    if not driver or host.value("gpu_count", "pci_gpus") == 0:
        return None
    if status in (NO_ANSWER, GPU_LOST):
        return None
    return sign("possible", (*driver, *host.bad("gpu_count"), *host.blinded()))


@rule(
    title="The driver does not answer",
    effect="jobs and nvidia-smi hang on this node, and what asks the driver cannot be killed",
    fix="drain the node and reboot it; where it comes back after that, read the kernel log "
    "for what came before (Xid, a lost GPU) and update the driver",
    confirm='timeout 20 nvidia-smi; sudo dmesg -T | grep -iE "NVRM|Xid|blocked for more '
    'than" | tail -n 30',
    source="NVIDIA/nccl-tests issue 117 (nvidia-smi itself hangs until a reboot); NVIDIA "
    "XID Errors",
)
def driver_hangs(host: HostFindings) -> Sign | None:
    """One lost call may be chance; NVML that does not open, or several checks without an answer.

    Why it hangs no reading says.
    """
    findings = host.unmeasured(NO_ANSWER, NO_IDENTIFIER)
    if _status(host) == NO_ANSWER:
        return sign("likely", (*_driver(host), *host.bad("gpu_count"), *host.blinded()))
    unanswered = {finding.check for finding in host.unmeasured(NO_ANSWER)}
    return sign("likely", findings if len(unanswered) >= LEAST_CHECKS else ())


NOT_STARTED = re.compile(r"not started$")


@rule(
    title="The driver could not start a GPU",
    effect="NVML does not count or does not open it, and jobs that ask for all GPUs of the node do "
    "not start",
    fix="read what the driver says before it (firmware that does not load, a bus that does not "
    "answer); reset the GPU or power the node off and on; then reseat the board, or have it "
    "replaced",
    confirm="sudo dmesg | grep -E 'NVRM|nvidia' | grep -iE 'fail|GSP|WPR2'; nvidia-smi -L; "
    "lspci -d 10de:",
    source="NVIDIA/open-gpu-kernel-modules issue 1230 and NVIDIA/gpu-operator issue 1146 "
    "(RmInitAdapter failed); Linux, drivers/base/dd.c",
)
def gpu_not_started(host: HostFindings) -> Sign | None:
    """A count that is short and GPUs that do not open follow from it."""
    logged = host.logged(NOT_STARTED)
    follows = (*host.bad("gpu_count"), *host.bad("gpu_lost"), *host.unmeasured(COUNT_IN_DOUBT))
    return sign("certain", logged, follows=follows)


NO_ADDRESSES = re.compile(r"without addresses$")


@rule(
    title="A GPU was given no addresses on the bus for its memory window",
    effect="the driver does not take the GPU, and jobs that ask for all GPUs of the node do not "
    "start",
    fix="in the firmware's settings switch on addresses above 4 GiB (Above 4G Decoding, MMIO high "
    "size) and resizable BAR as on other hosts; in a guest use UEFI and a large enough window; "
    "else start the kernel with pci=realloc",
    confirm="sudo dmesg | grep -E 'BAR.*(no space|failed to assign)|NVRM: BAR'; sudo lspci -vv -d "
    "10de: | grep -E '^[0-9a-f]|Region'",
    source="NVIDIA driver README, 64-bit BARs; NVIDIA/open-gpu-kernel-modules, "
    "kernel-open/nvidia/nv-pci.c, nv_pci_probe; Linux, admin-guide/kernel-parameters, pci=realloc",
    brings=("gpu_not_started", "gpu_missing"),
)
def gpu_without_addresses(host: HostFindings) -> Sign | None:
    """The driver reads the device's registers and says that one is empty."""
    logged = host.logged(NO_ADDRESSES)
    follows = (*host.logged(NOT_STARTED), *host.bad("gpu_count"))
    return sign("certain", logged, follows=follows)


@rule(
    title="One GPU ends process after process, and its neighbors do not",
    effect="whatever job comes to this GPU may end with an error that looks like its own",
    fix="drain the node and test this GPU alone (dcgmi diag -r 3 -i N); have the board replaced "
    "when programs that run elsewhere end there",
    confirm="sudo dmesg --ctime | grep 'NVRM: Xid'",
    source="NVIDIA Xid catalog, Xids 13, 31, 43, 45 and 94; derived: applications run on all GPUs",
)
def gpu_ends_processes(host: HostFindings) -> Sign | None:
    """One user's program that always asks for the same GPU looks alike."""
    return sign("likely", host.bad("xid", "repeated_events"))


@rule(
    title="The kernel's own driver (nouveau) holds GPUs, and the NVIDIA driver cannot take them",
    effect="no job finds these GPUs",
    fix="put nouveau on the module blacklist, build the initramfs again and reboot; then see that "
    "the NVIDIA driver is installed for this kernel",
    confirm="lspci -nnk -d 10de: | grep -A2 -E 'VGA|3D'; cat /etc/modprobe.d/*nouveau*",
    source="NVIDIA Driver Installation Guide, Disable Nouveau",
    role="nvidia_driver",
)
def nouveau_bound(host: HostFindings) -> Sign | None:
    """The kernel says which driver a device has; what else fails follows from it."""
    bound = host.bad("driver", "kernel_driver")
    follows = (*host.bad("driver"), *host.bad("gpu_count"), *host.blinded())
    return sign("certain", bound, follows=follows)


GSP = re.compile(r"xid (119|120)$")
ASKS = ("restart_events", "reset_events", "old_reset_events")


@rule(
    title="The system processor of a GPU (GSP) does not answer, or has failed",
    effect="calls into the driver wait for it: jobs on that GPU hang or end, and nvidia-smi may "
    "hang with them",
    fix="drain the node; reset the GPU, or reboot where it does not come back; keep driver and "
    "firmware of one version, and take a newer one where it comes back on several nodes; on one "
    "GPU only have the board examined",
    confirm="sudo dmesg | grep -E 'Xid.*: (119|120)|GSP'; nvidia-smi -q | grep -i -E "
    "'gsp|recovery'",
    source="NVIDIA Xid catalog, Xid 119 and 120; NVIDIA/open-gpu-kernel-modules issues 942 and "
    "1271",
)
def gsp_failed(host: HostFindings) -> Sign | None:
    """The driver names its own firmware; what it is then not told of the GPU follows."""
    logged = host.logged(GSP)
    return sign("certain", logged, follows=host.unmeasured(NO_ANSWER))


@rule(
    title="The driver reported an error of a GPU that only a reset, or a restart of the node, ends",
    effect="the job that met it ended; until the reset the next one may meet it again",
    fix="drain the node; reset the GPU or restart the node, as the evidence says; then test the "
    "GPU alone (dcgmi diag -r 3 -i N), and have the board replaced where it comes back",
    confirm="sudo dmesg --ctime | grep 'NVRM: Xid'",
    source="NVIDIA Xid catalog, immediate actions RESET_GPU and RESTART_BM",
)
def gpu_error_reported(host: HostFindings) -> Sign | None:
    """What the code is of, such as memory or NVLink, has causes of its own."""
    return sign("possible", host.bad("xid", *ASKS))
