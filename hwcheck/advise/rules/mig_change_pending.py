"""A change of the MIG mode has not taken place yet."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="A change of the MIG mode waits for a reset of the GPU",
    follows="the GPU comes back split, or whole, at the next reset or reboot: jobs then "
    "find other devices than now",
    fix="end the processes on the GPU and reset it (nvidia-smi --gpu-reset), or take the "
    "change back",
    confirm="nvidia-smi --query-gpu=index,mig.mode.current,mig.mode.pending --format=csv",
    source="NVIDIA Multi-Instance GPU User Guide, Enable MIG Mode",
)
def mig_change_pending(case: Case) -> Sign | None:
    """Look for it. The reading says it itself."""
    return sign("certain", case.bad("mig", "mig_change_pending"))
