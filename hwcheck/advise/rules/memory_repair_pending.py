"""A memory repair waits for a reset."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="A bad memory row or page is in use until the GPU is reset",
    follows="the next job may run into the bad cell again",
    fix="drain the node, then reset the GPU (row remapping) or load the driver again (retired "
    "pages), or reboot",
    confirm="nvidia-smi -q -d ROW_REMAPPER,PAGE_RETIREMENT",
    source="NVIDIA GPU Memory Error Management, row remapping and dynamic page retirement",
)
def memory_repair_pending(case: Case) -> Sign | None:
    """Look for it. The driver says so itself."""
    remaps = case.bad("row_remap", "row_remap_pending")
    return sign("certain", (*remaps, *case.bad("retired_pages", "retired_pages_pending")))
