"""What runs over several hosts do to the outcome of each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck.advise.assessment import assess
from hwcheck.advise.catalogue import shipped
from hwcheck.advise.multi_host import FABRIC_TITLE
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import CheckResult, Sample
from hwcheck.judge.judge import judge
from hwcheck.judge.records import MULTI_HOST, Judgement
from hwcheck.results.multi_host import MultiHostRecord, Suspect, fabric_between
from hwcheck.results.run_folder import HostRecord, Run
from tests import factories
from tests.factories import gpu_facts
from tests.results.test_multi_host import RUN

HEALTHY = MultiHostRecord(("pairs",), ("a", "b"), "gloo", (RUN,), finished=True)
CHECK = "persistence_mode"


def run_of(*outcomes: str) -> Run:
    """Return a run of hosts a, b and c that one check judges so."""
    records = (host(name, outcome) for name, outcome in zip("abc", outcomes, strict=False))
    return factories.run(*records, checks=(CHECK,))


def host(name: str, outcome: str) -> HostRecord:
    answer = CheckResult(
        CHECK, "could_not_measure", Reason("not_measured", "the driver does not say")
    )
    if outcome != "inconclusive":
        answer = CheckResult(CHECK, "done", samples=(Sample(CHECK, outcome == "pass", "", "gpu0"),))
    return factories.record(name, [answer], gpus=gpu_facts(1))


def asked_for_nothing(state: str) -> Run:
    records = (
        replace(factories.record(name, []), state=state, reason=Reason("not_measured", "cut"))
        for name in "ab"
    )
    return factories.run(*records, checks=())


def outcomes(judged: Judgement) -> dict[str, str]:
    return {host.host: host.outcome for host in judged.hosts}


def test_healthy_runs_change_no_outcome() -> None:
    run = run_of("pass", "warn")
    judged = judge(run, shipped(), HEALTHY)
    assert (outcomes(judged), judged.exit_code) == ({"a": "pass", "b": "warn"}, 0)
    assert [(host.asked, host.measured) for host in judged.hosts] == [(2, 2), (2, 2)]
    assert judged.findings == judge(run, shipped()).findings


def test_a_host_that_nothing_compares_with_leaves_the_others_proven() -> None:
    record = replace(HEALTHY, not_compared={"b": "nothing to compare with"})
    run = run_of("pass", "pass")
    judged = judge(run, shipped(), record)
    assert outcomes(judged) == {"a": "pass", "b": "inconclusive"}
    (action,) = assess(run, shipped(), record).advice.actions
    assert (action.hosts, action.evidence) == (("b",), ("b: nothing to compare with",))


@pytest.mark.parametrize("suspects", [("b",), ("b", "a")])
def test_a_suspect_fails_and_so_does_the_run(suspects: tuple[str, ...]) -> None:
    record = replace(HEALTHY, suspects=(Suspect(suspects, "slow", ("5 GB/s", "20 GB/s")),))
    judged = judge(run_of("pass", "pass"), shipped(), record)
    failed = {name for name, outcome in outcomes(judged).items() if outcome == "fail"}
    assert (failed, judged.outcome, judged.exit_code) == (set(suspects), "fail", 1)
    reason = next(host.reason for host in judged.hosts if host.host == "b")
    assert "slow: 5 GB/s; 20 GB/s" in reason
    assert ("link between" in reason) == (len(suspects) == 2)


def test_what_stands_out_among_several_hosts_has_actions_of_its_own() -> None:
    record = replace(HEALTHY, suspects=(Suspect(("b",), "slow", ("5 GB/s",)),))
    assessment = assess(run_of("warn", "pass"), shipped(), record)
    titles = [(action.check, action.title) for action in assessment.advice.actions]
    assert titles == [(MULTI_HOST, "a host among others: slow"), (CHECK, CHECK)]
    assert "b" not in assessment.advice.causes.by_host, "no rule is about several hosts"


@pytest.mark.parametrize(
    ("change", "unproven"),
    [
        ({"absent": {"b": Reason("silent", "busy")}}, {"a", "b"}),
        ({"unresolved": (Reason("not_pinned", "a and b: hang"),)}, {"a", "b"}),
        ({"finished": False}, {"a", "b"}),
    ],
)
def test_what_could_not_be_measured_is_unproven(
    change: dict[str, object], unproven: set[str]
) -> None:
    judged = judge(run_of("pass", "pass", "pass"), shipped(), replace(HEALTHY, **change))  # type: ignore[arg-type]
    found = {name for name, outcome in outcomes(judged).items() if outcome == "inconclusive"}
    assert (found, judged.exit_code) == (unproven, 3), "c had no part in them"


BETWEEN = fabric_between((("a",), ("b", "c")), "slow")


@pytest.mark.parametrize(
    "text", [f"{BETWEEN}", f"rail 3: {BETWEEN}", f"{BETWEEN}; NCCL went over IB mlx5_0:1/IB"]
)
def test_the_fabric_between_hosts_fails_the_run_and_no_host(text: str) -> None:
    record = replace(HEALTHY, hosts=("a", "b", "c"), unresolved=(Reason(BETWEEN.code, text),))
    run = run_of("pass", "warn", "pass")
    judged = judge(run, shipped(), record)
    assert outcomes(judged) == {"a": "pass", "b": "warn", "c": "pass"}
    assert (judged.outcome, judged.exit_code, judged.fabric) == ("fail", 1, (text,))
    action, *_ = assess(run, shipped(), record).advice.actions
    assert (action.outcome, action.title) == ("fail", FABRIC_TITLE)
    assert action.evidence == (text,)


def test_a_fabric_that_is_fine_fails_no_run() -> None:
    judged = judge(run_of("pass", "pass"), shipped(), replace(HEALTHY, notes=(BETWEEN.text,)))
    assert (judged.outcome, judged.exit_code, judged.fabric) == ("pass", 0, ())


def test_what_else_is_open_beside_the_fabric_leaves_hosts_unproven() -> None:
    record = replace(HEALTHY, unresolved=(BETWEEN, Reason("not_pinned", "a and b: hang")))
    judged = judge(run_of("pass", "pass"), shipped(), record)
    assert set(outcomes(judged).values()) == {"inconclusive"}
    assert judged.exit_code == 1


def test_a_suspect_weighs_more_than_what_is_unproven() -> None:
    record = replace(
        HEALTHY, suspects=(Suspect(("a",), "hang", ()),), absent={"a": Reason("silent", "gone")}
    )
    judged = judge(run_of("pass", "inconclusive"), shipped(), record)
    assert (outcomes(judged)["a"], judged.exit_code) == ("fail", 1)


def test_the_verdict_names_what_checks_and_what_these_runs_found() -> None:
    record = replace(HEALTHY, warnings={"a": "NET/Socket"})
    (first, _) = judge(run_of("warn", "pass"), shipped(), record).hosts
    assert first.reason == "persistence_mode: persistence_mode of gpu0; group: NET/Socket"


def test_hosts_of_which_nothing_else_was_asked_are_judged_by_these_runs() -> None:
    judged = judge(asked_for_nothing("reported"), shipped(), HEALTHY)
    assert (outcomes(judged), judged.findings) == ({"a": "pass", "b": "pass"}, ())
    assert (judged.exit_code, judged.asked, judged.measured) == (0, 2, 2)
    alone = judge(asked_for_nothing("reported"), shipped())
    assert (set(outcomes(alone).values()), alone.exit_code) == ({"inconclusive"}, 3), "the control"


def test_what_was_lost_stays_lost() -> None:
    assert outcomes(judge(asked_for_nothing("lost"), shipped(), HEALTHY))["a"] == "inconclusive"


def test_a_host_to_which_nothing_applies_has_not_passed_by_them() -> None:
    nothing = CheckResult(CHECK, "not_applicable", Reason("not_applicable", "no GPU"))
    records = (factories.record(name, [nothing]) for name in "ab")
    judged = judge(factories.run(*records, checks=(CHECK,)), shipped(), HEALTHY)
    assert set(outcomes(judged).values()) == {"inconclusive"}
    assert {finding.reason.text for finding in judged.findings} == {"no check applies to this host"}
