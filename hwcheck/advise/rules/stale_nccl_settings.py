"""A debugging variable of NCCL is in force."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="NCCL settings that are meant for debugging are in force",
    follows="NCCL does not choose for itself: a forgotten NCCL_P2P_LEVEL or NCCL_P2P_DISABLE "
    "costs up to 40 times the bandwidth",
    fix="remove the variable where it comes from and measure again; keep it only with a "
    "measurement of this NCCL version that proves it",
    confirm="env | grep ^NCCL_; grep -H NCCL_ /etc/nccl.conf ~/.nccl.conf /etc/environment "
    "/etc/profile.d/*.sh",
    source="NCCL User Guide, Environment Variables, Debugging; NVIDIA/nccl-tests issue 228 "
    "(NCCL_P2P_LEVEL=LOC left over: removing it gave 220 GB/s)",
)
def stale_nccl_settings(case: Case) -> Sign | None:
    """Look for it. It explains the leg site, which is timed with what is in force."""
    own = case.bad("nccl_environment", "debugging_settings")
    if not own:
        return None
    collectives = dict.fromkeys(leg.collective for leg in case.legs)
    legs = [f for name in collectives for f in case.leg_findings(name, ("site",))]
    return sign("certain", (*own, *legs, *case.slow(("site",))))
