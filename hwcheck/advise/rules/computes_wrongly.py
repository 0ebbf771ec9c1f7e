"""A GPU gives wrong products."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="A GPU computes wrongly under load, and nothing else reports it",
    follows="silent data corruption: training diverges or ends in NaN, and nobody knows why",
    fix="take the GPU out of service, repeat the load with it alone, and have the board replaced",
    confirm="nvidia-smi -q -d ECC; run the load again with this GPU alone",
    source="derived: the same inputs give bit-equal products on like GPUs, so most of them name "
    "the odd one out",
)
def computes_wrongly(case: Case) -> Sign | None:
    """Look for it. Products of like GPUs are compared bit by bit."""
    return sign("certain", case.bad("compute_errors"))
