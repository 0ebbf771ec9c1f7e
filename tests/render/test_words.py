from __future__ import annotations

import pytest

from hwcheck.render import words
from tests import factories
from tests.factories import gpu_host, record
from tests.render.example import judged

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
            "1 of 2 hosts failed; 1 could not be judged in full.",
        ),
        (
            [gpu_host("a"), record("b", None)],
            "Neither passed nor failed: nothing failed, but 1 of 2 hosts could not be judged in "
            "full.",
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


def test_outcome_groups_fold_hosts_worst_first() -> None:
    hosts = [gpu_host("n1"), gpu_host("n2", **FAIL), gpu_host("n3", **FAIL)]
    groups = words.outcome_groups(judged(factories.run(*hosts)).judgement)
    assert [(group.outcome, group.hosts) for group in groups] == [
        ("fail", "n[2-3]"),
        ("pass", "n1"),
    ]
