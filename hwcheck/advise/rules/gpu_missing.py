"""There are fewer GPUs than there should be."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="GPUs are missing: off the bus, without power, not bound to the driver, or not given "
    "to this machine",
    follows="jobs that ask for all GPUs of the node do not start",
    fix="look for Xid 79 and for PCIe errors at boot; reboot, power off and on, then reseat "
    "board and cables; in a guest or container see what it is given",
    confirm="lspci -d 10de:; nvidia-smi -L; sudo dmesg | grep -iE 'nvrm|aer'",
    source="the inventory's hwcheck_gpus, the PCI bus and NVML API Reference Guide, "
    "nvmlDeviceGetCount_v2",
)
def gpu_missing(case: Case) -> Sign | None:
    """Look for it. A driver that does not run explains the count better."""
    none_on_the_bus = case.value("gpu_count", "pci_gpus") == 0
    if case.bad("driver") and not none_on_the_bus:
        return None
    own = case.bad("gpu_count")
    blinded = [
        finding
        for finding in case.findings
        if finding.outcome == "inconclusive" and (none_on_the_bus or "GPUs" in finding.reason)
    ]
    driver = case.bad("driver") if none_on_the_bus else ()
    return sign("certain", (*own, *driver, *blinded) if own else ())
