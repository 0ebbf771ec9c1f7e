from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck import checks
from hwcheck.advise.actions import actions, advise
from hwcheck.advise.catalogue import shipped
from hwcheck.advise.records import Action
from hwcheck.contract.reasons import AT_WORK, CRASHED, NO_TORCH, NOT_MEASURED, Reason
from hwcheck.contract.wire import CheckResult
from hwcheck.judge.judge import judge
from hwcheck.judge.records import OUTCOMES, Finding, Judgement
from hwcheck.results.run_folder import Run
from tests.factories import (
    CHECKS,
    HOSTILE,
    cpu_results,
    gpu_facts,
    gpu_host,
    hung,
    leg,
    record,
    results,
    run,
)


def _actions(a_run: Run) -> tuple[Action, ...]:
    return actions(a_run, judge(a_run, shipped()), shipped().checks)


def _with(host: str, answer: CheckResult) -> Run:
    answers = [a for a in results([leg()]) if a.check != answer.check]
    return run(record(host, [*answers, answer], gpus=gpu_facts()))


def test_a_healthy_run_needs_nothing() -> None:
    assert _actions(run(gpu_host("node01"), record("cpu", cpu_results()))) == ()


def test_equal_failures_are_one_action_with_the_checks_remedy() -> None:
    bad = [gpu_host(f"node{i:02d}", power_limit_w=(3, 400.0)) for i in range(1, 4)]
    (action,) = _actions(run(*bad, gpu_host("node04")))
    remedy = checks.load()["power_cap"].remedy
    assert (action.check, action.outcome) == ("power_cap", "fail")
    assert (action.cause, action.fix, action.command) == (remedy.cause, remedy.fix, remedy.command)
    assert action.hosts == ("node01", "node02", "node03")
    (evidence,) = action.evidence
    assert evidence.startswith(
        "gpu3 on node[01-03]: power_limit_percent 400 of 700 W, 57 %; limit: fail"
    )
    assert "source: " in evidence


def test_many_different_values_become_a_range() -> None:
    bad = [gpu_host(f"n{i:02d}", power_limit_w=300.0 + 10 * i) for i in range(10)]
    (action,) = _actions(run(*bad))
    (evidence,) = action.evidence
    assert "power_limit_percent 42.9 to 55.7 %" in evidence
    assert evidence.startswith("gpu[0-7] on n[00-09]")


def test_worst_first_then_by_number_of_hosts() -> None:
    seven = [leg(name, ranks=7) for name in ("default", "p2p_off", "net")]
    found = _actions(
        run(
            gpu_host("a", persistence_mode=False),
            gpu_host("b", power_limit_w=(0, 300.0)),
            record("c", None, reason="down", phase="connect"),
            gpu_host("d", seven, nvml_gpus=7, power_limit_w=(0, 300.0)),
        )
    )
    assert [(action.check, len(action.hosts)) for action in found] == [
        ("power_cap", 2),
        ("gpu_count", 1),
        ("", 1),
        ("persistence_mode", 1),
    ]
    ranks = [OUTCOMES.index(action.outcome) for action in found]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize(
    ("state", "code", "words"),
    [
        ("busy", AT_WORK, "run again when it is idle"),
        ("could_not_measure", NO_TORCH, "hwcheck_torch_python"),
        ("could_not_measure", CRASHED, "report it"),
        ("could_not_measure", NOT_MEASURED, "then run again"),
    ],
)
def test_what_could_not_be_measured_says_how_to_make_it_measurable(
    state: str, code: str, words: str
) -> None:
    (action,) = _actions(
        _with("node01", CheckResult("all_reduce", state, Reason(code, "for its reason")))
    )
    assert action.outcome == "inconclusive"
    assert words in action.fix
    assert "for its reason" in action.evidence[0]


def test_a_host_to_which_nothing_applies_gave_a_whole_answer() -> None:
    (action,) = _actions(run(record("cpu", cpu_results()[1:]), checks=CHECKS[1:]))
    assert (action.title, action.outcome) == ("nothing applies", "inconclusive")
    assert action.cause.startswith("nothing that was asked for applies")
    assert "hwcheck_gpus" in action.fix


def test_a_host_that_miscounts_its_gpus_gave_a_whole_answer() -> None:
    a_run = run(gpu_host("a"))
    plan = replace(a_run.meta.hosts[0], expect={"gpus": 9})
    found = _actions(replace(a_run, meta=replace(a_run.meta, hosts=(plan,))))
    assert "the host as a whole" in [action.title for action in found]


def test_reasons_that_differ_in_numbers_and_names_are_one_action() -> None:
    def busy(host: str, pid: int) -> CheckResult:
        return CheckResult(
            "all_reduce", "busy", Reason("at_work", f"gpu0 of {host} is in use by process {pid}")
        )

    hosts = [_with(f"node{i}", busy(f"node{i}", 100 + i)).records[0] for i in range(20)]
    (action,) = _actions(run(*hosts))
    assert len(action.hosts) == 20
    assert len(action.evidence) == 1
    assert "and 19 alike" in action.evidence[0]


def test_an_unknown_check_is_said_to_be_unknown() -> None:
    a_run = run(gpu_host("a"))
    judgement = judge(a_run, shipped())
    alien = replace(
        judgement, findings=(Finding("a", "flux", "fail", reason=Reason("", "broken")),)
    )
    (action,) = actions(a_run, alien, shipped().checks)
    assert "no such check" in action.cause


def test_evidence_is_bounded_and_harmless() -> None:
    findings = tuple(
        Finding(
            "a",
            "driver",
            "fail",
            metric=f"m{i}",
            subject=text,
            value=text,
            reason=Reason("", text),
            unit=text,
        )
        for i, text in enumerate(HOSTILE * 5)
    )
    a_run = run(gpu_host("a"))
    judgement = Judgement("fail", 1, judge(a_run, shipped()).hosts, findings)
    (action,) = actions(a_run, judgement, shipped().checks)
    assert len(action.evidence) <= 13
    for text in action.evidence:
        assert text.isprintable()
        assert len(text) < 2000


def test_a_huge_figure_breaks_nothing() -> None:
    findings = tuple(Finding("a", "driver", "fail", "m", f"gpu{i}", 10**400 + i) for i in range(10))
    a_run = run(gpu_host("a"))
    (action,) = actions(
        a_run, Judgement("fail", 1, judge(a_run, shipped()).hosts, findings), shipped().checks
    )
    assert "more than 1e308" in action.evidence[0]


def test_advise_joins_actions_and_nccl() -> None:
    a_run = run(gpu_host("a", [hung(), leg("p2p_off", 20.0), leg("net", 9.0)], nvlink_links=0))
    advice = advise(a_run, judge(a_run, shipped()), shipped())
    assert [action.check for action in advice.actions] == ["all_reduce"]
    assert [setting.name for setting in advice.nccl.settings] == ["NCCL_P2P_DISABLE"]


def test_one_cause_that_blinds_many_checks_is_one_action_without_their_commands() -> None:
    reasons = {
        "all_reduce": "no torch under /usr/bin/python3",
        "temperature_idle": "torch cannot be imported (libcudart.so.12)",
        "power_cap": "no torch under /usr/bin/python3",
    }
    blind = [
        CheckResult(a.check, "could_not_measure", Reason(NO_TORCH, reasons[a.check]))
        if a.check in reasons
        else a
        for a in results([leg()])
    ]
    (action,) = _actions(run(record("a", blind, gpus=gpu_facts())))
    assert set(action.checks) == set(reasons)
    assert action.title.startswith("3 checks could not be measured: ")
    assert "import torch" in action.command
    remedies = [checks.load()[name].remedy for name in reasons]
    assert action.command not in [remedy.command for remedy in remedies]
    assert action.role == "validation_env"


def test_other_reasons_stay_other_actions() -> None:
    answers = [
        CheckResult(
            a.check, "could_not_measure", Reason("not_measured", f"{a.check} is not told here")
        )
        if a.check in ("power_cap", "pcie_link")
        else a
        for a in results([leg(), leg("p2p_off", 40.0), leg("net", 9.0)])
    ]
    found = _actions(run(record("a", answers, gpus=gpu_facts())))
    assert {action.check for action in found} == {"power_cap", "pcie_link"}
