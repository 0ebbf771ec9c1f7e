"""A guest's GPUs have not joined the NVSwitch fabric."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="The virtual machine was given GPUs without their NVSwitch fabric",
    follows="CUDA does not start on these GPUs, or they reach each other over PCIe only",
    fix="have the fabric manager run where the NVSwitches are (on the hypervisor, shared "
    "NVSwitch model) and the partition of this guest activated",
    confirm="nvidia-smi -q | grep -A12 Fabric; lspci | grep -i nvswitch; systemd-detect-virt",
    source="NVIDIA Fabric Manager User Guide, Shared NVSwitch Virtualization Model; "
    "NVIDIA/nccl-tests issue 260",
)
def vm_without_fabric(case: Case) -> Sign | None:
    """Look for it. On bare metal it is the fabric manager of the node."""
    own = case.bad("nvswitch_fabric", "fabric_state", "fabric_status") if case.vm else ()
    links = case.of({finding.subject for finding in own}, "nvlink_state", "nvlink_errors")
    return sign("certain", (*own, *links), [f"virtualization: {case.vm}"])
