"""GPUs that are not there or do not answer."""

from __future__ import annotations

import re

from hwcheck.advise.rule import HostFindings, Sign, rule, sign

XIDS = ("xid", "faults_under_load")
"""Checks whose subjects end with the number of an Xid."""
LOST = re.compile(r"xid (79|143)$")
RECOVERY = re.compile(r"xid 154$")
WANTED = ("restart_events", "reset_events")
"""Metrics of what an Xid 154 asks for where the GPU takes no work until then."""
NO_ANSWER = "NVML did not answer within"
LEAST_CHECKS = 3
"""As many checks without an answer are no chance."""


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
    """A driver that does not run explains the count better."""
    none_on_the_bus = host.value("gpu_count", "pci_gpus") == 0
    driver = host.bad("driver")
    if driver and not none_on_the_bus:
        return None
    count = host.bad("gpu_count")
    unmeasured = host.unmeasured() if none_on_the_bus else host.unmeasured("GPUs")
    return sign("certain", (*count, *driver, *unmeasured) if count else ())


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
    """What cannot be measured while a GPU is lost follows from it."""
    lost = (*host.bad("gpu_lost"), *host.bad("faults_under_load", "gpu_answer_after_load"))
    logged = [f for check in XIDS for f in host.bad(check) if LOST.search(f.subject)]
    logged += [f for check in XIDS for f in host.bad(check, *WANTED) if RECOVERY.search(f.subject)]
    count = host.bad("gpu_count") if lost or logged else ()
    return sign("certain", (*lost, *logged, *count, *(host.unmeasured() if lost else ())))


@rule(
    title="The NVIDIA driver does not run: not loaded, or its library and module are of two "
    "versions",
    effect="no job finds a GPU, and nothing on the GPUs can be measured",
    fix="install the driver and its kernel module in one version, then reboot, or unload and "
    "load the module",
    confirm="cat /proc/driver/nvidia/version; nvidia-smi; dkms status; sudo dmesg | grep NVRM",
    source="NVML API Reference Guide, NVML_ERROR_LIB_RM_VERSION_MISMATCH and "
    "NVML_ERROR_DRIVER_NOT_LOADED",
)
def driver_not_whole(host: HostFindings) -> Sign | None:
    """Without a GPU none loads; what cannot be measured follows from it."""
    driver = host.bad("driver", "driver_loaded", "nvml_status", "nvml_driver_version")
    if not driver or host.value("gpu_count", "pci_gpus") == 0:
        return None
    return sign("certain", (*driver, *host.bad("gpu_count"), *host.unmeasured()))


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
    """One lost call may be chance; several checks without an answer are a driver that hangs."""
    unanswered = {finding.check for finding in host.unmeasured(NO_ANSWER)}
    findings = host.unmeasured(NO_ANSWER, "has no identifier")
    return sign("likely", findings if len(unanswered) >= LEAST_CHECKS else ())
