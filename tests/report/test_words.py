from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck.judge.coverage import require
from hwcheck.report import words
from hwcheck.report.view import gpus
from tests import factories
from tests.factories import gpu_host, record
from tests.report.example import judged

WARN = {"persistence_mode": False}
FAIL = {"power_limit_w": (0, 300.0)}


@pytest.mark.parametrize(
    ("hosts", "sentence"),
    [
        ([gpu_host("a")], "Every check that applies passed on this host."),
        ([gpu_host("a"), gpu_host("b")], "Every check that applies passed on all 2 hosts."),
        ([gpu_host("a"), gpu_host("b", **WARN)], "No check failed; 1 of 2 hosts gave warnings."),
        ([gpu_host("a"), gpu_host("b", **FAIL)], "1 of 2 hosts failed."),
        (
            [gpu_host("a", **FAIL), record("b", None)],
            "1 of 2 hosts failed; 1 could not be reached.",
        ),
        (
            [gpu_host("a"), record("b", None)],
            "Neither passed nor failed: nothing failed, but of 2 hosts 1 could not be reached.",
        ),
        (
            [record("a", None, state="lost"), record("b", None), record("c", None)],
            "Neither passed nor failed: nothing failed, but of 3 hosts 2 could not be reached, "
            "1 could not be judged in full.",
        ),
    ],
)
def test_verdict(hosts, sentence: str) -> None:
    assert words.verdict(judged(factories.run(*hosts)).judgement) == sentence


def test_notes_say_what_was_not_measured() -> None:
    a_run = factories.run(record("cpu", factories.cpu_results()), interrupted=True)
    notes = " ".join(words.notes(a_run))
    assert "stopped before its end" in notes
    assert "No GPU was measured" in notes
    assert "Collectives on cpu are an exercise" in notes
    assert words.notes(factories.run(gpu_host("a"))) == ()


def test_an_interrupted_run_says_what_is_known_and_nothing_of_gpus() -> None:
    cut = gpu_host("b")
    assert cut.report is not None
    cut = replace(cut, state="partial", report=replace(cut.report, facts={}))
    waiting = [record(name, None, state="not_visited") for name in "cd"]
    notes = words.notes(factories.run(cut, *waiting, interrupted=True))
    assert notes == (
        "The run was stopped before its end: 0 of 3 hosts had given a whole answer, 1 a part of "
        "one; what follows is that, and of the others nothing is known.",
    )
    assert gpus(cut) == ""
    assert gpus(record("cpu", factories.cpu_results())) == "none seen", "the control"


def test_a_run_of_which_less_was_measured_than_required_says_so() -> None:
    judgement = require(judged(factories.run(record("a", factories.cpu_results()))).judgement, 101)
    assert "nothing failed, but less was measured than required" in words.verdict(judgement)
