"""Hosts and boards that are not what they should be: model, identifier, firmware, software."""

from __future__ import annotations

from hwcheck.advise.rule import HostFindings, Sign, rule, sign
from hwcheck.contract.reasons import SAME_IDENTIFIER
from hwcheck.judge.records import NEIGHBORS, Finding
from hwcheck.results.site_limits import ABSENT


@rule(
    title="A node holds other GPUs than it should, or several models",
    effect="unlike GPUs have no P2P, and the slowest sets the pace of every collective",
    fix="have the board exchanged for the model of the others, or keep jobs on GPUs of one model",
    confirm="nvidia-smi -L; nvidia-smi topo -p2p r",
    source="the inventory's hwcheck_gpu_model and the majority; unlike boards have no P2P "
    "(NVIDIA/nccl-tests issue 131)",
)
def mixed_models(host: HostFindings) -> Sign | None:
    """Firmware and limits that differ with the model follow from it."""
    models = host.bad("gpu_model", "gpu_model", "gpu_board_id")
    gpus = {finding.subject for finding in models}
    return sign(
        "certain", (*models, *host.bad_on(gpus, "gpu_model", "vbios", "inforom", "power_cap"))
    )


@rule(
    title="Boards of one kind run different firmware (VBIOS, infoROM, network card)",
    effect="limits, fixes and behavior differ between boards that should be alike",
    fix="bring all boards to one version with the server vendor's firmware update, then power "
    "the node off and on",
    confirm="nvidia-smi --query-gpu=index,vbios_version,inforom.img --format=csv; ibstat | grep "
    "-i firmware",
    source="NVML API Reference Guide, nvmlDeviceGetVbiosVersion; the majority of like boards",
)
def firmware_differs(host: HostFindings) -> Sign | None:
    """Versions are the same or they are not."""
    images = host.bad("inforom", "inforom_image")
    others = (*host.bad("infiniband_ports", "firmware"), *host.bad("parts", "part_firmware"))
    return sign("certain", (*host.bad("vbios"), *images, *others))


@rule(
    title="Parts are not those that were ordered",
    effect="what was paid for is not there, or a part that nobody ordered is; warranty and "
    "replacement go by serial number",
    fix="hold the delivery note against the part; have the vendor deliver what was ordered, or "
    "correct hwcheck_parts",
    confirm="sudo dmidecode -t system,baseboard,chassis,processor,memory; nvidia-smi -L; nvme list",
    source="the inventory's hwcheck_parts",
)
def not_as_ordered(host: HostFindings) -> Sign | None:
    """What a part says of itself is compared with the order."""
    return sign("certain", host.bad("parts", "as_ordered"))


@rule(
    title="Boards of one model are made, or set by their VBIOS, for different power",
    effect="the one with less holds lower clocks, and the slowest GPU sets the pace of every "
    "collective",
    fix="compare part number and VBIOS with those of the others; bring the VBIOS to their version, "
    "or have the board exchanged for one of their kind",
    confirm="nvidia-smi --query-gpu=index,power.default_limit,vbios_version,serial --format=csv; "
    "nvidia-smi -q | grep -i 'part number'",
    source="NVML API Reference Guide, nvmlDeviceGetPowerManagementDefaultLimit; the figures of the "
    "model (hwcheck/judge/models), and the majority",
)
def board_power_differs(host: HostFindings) -> Sign | None:
    """The default is the board's own; of another model it is another."""
    other_models = {finding.subject for finding in host.bad("gpu_model", "gpu_model")}
    defaults = (
        *host.bad("power_cap", "power_limit_default_w"),
        *host.bad("power_idle", "power_limit_default_w"),
    )
    return sign("likely", (f for f in defaults if f.subject not in other_models))


@rule(
    title="The infoROM of a GPU is corrupted",
    effect="the board's record of errors, limits and identity cannot be trusted",
    fix="update the infoROM with the vendor's tool, and have the board replaced when it comes back",
    confirm="nvidia-smi -q | grep -i -A6 inforom; sudo dmesg | grep -i inforom",
    source="NVML API Reference Guide, nvmlDeviceValidateInforom",
)
def inforom_corrupted(host: HostFindings) -> Sign | None:
    """The checksums hold or they do not."""
    return sign("certain", host.bad("inforom", "inforom_valid"))


@rule(
    title="Several boards carry one identifier",
    effect="tools that choose GPUs by identifier choose the wrong one",
    fix="have the boards replaced whose infoROM was written with another board's content",
    confirm="nvidia-smi -L",
    source="NVML API Reference Guide, nvmlDeviceGetUUID: unique over all boards",
)
def cloned_identity(host: HostFindings) -> Sign | None:
    """NVML's identifiers have no doubles."""
    doubles = host.bad("serials", "gpus_of_this_uuid")
    doubts = host.unmeasured(SAME_IDENTIFIER)
    return sign("certain", doubles, follows=doubts)


@rule(
    title="The host is another machine than was meant: virtual instead of real, or under "
    "another hypervisor",
    effect="bandwidth, topology and counters are what the hypervisor shows",
    fix="correct the address or hwcheck_hypervisor in the inventory",
    confirm="systemd-detect-virt; cat /sys/class/dmi/id/product_name",
    source="Linux kernel, /sys/hypervisor, CPUID and DMI; the inventory's hwcheck_hypervisor",
)
def unexpected_machine(host: HostFindings) -> Sign | None:
    """The machine says what it is."""
    return sign("certain", host.bad("virtualization", "hypervisor"))


PYTHON = "python3 -c 'import torch; print(torch.__version__, torch.cuda.nccl.version())'"
DIFFERS = "the inventory's declarations, and the majority of like hosts"


@rule(
    title="The driver, or the CUDA that it runs, is of another version than declared or than on "
    "most hosts",
    effect="jobs that move between hosts meet another CUDA; a fault that comes with a version is "
    "found only where all hosts have one",
    fix="bring the host to the version of the others, and reboot",
    confirm="cat /proc/driver/nvidia/version; nvidia-smi | head -n 4",
    source=DIFFERS,
    role="nvidia_driver",
)
def driver_differs(host: HostFindings) -> Sign | None:
    """The newest CUDA that a driver runs goes by its version."""
    return sign("certain", (*host.bad("driver", "driver_version"), *host.bad("cuda_driver")))


@rule(
    title="The kernel is of another version than declared or than on most hosts",
    effect="drivers built for one kernel, and settings that it knows, differ between hosts",
    fix="install the kernel of the others and boot it; where it is installed already, reboot",
    confirm="uname -r; ls /boot/vmlinuz*; dkms status",
    source=DIFFERS,
)
def kernel_differs(host: HostFindings) -> Sign | None:
    """Versions are the same or they are not."""
    return sign("certain", host.bad("kernel"))


@rule(
    title="NCCL is of another version than declared or than on most hosts",
    effect="ranks of a job over several hosts fail to connect, hang, or choose other transports",
    fix="install one version of NCCL on all hosts",
    confirm="ldconfig -p | grep libnccl; " + PYTHON,
    source=DIFFERS,
    role="nccl",
)
def nccl_differs(host: HostFindings) -> Sign | None:
    """That of the system; the one that torch brings comes with torch."""
    versions = host.bad("software_versions", "nccl_version", "system_nccl_version")
    return sign("certain", () if _of_torch(host, versions) else versions)


@rule(
    title="torch, or the NCCL that it brings, is of another version than declared or than on "
    "most hosts",
    effect="the ranks of a job over several hosts run two programs: they fail to connect, hang, "
    "or choose other transports",
    fix="install one torch on all hosts, or name the right interpreter as hwcheck_torch_python",
    confirm=PYTHON + "; python3 -m pip list | grep -iE 'torch|nccl'",
    source=DIFFERS,
    role="validation_env",
)
def torch_differs(host: HostFindings) -> Sign | None:
    """NCCL follows from torch where torch brings it."""
    torch = host.bad("software_versions", "torch_version")
    nccl = host.bad("software_versions", "nccl_version")
    return sign("certain", (*torch, *(nccl if torch or _of_torch(host, nccl) else ())))


@rule(
    title="The host lacks what hosts with the same GPUs have: hardware, a driver or software",
    effect="a job meets one host that is not like the others: it fails there, or goes at its pace",
    fix="see what the others have, then install or switch on what is missing; hardware that is not "
    "seen any more needs a power cycle, then a technician",
    confirm="lspci; lsmod; nvidia-smi -q (beside those of a like host)",
    source="the majority of hosts with GPUs of the same models",
)
def lacks_what_others_have(host: HostFindings) -> Sign | None:
    """Only that they differ is certain; which of them is wrong, the majority suggests."""
    absent = [f for f in host.findings if f.metric == ABSENT and f.basis != NEIGHBORS]
    return sign("possible", (*absent, *host.bad("infiniband_ports", "rate_told")))


@rule(
    title="One GPU is set up, or behaves, unlike the others of its board design in the node",
    effect="collectives go at the pace of the GPU that is behind; a job that expects eight alike "
    "may fail on it",
    fix="give it the setting of the others (nvidia-smi -i N); where it is no setting, look at its "
    "slot, its heat sink and its cables, then exchange it with a neighbor: what moves along is the "
    "board's, what stays is the slot's",
    confirm="nvidia-smi -q -i 0,1,2,3 (side by side)",
    source="the majority of the GPUs of one board design in the node",
)
def unlike_its_neighbors(host: HostFindings) -> Sign | None:
    """That it differs is certain, and not what made it differ; rules of the check know more."""
    unlike = (f for f in host.findings if f.basis == NEIGHBORS)
    return sign("possible", unlike)


@rule(
    title="The driver is below the floor on record, or its branch has ended",
    effect="known holes and defects are not mended there, and will not be",
    fix="take a driver of a supported branch, at or above its floor; hwcheck_version_floors says "
    "how grave it is here",
    confirm="cat /proc/driver/nvidia/version",
    source="NVIDIA Data Center Drivers, Supported Drivers and CUDA Toolkit Versions; "
    "hwcheck/judge/versions/floors.yml",
    role="nvidia_driver",
)
def driver_below_floor(host: HostFindings) -> Sign | None:
    """The version is below or it is not."""
    return sign("certain", host.bad("driver", "driver_floor", "floors_age_days"))


@rule(
    title="The firmware of a network card is below the floor on record of its train",
    effect="known defects are not mended there",
    fix="update the card's firmware within its train (mlxfwmanager), and reset the card or reboot; "
    "hwcheck_version_floors says how grave it is here",
    confirm="ibstat | grep -i firmware; sudo mlxfwmanager --query",
    source="hwcheck/judge/versions/floors.yml, with the release notes of each train",
)
def firmware_below_floor(host: HostFindings) -> Sign | None:
    """The version is below or it is not."""
    return sign("certain", host.bad("infiniband_ports", "firmware_floor"))


@rule(
    title="The container toolkit or DCGM is below the floor on record",
    effect="known holes, such as a way out of a container, are not mended there",
    fix="take a newer package of nvidia-container-toolkit or datacenter-gpu-manager; "
    "hwcheck_version_floors says how grave it is here",
    confirm="nvidia-ctk --version; dcgmi --version",
    source="hwcheck/judge/versions/floors.yml, after NVIDIA's security bulletins",
)
def tools_below_floor(host: HostFindings) -> Sign | None:
    """The version is below or it is not."""
    return sign("certain", host.bad("tool_versions", "container_toolkit_floor", "dcgm_floor"))


@rule(
    title="The container toolkit or DCGM is there twice, or of another version than on most hosts",
    effect="containers are given other libraries and devices, or diagnostics other limits, than "
    "elsewhere",
    fix="install one version of the packages on all hosts; where the GPU operator installs the "
    "toolkit, remove the package or set toolkit.enabled=false",
    confirm="nvidia-ctk --version; dcgmi --version",
    source="NVIDIA GPU Operator, Getting Started, Pre-Installed NVIDIA Container Toolkit; the "
    "majority of hosts with GPUs of the same models",
)
def tools_differ(host: HostFindings) -> Sign | None:
    """Versions are the same or they are not."""
    differ = ("only_version", "container_toolkit_version", "dcgm_version")
    return sign("certain", host.bad("tool_versions", *differ))


def _of_torch(host: HostFindings, versions: tuple[Finding, ...]) -> bool:
    """Whether versions of NCCL that differ are those of the wheels of torch alone."""
    torch = host.value("software_versions", "torch_version")
    nccl = host.value("software_versions", "nccl_version")
    of_system = host.value("software_versions", "system_nccl_version")
    system_differs = any(finding.metric == "system_nccl_version" for finding in versions)
    return torch not in (None, "none") and nccl != of_system and not system_differs
