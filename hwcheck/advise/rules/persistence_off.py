"""The driver lets go of GPUs that nobody uses."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="Persistence is off: the driver forgets a GPU between jobs",
    follows="every job starts seconds later, and a power limit or clocks that were set are "
    "lost with the last client",
    fix="enable and start the nvidia-persistenced service",
    confirm="nvidia-smi --query-gpu=index,persistence_mode --format=csv; systemctl status "
    "nvidia-persistenced",
    source="NVIDIA Driver Persistence, Persistence Daemon",
)
def persistence_off(case: Case) -> Sign | None:
    """Look for it. The reading says it itself."""
    return sign("certain", case.bad("persistence_mode", "persistence_mode"))
