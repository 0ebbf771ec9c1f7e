"""Which figures lie on a border, so that they are measured again before they are judged. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from hwcheck.judge.evidence import known_of
from hwcheck.judge.expectation import on_a_border
from hwcheck.results.run_folder import Run

Border = Mapping[str, tuple[str, ...]]
"""Legs by check."""


def borders(run: Run) -> dict[str, Border]:
    """Return what is to be measured again, by host; only hosts that answered to the end."""
    found: dict[str, Border] = {}
    for plan, record in zip(run.meta.hosts, run.records, strict=True):
        if record.state != "reported" or record.report is None:
            continue
        known = known_of(plan.expect, record)
        own = {
            result.check: legs
            for result in record.report.results
            if (legs := on_a_border(result.legs, record, known))
        }
        if own:
            found[plan.name] = own
    return found
