"""GPUs may draw more than supplies or cables give."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="Power supplies or cables cannot feed what the GPUs may draw",
    follows="under full load a supply trips or a cable melts: a node that passes idle tests goes "
    "down in a job",
    fix="lower the power limits until the sum fits, or add supplies and cables and declare them",
    confirm="nvidia-smi --query-gpu=index,power.limit --format=csv; ipmitool dcmi power reading",
    source="the inventory's hwcheck_psu_watts and hwcheck_gpu_power_connectors; PCI-SIG CEM, "
    "auxiliary power connectors",
)
def power_budget_short(case: Case) -> Sign | None:
    """Look for it. It is arithmetic over what the inventory declares."""
    return sign("certain", case.bad("power_budget"))
