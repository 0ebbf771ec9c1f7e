"""Every limit of an idle check has a case in ``tests/cases`` in which it fires."""

from __future__ import annotations

from hwcheck.contract.limits import AbovePeers, Equal, FromFleet
from tests.checks.test_cases import FILES, REGISTRY, read


def declared() -> set[tuple[str, str, str]]:
    """Return each outcome that a limit of an idle check on the node itself can give."""
    found = set()
    for name, check in REGISTRY.items():
        for metric in () if check.load or check.after_load else check.metrics:
            for limit in metric.limits:
                if isinstance(limit, AbovePeers) or isinstance(limit.operand, FromFleet):
                    continue  # tests/judge: it takes several hosts
                borders = {"fail", "warn"}
                if isinstance(limit, Equal):
                    borders = {limit.otherwise}
                else:
                    borders = {each for each in borders if getattr(limit, each) is not None}
                found |= {(name, metric.name, outcome) for outcome in borders}
    return found


def shown() -> set[tuple[str, str, str]]:
    """Return each outcome that a case shows."""
    return {
        (file.parent.name, key.split()[0], outcome)
        for file in FILES
        for key, outcome in read(file)["outcomes"].items()
    }


def test_every_limit_of_an_idle_check_fires_somewhere() -> None:
    assert declared() - shown() == set()
