"""PCIe Access Control Services are on above GPUs."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="ACS sends what GPUs send each other over PCIe to the CPU",
    follows="P2P is slow at best; with an IOMMU that translates, collectives hang or bring wrong "
    "data",
    fix="switch ACS off in the firmware, or clear it at every boot on root ports and on every "
    "switch port above GPUs: setpci -s BRIDGE ECAP_ACS+6.w=0000; until then "
    "NCCL_P2P_LEVEL=NVL where GPUs are bridged, else NCCL_P2P_DISABLE=1",
    confirm="sudo lspci -vvv | grep -E '^[0-9a-f]|ACSCtl'",
    source="NCCL User Guide, Troubleshooting, PCI Access Control Services (ACS); NVIDIA/nccl "
    "issues 2079, 606, 631; both levels of bridges matter: local-inference-lab/rtx6kpro",
)
def acs_redirect(case: Case) -> Sign | None:
    """Look for it. In a virtual machine access control has to be on."""
    own = case.bad("pcie_acs", "acs_redirect")
    if not own or case.vm:
        return None
    trouble = (
        *case.p2p_trouble(over_pcie=True),
        *case.p2p_loses(),
        *case.slow_over_pcie(),
    )
    return sign("likely" if trouble else "possible", (*own, *trouble))
