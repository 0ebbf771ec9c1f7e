from __future__ import annotations

from collections.abc import Mapping

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.contract.check import Check
from hwcheck.judge.judge import judge
from hwcheck.report import words
from hwcheck.report.decision import decide, decision
from hwcheck.results.multi_host import MultiHostRecord, fabric_between
from hwcheck.results.run_folder import HostRecord
from tests import factories
from tests.factories import gpu_host, record
from tests.report.example import judged

FAIL = {"power_limit_w": (0, 300.0)}
WARN = {"persistence_mode": False}


EVERY = shipped().checks
ASKED = {name: check for name, check in EVERY.items() if name in factories.CHECKS}
"""Those of the factories' hosts, as if hwcheck had no others."""


def line(*hosts: HostRecord, checks: Mapping[str, Check] = EVERY) -> str:
    assessment = judged(factories.run(*hosts))
    return decision(decide(assessment.run, assessment.judgement, checks))


def down(host: str, number: int = 4, reason: str = "no answer from 10.0.0.{}:22") -> HostRecord:
    return record(host, None, phase="connect", reason=reason.format(number))


def test_whom_to_drain_who_may_work_and_of_whom_nothing_is_known() -> None:
    hosts = [gpu_host("node01"), gpu_host("node02", **FAIL), gpu_host("node03", **FAIL)]
    hosts += [gpu_host("node04"), down("node05"), gpu_host("node06", **WARN)]
    assert line(*hosts, checks=ASKED) == (
        "Drain node[02-03]; 2 may go into service; 1 may, with warnings; 1 unreachable."
    )
    assert line(gpu_host("a", **WARN), checks=ASKED) == "1 may go into service, with warnings."


def test_nothing_goes_into_service_of_which_not_all_was_asked() -> None:
    assert line(gpu_host("a"), gpu_host("b")) == "2 passed what was asked."
    assert line(gpu_host("a", **WARN)) == "1 passed what was asked, with warnings."


def test_nothing_goes_into_service_without_a_gpu_or_after_an_exercise() -> None:
    assert line(record("a", factories.cpu_results()), checks=ASKED) == "1 passed what was asked."
    exercised = gpu_host("b", factories.gloo_legs())
    assert "service" not in line(exercised, checks=ASKED)
    assert line(gpu_host("b"), checks=ASKED) == "1 may go into service.", "the control"


BETWEEN = fabric_between((("a",), ("b",)), "slow")
FABRIC_LINE = BETWEEN.text


def test_what_connects_groups_of_hosts_is_to_be_mended() -> None:
    run = factories.run(gpu_host("a"), gpu_host("b"))
    groups = decide(run, judge(run, shipped()), shipped().checks)
    began = "2 passed what was asked; mend the fabric between "
    assert decision(groups, [f"rail 1: {FABRIC_LINE}", FABRIC_LINE]) == f"{began}a and b."
    other = fabric_between((("a",), ("c",)), "slow").text
    assert decision(groups, [FABRIC_LINE, other]) == f"{began}groups of hosts."
    long = fabric_between((("a",), ("b" * 150,)), "slow").text
    assert decision(groups, [long]) == f"{began}groups of hosts."


@pytest.mark.parametrize(
    ("hosts", "verdict"),
    [
        (("a", "b"), "None of 2 hosts failed; but what connects groups of them did."),
        (("a", "bad"), "1 of 2 hosts failed, and what connects groups of them did."),
    ],
)
def test_the_verdict_names_the_fabric(hosts: tuple[str, ...], verdict: str) -> None:
    run = factories.run(*(gpu_host(name, **(FAIL if name == "bad" else {})) for name in hosts))
    record = MultiHostRecord(("all",), hosts, unresolved=(BETWEEN,), finished=True)
    assert words.verdict(judge(run, shipped(), record)) == verdict


def test_a_host_that_could_not_be_measured_is_named() -> None:
    lost = record("b", None, state="lost", phase="run", reason="the connection broke")
    assert line(gpu_host("a"), lost) == "1 passed what was asked; not proven: b."
    assert line(lost) == "Not proven: b."
    assert line(record("a", None, state="not_visited")) == "1 not visited."


def test_long_lists_of_names_stand_below_the_line() -> None:
    hosts = [gpu_host(f"{letter}-{number}", **FAIL) for letter in "abcdefgh" for number in (1, 9)]
    assert line(*hosts) == "Drain 16 hosts."


def test_every_host_is_in_one_group_and_unreachable_ones_are_folded_by_reason() -> None:
    unknown = "cannot resolve {}: Name or service not known"
    hosts = [
        gpu_host("n1"),
        *(down(f"n{number}", number) for number in (2, 3, 4)),
        record("n5", None, phase="name lookup", reason=unknown.format("n5")),
        record("n6", None, phase="jump host", reason="jump host gate: connect: no answer"),
    ]
    assessment = judged(factories.run(*hosts))
    groups = decide(assessment.run, assessment.judgement, shipped().checks)
    names = [name for group in groups for name in group.hosts]
    assert sorted(names) == [host.host for host in hosts]
    assert groups[-1].reasons == (
        ("connect: no answer from 10.0.0.2:22, and alike", "n[2-4]"),
        ("name lookup: cannot resolve n5: Name or service not known", "n5"),
        ("jump host gate: connect: no answer", "n6"),
    )
