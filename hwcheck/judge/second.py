"""What became of a second visit to a host, made to measure anew what lay on a border. Pure."""

from __future__ import annotations

from hwcheck.judge.legs import wrong_elements
from hwcheck.node.wire import CheckResult
from hwcheck.results.run_folder import HostRecord


def answered(second: HostRecord | None, check: str) -> CheckResult | None:
    """Return what a second visit answered to a check; None where it did not come to that."""
    results = second.report.results if second and second.report else ()
    return next((result for result in results if result.check == check), None)


def cut_short(second: HostRecord | None) -> str:
    """Return how a second visit ended that did not come to its end, otherwise an empty text."""
    if second is None or second.state == "reported":
        return ""
    return f"{second.state.replace('_', ' ')}: {second.reason}"


def why_no_figure(second: HostRecord | None, check: str, name: str) -> str:
    """Return why a second visit has no figure of a leg to compare; empty where none was made."""
    if second is None:
        return ""
    result = answered(second, check)
    leg = next((leg for leg in result.legs if leg.leg == name), None) if result else None
    if leg is None:
        said = result.reason if result else ""
        return cut_short(second) or said or f"it did not report leg {name}"
    if leg.state != "done":
        return f"leg {name}: {leg.state.replace('_', ' ')}: {leg.reason}".rstrip(": ")
    if wrong_elements(leg):
        return f"leg {name} gave wrong data"
    return f"leg {name} cannot be compared with the first"
