"""What a report says: which host, what is wrong there, and which role and variable mend it."""

from __future__ import annotations

import pytest

from hwcheck.provision.state.cases import APPLIED_BY, AssertCase
from hwcheck.provision.state.verdict import FAIL, INCONCLUSIVE, NOT_APPLICABLE, PASS
from hwcheck.text import line


def explain(
    report: pytest.TestReport, call: pytest.CallInfo[None], case: AssertCase, mend: str
) -> list[tuple[str, object]]:
    """Complete pytest's report of one phase of a case; return properties of the test.

    Only a failed ``assert`` of the test itself is a failure. Any other error is what could not be
    measured: pytest then shows it as the error of a phase before the test.
    """
    outcome, reason = _outcome(report, call)
    if not outcome:
        return []
    if outcome == FAIL:
        about = f"role {case.role}, variable {case.variable}"
        command = f"{mend} --limit {case.host.name} --tags {APPLIED_BY.get(case.role, case.role)}"
        report.longrepr = f"{case.host.name}: {reason}\n{about}; to mend it: {command}"
        reason = f"{reason} ({about})"
    elif outcome == INCONCLUSIVE:
        report.when = "setup"
        report.longrepr = f"{case.host.name}: not measured: {reason} (role {case.role})"
    return [
        ("host", case.host.name),
        ("role", case.role),
        ("variable", case.variable),
        ("outcome", outcome),
        ("reason", reason),
    ]


def _outcome(report: pytest.TestReport, call: pytest.CallInfo[None]) -> tuple[str, str]:
    """Return the outcome and its reason; empty for a phase that passes before or after the test."""
    if call.excinfo is None:
        return (PASS, "") if report.when == "call" else ("", "")
    error = call.excinfo.value
    if isinstance(error, pytest.skip.Exception):
        return NOT_APPLICABLE, line(str(error.msg))
    # What pytest adds to an assertion's own message stands on lines of its own.
    reason = line(next(iter(str(error).splitlines()), "")) or type(error).__name__
    if report.when == "call" and isinstance(error, AssertionError):
        return FAIL, reason
    return INCONCLUSIVE, reason
