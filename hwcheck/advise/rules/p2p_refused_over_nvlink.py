"""The driver refuses P2P to GPUs that NVLink joins."""

from __future__ import annotations

from hwcheck.advise.case import WITH_P2P, Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="The driver refuses NVLinked GPUs to reach each other",
    follows="NCCL does not start over such links, and never falls back by itself",
    fix="mend the link or the setting (RMDisableP2P, MIG, fabric manager), then reset or "
    "reboot; never set NCCL_IGNORE_DISABLED_P2P, which hides it",
    confirm="nvidia-smi topo -p2p n; nvidia-smi nvlink --status; grep -r RMDisableP2P "
    "/etc/modprobe.d",
    source="NVIDIA/nccl issue 2329 and src/graph/paths.cc, ncclTopoCheckP2p",
)
def p2p_refused_over_nvlink(case: Case) -> Sign | None:
    """Look for it. NVML says so itself; legs that do not start follow from it."""
    own = case.bad("p2p_status", "nvlink_read", "nvlink_write")
    collectives = dict.fromkeys(leg.collective for leg in case.legs)
    failed = [f for name in collectives for f in case.leg_findings(name, WITH_P2P)]
    return sign("certain", (*own, *failed) if own else ())
