"""The heat sink of one GPU touches badly."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="A heat sink or cold plate has poor contact to its chip",
    follows="that GPU heats up within seconds of a load and slows down before fans can act",
    fix="take the board out and look at mounting and thermal interface",
    confirm="nvidia-smi dmon -s pt -c 30, under load and just after its start",
    source="derived: with the same power, the slope of the first seconds goes by the resistance "
    "between chip and sink; peers of the node are the measure",
)
def thermal_contact(case: Case) -> Sign | None:
    """Look for it. Air and fans act later than contact."""
    own = case.bad("thermal_slope", "slope_over_peers")
    gpus = {finding.subject for finding in own}
    return sign("likely", (*own, *case.of(gpus, "thermal_spread", "temperature_under_load")))
