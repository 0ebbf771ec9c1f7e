"""What a training benchmark has against a host."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from hwcheck.advise.assessment import Assessment, assess
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import Report
from hwcheck.report.html import html
from hwcheck.report.markdown import markdown
from hwcheck.report.summary import summary
from hwcheck.report.terminal import MOST_TABLES, terminal
from hwcheck.results.run_folder import HostPlan, HostRecord, Run, RunMeta
from hwcheck.results.training import TrainingRecord
from tests.advise.test_training_figures import a_run, the_guide


def assessed(record: TrainingRecord) -> Assessment:
    meta = RunMeta("r", "2026-01-31T12:00:00Z", (), (HostPlan("a", "a"),), finished="x")
    host = HostRecord("a", "reported", report=Report({}, ()))
    return assess(Run(Path("r"), meta, (host,)), shipped(), training=record)


def shown(record: TrainingRecord | None) -> list[str]:
    """The lines of a wide terminal."""
    assert record is not None
    out = StringIO()
    Console(width=200, file=out).print(terminal(assessed(record)))
    return [words.rstrip() for words in out.getvalue().splitlines()]


def with_state(state: str, strategy: str = "ddp") -> TrainingRecord:
    record = the_guide()
    broken = replace(a_run(strategy, 1.0), state=state, reason="why not", times_s=())
    return replace(record, runs=(record.runs[0], broken))


@pytest.mark.parametrize(
    ("state", "outcome", "exit_code"),
    [
        ("done", "pass", 0),
        ("wrong_loss", "fail", 1),
        ("hang", "fail", 1),
        ("failed", "fail", 1),
        ("out_of_memory", "warn", 0),
        ("unproven", "inconclusive", 3),
        ("not_run", "inconclusive", 3),
        ("not_applicable", "pass", 0),
    ],
)
def test_outcomes(state: str, outcome: str, exit_code: int) -> None:
    assessment = assessed(with_state(state))
    verdict = assessment.judgement.hosts[0]
    assert (verdict.outcome, assessment.judgement.exit_code) == (outcome, exit_code)
    assert (verdict.measured, verdict.asked) == (1, 1)
    titles = [action.title for action in assessment.advice.actions]
    assert bool(titles) == (outcome != "pass")
    assert all(title.startswith("training: ") for title in titles)


def test_a_host_that_trained_nothing_is_not_passed() -> None:
    record = replace(the_guide(), runs=with_state("not_applicable").runs[1:])
    assert assessed(record).judgement.exit_code == 3


@pytest.mark.parametrize(
    ("strategies", "exit_code"), [(("ddp",), 3), (("single", "ddp"), 0), ((), 0)]
)
def test_one_process_to_compare_with_is_not_what_was_asked(
    strategies: tuple[str, ...], exit_code: int
) -> None:
    record = replace(with_state("not_applicable"), strategies=strategies)
    assessment = assessed(record)
    assert assessment.judgement.exit_code == exit_code
    if exit_code:
        (action,) = assessment.advice.actions
        words = "a: no strategy that was asked for could be trained: why not"
        assert action.evidence == (words,)


def test_where_nothing_was_trained_the_terminal_says_why() -> None:
    refused = with_state("not_applicable")
    alone = replace(refused, runs=refused.runs[1:])
    twice = replace(alone, runs=(*alone.runs, replace(alone.runs[0], ranks=3, reason="too few")))
    assert "   not applicable: DDP on 2 ranks: why not" in shown(alone)
    assert "   not applicable: DDP on 3 ranks: too few" in shown(twice)
    assert not any(words.startswith("   strategy ") for words in shown(alone)), "nothing was timed"


def test_the_terminal_has_a_table_of_steps_and_why_others_have_none() -> None:
    record = the_guide()
    broken = replace(a_run("zero1", 1.0), state="hang", reason="a: after 60 s", times_s=())
    lines = shown(replace(record, runs=(*record.runs, broken)))
    rows = [words.split() for words in lines if words.endswith(" GiB")]
    assert [row[:5] for row in rows] == [
        ["one", "GPU", "1", "510", "ms"],
        ["DDP", "2", "509", "ms", "1.00"],
        ["DDP,", "P2P", "off,", "host-staged", "2"],
    ]
    assert rows[2][5:] == ["657", "ms", "1.29", "147", "ms", "6.00", "GiB"]
    assert "   ZeRO-1 on 2: hang: a: after 60 s" in lines
    assert any("P2P off costs DDP on 2 GPUs 29% of a step" in words for words in lines)


def test_of_many_hosts_the_terminal_has_the_first() -> None:
    record = the_guide()
    sets = tuple(replace(record.sets[0], hosts=(f"n{number}",)) for number in range(9))
    lines = shown(replace(record, sets=sets))
    assert sum(words.startswith("Training on ") for words in lines) == MOST_TABLES
    assert f"   and on {9 - MOST_TABLES} more, see the report" in lines


def test_a_host_that_took_no_part_is_not_passed() -> None:
    record = replace(the_guide(), absent={"a": Reason("at_work", "busy")})
    assert assessed(record).judgement.exit_code == 3
    assert assessed(replace(the_guide(), finished=False)).judgement.exit_code == 3


@pytest.mark.parametrize(("state", "exit_code"), [("done", 3), ("wrong_loss", 1)])
def test_a_host_that_left_is_judged_by_what_it_did(state: str, exit_code: int) -> None:
    record = replace(
        with_state(state), absent={"a": Reason("interrupted", "interrupted")}, finished=False
    )
    assessment = assessed(record)
    page = html(assessment)
    assert assessment.judgement.exit_code == exit_code
    assert "a left before the end: interrupted" in page
    assert "took no part" not in page
    never = html(assessed(replace(record, sets=(), runs=())))
    assert "a took no part: interrupted" in never
    assert "left before the end" not in never


@pytest.mark.parametrize(
    ("state", "exit_code", "words"),
    [
        ("wrong_loss", 0, "noticed: why not"),
        ("done", 3, "not noticed"),
        ("unproven", 3, "not noticed: why not"),
        ("not_applicable", 3, "not tried: why not"),
        ("not_run", 3, "not tried: why not"),
        ("hang", 3, "it has no loss: hang: why not"),
        ("out_of_memory", 3, "it has no loss: out of memory: why not"),
    ],
)
def test_the_control_has_to_be_noticed(state: str, exit_code: int, words: str) -> None:
    assessment = assessed(with_state(state, "ddp_over_tp"))
    assert assessment.judgement.exit_code == exit_code
    assert f"DDP over TP on 2, wrong on purpose: {words}" in html(assessment)
    assert any(f"wrong on purpose: {words}" in text for text in shown(assessment.training))


def test_a_control_that_is_noticed_on_one_number_of_ranks_is_enough() -> None:
    noticed = with_state("wrong_loss", "ddp_over_tp")
    one_rank = replace(noticed.runs[1], state="not_applicable", ranks=1)
    for runs in ((*noticed.runs, one_rank), (noticed.runs[0], one_rank, noticed.runs[1])):
        assert assessed(replace(noticed, runs=runs)).judgement.exit_code == 0
    right = replace(noticed.runs[1], state="done", reason="", ranks=4)
    assessment = assessed(replace(noticed, runs=(*noticed.runs, right)))
    assert assessment.judgement.exit_code == 3


def test_reports_show_the_guide_beside_the_figures() -> None:
    assessment = assessed(the_guide())
    page, text, data = html(assessment), markdown(assessment), summary(assessment)
    for words in ("DDP, P2P off, host-staged", "131.4 s", "P2P off costs DDP on 2 GPUs 29%"):
        assert words in page
    assert "<svg" in page
    assert "host-staged" in text.replace("\\", "")
    assert [run["state"] for run in data["training"]["runs"]] == ["done"] * 3
    assert data["training"]["runs"][2]["exposed_s"] == pytest.approx(0.1472)


def test_clocks_that_were_held_down_are_said() -> None:
    record = the_guide()
    hot = replace(record.runs[1].gpus[0], clock_events=0x24)
    runs = (record.runs[0], replace(record.runs[1], gpus=(hot,)))
    page = html(assessed(replace(record, runs=runs)))
    assert "held down by the power cap in timed steps: a gpu0" in page
    assert "held down by heat in timed steps: a gpu0" in page
    assert "held down" not in html(assessed(record))


def test_a_hostile_reason_is_escaped() -> None:
    record = with_state("failed")
    runs = (record.runs[0], replace(record.runs[1], reason="<script>alert(1)</script>"))
    page = html(assessed(replace(record, runs=runs)))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
