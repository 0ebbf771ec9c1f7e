"""Samples in, findings and verdicts out."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.contract.check import Check, Metric, Remedy
from hwcheck.contract.limits import AtLeast, AtMost, Equal, FromInventory, FromModel, FromSample
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import CheckResult, Leg, Report, Sample, Timing
from hwcheck.judge.host_case import NodeFacts
from hwcheck.judge.judge import judge
from hwcheck.judge.limits import judge_answer
from hwcheck.results.run_folder import HostPlan, HostRecord, Run, RunMeta
from tests.factories import gloo_legs, hung, leg, reduce_result, wrong

LIMITS = (
    Metric("watts", "W", "", (AtLeast("s", fail=0.8, warn=0.95, of=FromSample("watts_max")),)),
    Metric("watts_max", "W", ""),
    Metric("count", "", "", (Equal(FromInventory("gpus"), "s"),)),
    Metric("hot", "C", "", (AtMost("s", fail=90, warn=80),)),
)
CHECK = Check("demo", lambda node: iter(()), LIMITS, Remedy("c", "f"), True, False, "doc")


def outcomes(result: CheckResult, expect: dict | None = None) -> list[tuple[str, str, str]]:
    found = judge_answer("node01", CHECK, result, NodeFacts(expect or {}), shipped().models)
    return [(finding.metric, finding.subject, finding.outcome) for finding in found]


def done(*samples: Sample, state: str = "done", reason: str = "") -> CheckResult:
    return CheckResult("demo", state, Reason("not_measured", reason), samples)


@pytest.mark.parametrize(
    ("watts", "outcome"), [(700, "pass"), (665, "pass"), (600, "warn"), (500, "fail")]
)
def test_a_share_of_another_metric_of_the_same_subject(watts: int, outcome: str) -> None:
    samples = (
        Sample("watts", watts, "W", "gpu0"),
        Sample("watts_max", 700, "W", "gpu0"),
        Sample("watts_max", 100, "W", "gpu1"),
    )
    assert outcomes(done(*samples)) == [("watts", "gpu0", outcome)]


def test_the_reference_of_the_node_serves_a_gpu_that_has_none() -> None:
    samples = (Sample("watts", 500, "W", "gpu0"), Sample("watts_max", 700, "W"))
    assert outcomes(done(*samples)) == [("watts", "gpu0", "fail")]


def test_no_reference_is_inconclusive_and_never_a_pass() -> None:
    (finding,) = judge_answer(
        "n", CHECK, done(Sample("watts", 700, "W", "gpu0")), NodeFacts(), shipped().models
    )
    assert (finding.outcome, finding.reason.text) == (
        "inconclusive",
        "no watts_max to hold watts against",
    )


OF_MODEL = replace(
    CHECK, metrics=(Metric("copy", "GB/s", "", (AtLeast("s", 0.8, of=FromModel("memory_gbps")),)),)
)


@pytest.mark.parametrize(
    ("name", "device", "gbps", "outcome"),
    [
        ("NVIDIA H200", "", 3400.0, "pass"),
        ("NVIDIA H200", "0x233510DE", 3300.0, "fail"),
        ("NVIDIA H200", "0xFFFF10DE", 9000.0, "inconclusive"),
        ("NVIDIA GeForce 9", "", 9000.0, "inconclusive"),
        ("", "", 9000.0, "inconclusive"),
    ],
)
def test_the_figure_of_the_model_of_the_subject(
    name: str, device: str, gbps: float, outcome: str
) -> None:
    known = NodeFacts({}, {"gpu0": "NVIDIA B200", "gpu1": name}, devices={"gpu1": device})
    result = done(Sample("copy", gbps, "GB/s", "gpu1"))
    (finding,) = judge_answer("n", OF_MODEL, result, known, shipped().models)
    assert finding.outcome == outcome
    assert (finding.reason.text != "") == (outcome == "inconclusive")


def test_an_expectation_counts_only_where_the_inventory_declares_it() -> None:
    result = done(Sample("count", 7), Sample("hot", 30, "C"))
    assert outcomes(result) == [("hot", "node", "pass")]
    assert ("count", "node", "fail") in outcomes(result, {"gpus": 8})
    assert ("count", "node", "pass") in outcomes(result, {"gpus": 7})


def test_an_expectation_of_zero_is_declared() -> None:
    assert ("count", "node", "fail") in outcomes(done(Sample("count", 1)), {"gpus": 0})


def test_what_was_measured_before_a_check_gave_up_still_counts() -> None:
    result = done(
        Sample("hot", 95, "C", "gpu0"), state="could_not_measure", reason="gpu1: GPU is lost"
    )
    assert outcomes(result) == [("hot", "gpu0", "fail"), ("", "node", "inconclusive")]


def test_a_node_that_says_done_and_sends_nothing_has_not_passed() -> None:
    assert outcomes(done()) == [("", "node", "inconclusive")]


@pytest.mark.parametrize(
    "sample",
    [
        Sample("made_up", 1, "W"),
        Sample("hot", 1, "K"),
        Sample("hot", "cold", "C"),
    ],
    ids=["unknown metric", "other unit", "text for a number"],
)
def test_a_sample_that_is_not_the_metric_is_inconclusive(sample: Sample) -> None:
    assert [outcome for *_, outcome in outcomes(done(sample))] == ["inconclusive"]


def test_not_applicable_gives_no_finding() -> None:
    assert outcomes(done(state="not_applicable", reason="no GPU")) == []


def test_a_sample_beside_not_applicable_still_counts() -> None:
    hot = done(Sample("hot", 95, "C"), state="not_applicable", reason="no GPU")
    assert outcomes(hot) == [("hot", "node", "fail")]


def test_a_failure_says_what_it_means_where_the_node_does() -> None:
    check = replace(CHECK, metrics=(*LIMITS, Metric("meaning", "", "in words")))
    samples = (
        *(Sample("hot", 95, "C", "gpu0"), Sample("meaning", "it burns", "", "gpu0")),
        *(Sample("hot", 40, "C", "gpu1"), Sample("meaning", "it is well", "", "gpu1")),
        Sample("hot", 95, "C", "gpu2"),
    )
    found = judge_answer("n", check, done(*samples), NodeFacts(), shipped().models)
    assert [finding.reason.text for finding in found] == ["it burns", "", ""]


def run(*records: HostRecord, asked: tuple[str, ...] = ("persistence_mode",)) -> Run:
    plans = tuple(HostPlan(record.host, record.host) for record in records)
    return Run(Path(), RunMeta("id", "now", asked, plans), records)


def reported(host: str, *results: CheckResult, gpus: int = 1) -> HostRecord:
    named = ({"index": i, "name": "NVIDIA H200", "uuid": f"{host}-{i}"} for i in range(gpus))
    facts = {"gpus": list(named)}
    return HostRecord(host, "reported", report=Report(facts, results))


def persistence(mode: bool) -> CheckResult:
    return CheckResult(
        "persistence_mode", "done", samples=(Sample("persistence_mode", mode, "", "gpu0"),)
    )


NOT_APPLICABLE = CheckResult(
    "persistence_mode", "not_applicable", Reason("not_applicable", "no GPU")
)


def test_exit_codes() -> None:
    good, warned = reported("a", persistence(True)), reported("b", persistence(False))
    away = HostRecord("c", "unreachable", Reason("not_measured", "connect: refused"))
    assert (judge(run(good), shipped()).outcome, judge(run(good), shipped()).exit_code) == (
        "pass",
        0,
    )
    assert (
        judge(run(good, warned), shipped()).outcome,
        judge(run(good, warned), shipped()).exit_code,
    ) == ("warn", 0)
    assert (
        judge(run(good, away), shipped()).outcome,
        judge(run(good, away), shipped()).exit_code,
    ) == ("inconclusive", 3)


def counted(hosts: int, expect: Callable[[int], int], samples: tuple[Sample, ...]) -> list[str]:
    """Return host and outcome of each finding; the answers of all hosts are one object."""
    answer = CheckResult("gpu_count", "done", samples=samples)
    records = tuple(reported(f"n{number}", answer, gpus=8) for number in range(hosts))
    a_run = run(*records, asked=("gpu_count",))
    plans = tuple(
        replace(plan, expect={"gpus": expect(number)})
        for number, plan in enumerate(a_run.meta.hosts)
    )
    found = judge(replace(a_run, meta=replace(a_run.meta, hosts=plans)), shipped()).findings
    return [f"{each.host} {each.outcome}" for each in found if "hwcheck_gpus" in each.limit]


COUNTS = (Sample("nvml_gpus", 8, "GPUs"),)


def test_hosts_that_answer_alike_are_each_judged() -> None:
    assert counted(3, lambda number: 8, COUNTS) == ["n0 pass", "n1 pass", "n2 pass"]


def test_the_same_answer_is_held_against_what_each_host_should_have() -> None:
    assert counted(3, lambda number: 8 - number % 2, COUNTS) == ["n0 pass", "n1 fail", "n2 pass"]


def test_answers_that_are_not_kept_are_judged_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hwcheck.judge.limits.REMEMBERED", 0)
    assert counted(2, lambda number: 8 - number, COUNTS) == ["n0 pass", "n1 fail"]


def test_a_failure_beats_what_could_not_be_measured() -> None:
    samples = (Sample("pci_gpus", 8, "GPUs"), Sample("nvml_gpus", 7, "GPUs"))
    counts = CheckResult("gpu_count", "done", samples=samples)
    away = HostRecord("b", "unreachable", Reason("not_measured", "connect: refused"))
    judgement = judge(run(reported("a", counts), away, asked=("gpu_count",)), shipped())
    assert (judgement.outcome, judgement.exit_code) == ("fail", 1)
    assert [verdict.outcome for verdict in judgement.hosts] == ["fail", "inconclusive"]


def test_a_host_with_nothing_to_check_has_not_passed() -> None:
    judgement = judge(run(reported("a", NOT_APPLICABLE, gpus=0)), shipped())
    assert (judgement.outcome, judgement.exit_code) == ("inconclusive", 3)
    assert judgement.hosts[0].reason == "no check applies to this host"


def test_coverage_counts_what_applies() -> None:
    results = (
        persistence(True),
        CheckResult("ecc_mode", "not_applicable", Reason("not_applicable", "no ECC")),
    )
    asked = ("persistence_mode", "ecc_mode", "gpu_count")
    (verdict,) = judge(run(reported("a", *results), asked=asked), shipped()).hosts
    assert (verdict.asked, verdict.measured, verdict.not_applicable) == (2, 1, 1)
    assert dict(verdict.skipped) == {"ecc_mode": "no ECC", "gpu_count": "no answer"}
    assert verdict.outcome == "inconclusive"


def test_a_check_without_an_answer_is_no_pass() -> None:
    record = HostRecord("a", "reported", report=None)
    (verdict,) = judge(run(record), shipped()).hosts
    assert (verdict.outcome, verdict.reason) == ("inconclusive", "1 checks gave no answer")


def test_a_partial_answer_keeps_what_arrived() -> None:
    record = HostRecord(
        "a", "partial", Reason("not_measured", "cut off"), report=Report({}, (persistence(True),))
    )
    judgement = judge(run(record, asked=("persistence_mode", "driver")), shipped())
    assert judgement.exit_code == 3
    assert [f.outcome for f in judgement.findings if f.check == "persistence_mode"] == ["pass"]
    assert [f.reason.text for f in judgement.findings if f.check == "driver"] == [
        "not reached: cut off"
    ]


def test_a_check_of_another_version_is_inconclusive() -> None:
    asked = ("persistence_mode", "from_the_future")
    judgement = judge(run(reported("a", persistence(True)), asked=asked), shipped())
    assert judgement.exit_code == 3


@pytest.mark.parametrize(
    ("expect", "exit_code"), [({"gpus": 8}, 3), ({"gpus": 0}, 0), ({}, 0)], ids=str
)
def test_not_applicable_does_not_pass_for_what_the_inventory_declares(
    expect: dict, exit_code: int
) -> None:
    record = reported(
        "a",
        CheckResult("gpu_count", "not_applicable", Reason("not_applicable", "no GPU")),
        CPU_LEGS,
        gpus=0,
    )
    plan = RunMeta("id", "now", ("gpu_count", "all_reduce"), (HostPlan("a", "a", expect),))
    judgement = judge(Run(Path(), plan, (record,)), shipped())
    assert judgement.exit_code == exit_code
    assert (judgement.asked, judgement.measured) == ((2, 1) if exit_code else (1, 1))


@pytest.mark.parametrize(("declared", "exit_code"), [(1, 0), (8, 3), (0, 3)])
def test_a_node_that_names_another_number_of_gpus_has_not_passed(
    declared: int, exit_code: int
) -> None:
    plan = RunMeta("id", "now", ("persistence_mode",), (HostPlan("a", "a", {"gpus": declared}),))
    judgement = judge(Run(Path(), plan, (reported("a", persistence(True)),)), shipped())
    assert judgement.exit_code == exit_code


LEGS = (leg(), leg("p2p_off", 40.0), leg("net", 9.0))
CPU_LEGS = reduce_result(gloo_legs())


def reduced(*legs: Leg, gpus: int = 8, **changes: Any) -> str:
    """Return the outcome of a host that answers with these legs."""
    record = reported("a", replace(reduce_result(legs), **changes), gpus=gpus)
    return judge(run(record, asked=("all_reduce",)), shipped()).outcome


def test_legs_over_all_gpus_pass() -> None:
    assert reduced(*LEGS) == "pass"
    assert reduced(*gloo_legs(), gpus=0) == "pass"
    assert reduced(*(leg(name, ranks=1) for name in ("default", "p2p_off", "net")), gpus=1) == (
        "pass"
    )


@pytest.mark.parametrize(
    ("legs", "outcome"),
    [
        ((), "inconclusive"),
        (LEGS[:1], "inconclusive"),
        (LEGS[1:2], "inconclusive"),
        (tuple(replace(one, sizes=()) for one in LEGS), "inconclusive"),
        (gloo_legs(), "inconclusive"),
        (tuple(leg(one.leg, ranks=1) for one in LEGS), "inconclusive"),
        (tuple(leg(one.leg, ranks=4) for one in LEGS), "inconclusive"),
        ((replace(LEGS[0], collective="broadcast"), *LEGS[1:]), "inconclusive"),
        ((hung(), *LEGS[1:]), "fail"),
        ((wrong(), *LEGS[1:]), "fail"),
        ((LEGS[0], replace(LEGS[1], state="not_engaged"), LEGS[2]), "inconclusive"),
    ],
)
def test_legs_that_do_not_prove_all_gpus_do_not_pass(legs: tuple[Leg, ...], outcome: str) -> None:
    assert reduced(*legs) == outcome


@pytest.mark.parametrize(
    ("legs", "outcome"),
    [((), "inconclusive"), ((hung(), *LEGS[1:]), "fail"), ((wrong(), *LEGS[1:]), "fail")],
    ids=["no legs", "hang", "wrong"],
)
def test_samples_do_not_speak_for_legs(legs: tuple[Leg, ...], outcome: str) -> None:
    assert reduced(*legs, samples=reduce_result(LEGS).samples) == outcome
    assert reduced(*LEGS, samples=()) == "inconclusive"


def test_a_reading_that_cannot_be_is_inconclusive_and_no_reference() -> None:
    found = outcomes(done(Sample("watts", 700, "W", "gpu0"), Sample("watts_max", -5, "W", "gpu0")))
    assert found == [("", "gpu0", "inconclusive"), ("watts", "gpu0", "inconclusive")]


@pytest.mark.parametrize(
    ("asked", "outcome"),
    [((), "inconclusive"), (("default",), "pass"), (("default", "p2p_sys"), "inconclusive")],
)
def test_legs_that_were_not_asked_for_are_not_missed(asked: tuple[str, ...], outcome: str) -> None:
    record = reported("a", reduce_result(LEGS[:1]), gpus=8)
    made = run(record, asked=("all_reduce",))
    assert (
        judge(replace(made, meta=replace(made.meta, timing=Timing(asked))), shipped()).outcome
        == outcome
    )
