"""The driver refuses PCIe P2P to some pairs."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="The driver refuses PCIe P2P to GPUs that should have it (CNS, GNS, NS)",
    follows="between these GPUs data goes through host memory, so every ring through them is as "
    "slow as that",
    fix="make slots, firmware settings (Resizable BAR, Above 4G Decoding), boards and driver "
    "settings of these GPUs like those of the others; where all are refused, look for "
    "RMDisableP2P and take a driver that knows the chipset (CNS); GeForce boards refuse it by "
    "design",
    confirm="nvidia-smi topo -p2p r; nvidia-smi topo -p2p w; nvidia-smi topo -m",
    source="NVML API Reference Guide, nvmlGpuP2PStatus_t; NVIDIA/nccl src/graph/paths.cc; "
    "NVIDIA/nccl issue 175",
)
def p2p_refused_over_pcie(case: Case) -> Sign | None:
    """Look for it. What consumer boards are refused alike is as the driver makes it: no fault."""
    own = case.bad("p2p_status", "unlike_other_pairs", "refused_like_all")
    if case.vm or not own:
        return None
    said = {
        f"p2p_status: {metric} {code} ({finding.subject})"
        for finding in own
        for metric in ("pcie_read", "pcie_write")
        for code in [case.values("p2p_status", metric).get(finding.subject)]
        if code not in (None, "OK")
    }
    return sign("certain", own, sorted(said))
