"""What a board counted in its life is history: it is held against no other board."""

from __future__ import annotations

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.contract.wire import CheckResult, Sample
from hwcheck.judge.judge import judge
from hwcheck.judge.records import Finding
from tests import factories
from tests.judge.nodes import H100

HOSTS = 8
QUIET = {
    "ecc_uncorrected_volatile": 0,
    "ecc_corrected_volatile": 0,
    "ecc_uncorrected_aggregate": 0,
    "ecc_corrected_aggregate": 0,
}


def warned_of(**counts: int) -> list[Finding]:
    """Return what is no pass where gpu0 of the first of eight hosts counts this."""
    records = []
    for number in range(HOSTS):
        values = {**QUIET, **(counts if number == 0 else {})}
        samples = [
            Sample(metric, value if gpu == 0 else 0, "errors", f"gpu{gpu}")
            for gpu in range(2)
            for metric, value in values.items()
        ]
        samples += [Sample("ecc_corrected_per_hour", 0.0, "errors/h", f"gpu{n}") for n in (0, 1)]
        answer = CheckResult("ecc_errors", "done", samples=tuple(samples))
        gpus = factories.gpu_facts(2, H100)
        records.append(factories.record(f"n{number}", [answer], gpus=gpus))
    findings = judge(factories.run(*records, checks=["ecc_errors"]), shipped()).findings
    return [finding for finding in findings if finding.check and finding.outcome != "pass"]


@pytest.mark.parametrize("count", [1500, 90_000, 40_000_000])
@pytest.mark.parametrize("metric", ["ecc_corrected_aggregate", "ecc_uncorrected_aggregate"])
def test_a_count_of_a_life_is_no_outlier(metric: str, count: int) -> None:
    assert warned_of(**{metric: count}) == []


def test_the_same_count_since_the_driver_was_loaded_is_one() -> None:
    (finding,) = warned_of(ecc_corrected_volatile=90_000)
    assert (finding.host, finding.metric, finding.outcome) == (
        "n0",
        "ecc_corrected_volatile",
        "warn",
    )
