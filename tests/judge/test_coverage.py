from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import CheckResult
from hwcheck.judge.coverage import gaps, percent_of, require
from hwcheck.judge.judge import judge
from hwcheck.judge.records import HostVerdict, Judgement
from hwcheck.results.run_folder import HostRecord
from tests.factories import CHECKS, cpu_results, gpu_host, record, run


def _without(host: str, check: str, state: str = "could_not_measure") -> HostRecord:
    whole = gpu_host(host)
    assert whole.report is not None
    answers = tuple(
        CheckResult(check, state, Reason("not_measured", "NVML does not answer"))
        if one.check == check
        else one
        for one in whole.report.results
    )
    return replace(whole, report=replace(whole.report, results=answers))


def _judged(*records: HostRecord) -> Judgement:
    return judge(run(*records), shipped())


def test_a_run_that_measured_everything_is_covered() -> None:
    judgement = require(_judged(gpu_host("a"), gpu_host("b")), 100)
    assert (judgement.outcome, judgement.exit_code, judgement.shortfall) == ("pass", 0, "")
    assert judgement.required_percent == 100
    assert percent_of(judgement.hosts) == 100.0


@pytest.mark.parametrize(("percent", "short"), [(100, True), (86, True), (85, False), (1, False)])
def test_one_check_of_seven_is_missing(percent: float, short: bool) -> None:
    judgement = require(_judged(_without("a", "power_cap")), percent)
    assert percent_of(judgement.hosts) == 85.7
    assert bool(judgement.shortfall) is short
    assert judgement.exit_code == 3, "what could not be measured never passes"
    wanted = (
        f"below the required coverage of {percent} % on 1 host: not measured: power_cap on a: "
        "NVML does not answer"
    )
    assert judgement.shortfall == (wanted if short else "")


def test_hosts_are_not_averaged() -> None:
    hosts = [gpu_host(f"h{i:02d}") for i in range(20)]
    judgement = require(_judged(*hosts, record("down", None, reason="no route")), 90)
    assert percent_of(judgement.hosts) == 95.2
    assert "90 % on 1 host" in judgement.shortfall
    assert "on down: no route" in judgement.shortfall


def test_a_failure_stays_a_failure_and_the_line_is_told() -> None:
    failed = gpu_host("bad", nvml_gpus=7)
    judgement = require(_judged(failed, _without("a", "driver")), 100)
    assert (judgement.outcome, judgement.exit_code) == ("fail", 1)
    assert "driver on a" in judgement.shortfall


def test_a_run_without_a_gap_in_its_outcome_is_held_to_its_coverage() -> None:
    """A judgement that passes with less than was asked: the requirement alone turns it."""
    verdict = HostVerdict("a", "pass", "reported", "", 4, 3, 0, (("xid", "busy"),))
    passed = Judgement("pass", 0, (replace(verdict, unmeasured=verdict.skipped),), ())
    assert require(passed, 75).exit_code == 0
    short = require(passed, 80)
    assert (short.outcome, short.exit_code) == ("inconclusive", 3)
    assert short.shortfall.endswith("not measured: xid on a: busy")


def test_where_nothing_applies_nothing_is_covered() -> None:
    of_gpus = CHECKS[1:]
    nothing = [
        CheckResult(check, "not_applicable", Reason("not_applicable", "no GPU"))
        for check in of_gpus
    ]
    judgement = require(judge(run(record("c", nothing), checks=of_gpus), shipped()), 1)
    assert percent_of(judgement.hosts) is None
    assert judgement.exit_code == 3
    assert "no check applies to c" in judgement.shortfall


def test_what_does_not_apply_is_told_and_is_no_lack() -> None:
    judgement = require(_judged(record("c1", cpu_results()), record("c2", cpu_results())), 100)
    assert judgement.shortfall == ""
    (gap,) = gaps(judgement)
    assert not gap.applies
    assert gap.hosts == ("c1", "c2")
    assert set(gap.checks) == set(CHECKS) - {"all_reduce"}


def test_gaps_are_folded_by_reason_and_what_applies_comes_first() -> None:
    judgement = _judged(
        record("c", cpu_results()),
        _without("a1", "driver"),
        _without("a2", "driver"),
        _without("a3", "power_cap"),
    )
    found = gaps(judgement)
    assert [(gap.checks, gap.hosts) for gap in found[:2]] == [
        (("driver",), ("a1", "a2")),
        (("power_cap",), ("a3",)),
    ]
    assert [gap.applies for gap in found] == [True, True, False]
    assert str(found[0]) == "driver on a[1-2]: NVML does not answer"
