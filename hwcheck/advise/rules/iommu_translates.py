"""The IOMMU translates what GPUs send."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="The IOMMU translates the addresses that GPUs use for each other",
    follows="PCIe P2P goes by way of the CPU: collectives hang, bring wrong data or are slow",
    fix="boot with iommu=pt, or switch VT-d or AMD-Vi off in the firmware where nothing is "
    "passed to virtual machines",
    confirm="cat /proc/cmdline; grep . /sys/kernel/iommu_groups/*/type | sort -t: -k2 | head",
    source="NCCL User Guide, Troubleshooting, GPU Direct; NVIDIA/nccl issues 257 and 631, "
    "ROCm/rccl issue 1129, vllm-project/vllm issue 33041",
)
def iommu_translates(case: Case) -> Sign | None:
    """Look for it. In a virtual machine the IOMMU is its host's."""
    own = case.bad("iommu", "translated")
    if not own or case.vm:
        return None
    trouble = (
        *case.p2p_trouble(over_pcie=True),
        *case.p2p_loses(),
        *case.slow_over_pcie(),
    )
    return sign("likely" if trouble else "possible", (*own, *trouble))
