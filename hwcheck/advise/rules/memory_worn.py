"""A board has used up its spare memory."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="GPU memory is worn: spare rows or pages run out",
    follows="errors that were repaired so far will end jobs",
    fix="run NVIDIA's field diagnostics and have the board replaced",
    confirm="nvidia-smi -q -d ROW_REMAPPER,PAGE_RETIREMENT",
    source="NVIDIA GPU Memory Error Management, RMA policy thresholds",
)
def memory_worn(case: Case) -> Sign | None:
    """Look for it. These are counts since the board was made."""
    rows = case.bad("row_remap", "row_remap_failure", "row_remap_banks_exhausted")
    return sign("certain", (*rows, *case.bad("retired_pages", "retired_pages")))
