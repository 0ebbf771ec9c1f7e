"""What was measured of what was wanted, and by how much it is off: ``41 of 470 GB/s, 9 %``."""

from __future__ import annotations

from hwcheck.contract.wire import Value
from hwcheck.judge.records import Finding
from hwcheck.text import number, quantity

COUNTED = ("lanes", "links", "GPUs", "")
"""Units of which a percentage says no more than the two numbers."""


def of_wanted(value: Value, wanted: Value | None, unit: str) -> str:
    """Return a number that is below a wanted one as ``8 of 16 lanes``; empty for anything else."""
    if not (_is_number(value) and _is_number(wanted)):
        return ""
    measured, whole = float(value), float(wanted or 0)
    if not 0 <= measured < whole:
        return ""
    share = "" if unit in COUNTED else f", {_percent(measured / whole)}"
    return f"{number(measured)} of {quantity(wanted, unit)}{share}"


def measured(finding: Finding) -> str:
    """Return what was measured, with what was wanted and by how much it is off where that is known.

    Of a number beyond a border the border is named; a finding that passed is its value alone.
    """
    if finding.figures:
        return finding.figures
    shown = quantity(finding.value, finding.unit)
    if finding.outcome not in ("warn", "fail"):
        return shown
    if finding.is_held_against_one:
        if _is_number(finding.value) and _is_number(finding.wanted) and not finding.wanted:
            return f"{shown}, none wanted"
        short = of_wanted(finding.value or 0, finding.wanted, finding.unit)
        return short or f"{shown}, wanted {quantity(finding.wanted, finding.unit)}"
    return f"{shown}{_border(finding)}"


def _border(finding: Finding) -> str:
    """Return the border that is wanted of a number that lies beyond one: the stricter of two."""
    fail, warn = finding.fail_at, finding.warn_at
    if not isinstance(finding.value, int | float) or (fail is None and warn is None):
        return ""
    border = warn if warn is not None else fail
    assert border is not None
    # A value between both has failed neither; where both are given they tell the bad side.
    low = border > fail if fail is not None and warn not in (None, fail) else border > finding.value
    if border == 0 and not low:
        return ", none wanted"
    return f", {'at least' if low else 'at most'} {quantity(border, finding.unit)} wanted"


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 1 or percent == 0 else f"{number(percent)} %"


def _is_number(value: Value | None) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
