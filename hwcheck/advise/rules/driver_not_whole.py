"""The driver does not run."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="The NVIDIA driver does not run: not loaded, or its library and module are of two "
    "versions",
    follows="no job finds a GPU, and nothing on the GPUs can be measured",
    fix="install the driver and its kernel module in one version, then reboot, or unload and "
    "load the module",
    confirm="cat /proc/driver/nvidia/version; nvidia-smi; dkms status; sudo dmesg | grep NVRM",
    source="NVML API Reference Guide, NVML_ERROR_LIB_RM_VERSION_MISMATCH and "
    "NVML_ERROR_DRIVER_NOT_LOADED",
)
def driver_not_whole(case: Case) -> Sign | None:
    """Look for it. Without a GPU none loads; what cannot be measured follows from it."""
    own = case.bad("driver", "driver_loaded", "nvml_status", "nvml_driver_version")
    if not own or case.value("gpu_count", "pci_gpus") == 0:
        return None
    blinded = [finding for finding in case.findings if finding.outcome == "inconclusive"]
    return sign("certain", (*own, *case.bad("gpu_count"), *blinded))
