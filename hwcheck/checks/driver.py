"""The NVIDIA driver is loaded, NVML works, and both are of the right version."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import TIMED, CouldNotMeasure, Metric, Remedy, Varies, check
from hwcheck.contract.limits import Equal, FromInventory, FromSample, like_most
from hwcheck.contract.reasons import NOT_MEASURED
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

INIT = "NVML API Reference Guide, nvmlInit_v2: what it returns when the driver cannot be used"

OTHERS = ("nouveau", "nova_core", "nova-core", "nova")
"""The kernel's own drivers; vfio-pci is how a GPU is given to a guest."""


DRIVER_VERSION = Metric(
    "driver_version",
    "",
    "version of the loaded kernel module; NVML's where a container hides the module",
    (
        Equal(
            FromInventory("driver_version"),
            source="the inventory's hwcheck_driver_version",
            confidence="inventory",
        ),
        like_most(
            "NVIDIA driver, user mode libraries and fabric manager go by one version, and "
            "jobs move between nodes; a fault that comes with a version is found only "
            "where the others have one version"
        ),
    ),
    fact="driver",
)


NVML_STATUS = Metric(
    "nvml_status", "", "ok, or NVML's own error", (Equal("ok", source=INIT),), required=True
)

NVML_STATUS_CODE = Metric(
    "nvml_status_code", "", "the code of that error, by which its cause is told"
)


@check(
    metrics=[
        Metric(
            "driver_loaded",
            "",
            "whether the NVIDIA kernel module is loaded",
            (Equal(True, source=INIT + " (NVML_ERROR_DRIVER_NOT_LOADED)"),),
            required=True,
        ),
        NVML_STATUS,
        NVML_STATUS_CODE,
        Metric(
            "kernel_driver",
            "",
            "driver that a GPU is bound to, where it is another that computes nothing",
            (
                Equal(
                    "nvidia",
                    source="NVIDIA Driver Installation Guide, Disable Nouveau: with it bound to "
                    "the GPUs the NVIDIA driver cannot take them",
                ),
            ),
        ),
        DRIVER_VERSION,
        Metric(
            "nvml_driver_version",
            "",
            "driver version by NVML",
            (
                Equal(
                    FromSample("driver_version"),
                    source="NVML API Reference Guide, nvmlInit_v2 "
                    "(NVML_ERROR_LIB_RM_VERSION_MISMATCH): the libraries must match the module",
                ),
            ),
            varies=Varies("as driver_version", hosts=False, neighbors=False),
        ),
    ],
    remedy=Remedy(
        cause="the driver is not installed, was not built for this kernel, or was upgraded under "
        "a loaded module",
        fix="install the driver and its kernel module in one version, then reboot, or unload and "
        "load the module with nothing using a GPU",
        command="cat /proc/driver/nvidia/version; nvidia-smi; dkms status",
        role="nvidia_driver",
    ),
    group="software",
    explains_silence=True,
    stage="inventory",
    beside=TIMED,
)
def driver(node: Node) -> Iterator[Sample]:
    """Read the driver's version from the kernel and from NVML, and whether both work.

    Nothing else on a GPU node works without it, and a user library of another version than the
    loaded kernel module (an upgrade without a reboot) stops every new CUDA process while the old
    ones run on. Where ``/proc/driver/nvidia`` is hidden, as in some containers, an answer of NVML
    proves that the driver is loaded.
    """
    module = node.host.driver_version()
    status = node.nvml_status()
    yield Sample("driver_loaded", bool(module) or status == "ok")
    yield Sample("nvml_status", status)
    if status != "ok":
        yield Sample("nvml_status_code", _code(node))
    for address in node.host.pci_gpus():
        bound = node.host.pci_driver(address)
        if bound in OTHERS:
            yield Sample("kernel_driver", bound, "", "pci " + address)
    if module:
        yield Sample("driver_version", module)
    if status != "ok":
        return
    try:
        by_nvml = node.nvml_driver_version()
    except CouldNotMeasure as error:
        raise CouldNotMeasure.of(error.reason.about("driver version by NVML")) from None
    yield Sample("nvml_driver_version" if module else "driver_version", by_nvml)


def _code(node: Node) -> str:
    try:
        node.gpus()
    except CouldNotMeasure as error:
        return error.reason.code
    return NOT_MEASURED  # it has answered since
