"""The cases of a site: those of the page hold, and each slip is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hwcheck.errors import UsageError
from hwcheck.site.additions import load
from hwcheck.site.folder import read
from hwcheck.testing.cases import CaseResults, run_cases
from tests.site.page import example, write

CHECK = "hwcheck/checks/checkpoint_room.py"
FULL = "hwcheck/tests/checks/checkpoint_room/full.json"
ROOM = "hwcheck/tests/checks/checkpoint_room/room.json"
RULE = "hwcheck/rules/storage.py"
RULE_CASES = "hwcheck/tests/rules/storage.yml"
TEMPLATE = "hwcheck/templates/coverage.html.j2"


def results(folder: Path, changes: dict[str, str] | None = None) -> CaseResults:
    return run_cases(load(read(write(folder, changes))))


def test_the_cases_of_the_page_hold(tmp_path: Path) -> None:
    assert results(tmp_path) == CaseResults(4, ())


def changed(name: str, **keys: object) -> dict[str, str]:
    return {name: json.dumps({**json.loads(example()[name]), **keys})}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (changed(FULL, outcomes={"room_gib node": "warn"}), 'outcomes: they are {"room_gib node'),
        (changed(FULL, result={"state": "could_not_measure"}), "result: it is done"),
        (changed(ROOM, result={"state": "done", "samples": []}), "samples: they are"),
        (changed(ROOM, result={"state": "done", "samples": [{"x": 1}]}), "result: samples: "),
        (changed(ROOM, result={"state": "done", "samples": 1}), "result: samples: "),
        (
            changed(ROOM, result={}),
            "result: it has a state and any of code, reason_contains, samples",
        ),
        (changed(ROOM, result="done"), "result: it has a state and"),
        (changed(ROOM, result={"state": "done", "reason": ""}), "result: it has a state and"),
        (changed(ROOM, node={"disks": {}}), "unknown in a case's node: ['disks']"),
        (
            changed(ROOM, node={"filesystems": {"/tmp": {"size_bytes": "many", "free_bytes": 1}}}),
            "could_not_measure: the check crashed: ValueError",
        ),
        (changed(ROOM, more=1), "a case has exactly"),
        (changed(ROOM, doc=""), "it lacks: doc of a case"),
        (
            {FULL: example()[ROOM]},
            "checkpoint_room.py: it lacks: failing case",
        ),
        (
            {CHECK: example()[CHECK].replace("\n    Our jobs write", "    Our jobs write")},
            "checkpoint_room.py: it lacks: docstring",
        ),
        ({CHECK: example()[CHECK].replace("sudo du -sh /tmp/*", "")}, "it lacks: remedy"),
        (
            {CHECK: example()[CHECK].replace(": a checkpoint of our largest model has 2 GiB", "")},
            "it lacks: source",
        ),
        ({"hwcheck/tests/checks/other/a.json": "{}"}, "the site has no check named other"),
        ({"hwcheck/tests/rules/other.yml": "other: {}"}, "the site has no rule named other"),
        (
            {RULE_CASES: example()[RULE_CASES].replace("certain", "likely")},
            "confidence: it is cert",
        ),
        (
            {RULE_CASES: example()[RULE_CASES].replace("certain,", "certain, explains: 3,")},
            "explains is a list of checks",
        ),
        (
            {RULE_CASES: example()[RULE_CASES].replace("certain,", "certain, observed: 3,")},
            "and observed a text",
        ),
        ({RULE_CASES: example()[RULE_CASES].replace("0.1", "20.0")}, "no cause is named"),
        (
            {RULE_CASES: example()[RULE_CASES].replace("20.0", "0.1")},
            "silent: a new node: it speaks",
        ),
        ({RULE_CASES: example()[RULE_CASES].replace("room_gib", "rom_gib")}, "there is no metric"),
        ({RULE_CASES: "checkpoints_left: {fires: []}\n"}, "no case under silent"),
        (
            {RULE: example()[RULE].replace("OPS-31, what we learned on 12 March 2026", "OPS-31")},
            "checkpoints_left: it lacks: source",
        ),
    ],
)
def test_a_slip_is_named(tmp_path: Path, changes: dict[str, str], problem: str) -> None:
    assert any(problem in line for line in results(tmp_path, changes).problems)


def test_a_rule_without_cases_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (folder / "tests/rules/storage.yml").unlink()
    (line,) = run_cases(load(read(folder))).problems
    assert "checkpoints_left: it lacks: cases" in line


@pytest.mark.parametrize("text", ["{{ nothing.like_this }}", "{{ 1 / 0 }}"])
def test_a_template_that_does_not_render_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"templates/coverage\.html\.j2:1: "):
        results(tmp_path, {TEMPLATE: text})


def test_a_case_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"full\.json: cannot be read"):
        results(tmp_path, {FULL: "{"})
