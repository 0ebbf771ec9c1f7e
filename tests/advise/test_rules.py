"""Every rule speaks up when it should and not otherwise, and says all that an operator needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from hwcheck.advise.catalogue import shipped
from hwcheck.advise.causes import diagnose, rules_of
from hwcheck.advise.records import CONFIDENCES
from hwcheck.advise.rule import Rule
from hwcheck.judge.judge import judge
from hwcheck.shipped import parse_yaml
from hwcheck.testing.cases import rule_lacks
from tests.advise.nodes import KEYS, diagnosed, run_of

FOLDER = Path(__file__).with_name("cases")
RULES = shipped().rules
CASES = {path.stem: parse_yaml(path.read_text("utf-8")) for path in FOLDER.glob("*.yml")}
"""By theme, then by cause: ``fires`` and ``silent``."""
BY_CAUSE = {cause: cases for theme in CASES.values() for cause, cases in theme.items()}

Case = Mapping[str, Any]


def listed(kind: str) -> list[Any]:
    return [
        pytest.param(cause, case, id=f"{cause}: {case['doc']}")
        for cause, cases in sorted(BY_CAUSE.items())
        for case in cases.get(kind, ())
    ]


@pytest.mark.parametrize(("cause", "case"), listed("fires"))
def test_it_speaks_up(cause: str, case: Case) -> None:
    causes = diagnosed(("n1", case))
    names = causes.by_host["n1"]
    assert names[0] == cause if case.get("first", True) else cause in names
    (diagnosis,) = (each for each in causes.diagnoses if each.cause == cause)
    assert diagnosis.confidence == case["confidence"]
    assert set(case.get("explains", ())) <= set(diagnosis.explains)
    assert any(case.get("observed", "") in text for text in diagnosis.observed)
    assert diagnosis.hosts == ("n1",)


@pytest.mark.parametrize(("cause", "case"), listed("silent"))
def test_it_is_silent(cause: str, case: Case) -> None:
    assert cause not in diagnosed(("n1", case)).by_host.get("n1", ())


@pytest.mark.parametrize("cause", sorted(RULES))
def test_it_has_cases(cause: str) -> None:
    cases = BY_CAUSE.get(cause, {})
    assert cases.get("fires"), f"tests/advise/cases: {cause} has no case that fires"
    assert cases.get("silent"), f"tests/advise/cases: {cause} has no case that is silent"
    for case in (*cases["fires"], *cases["silent"]):
        assert set(case) <= KEYS
    assert all(case["confidence"] in CONFIDENCES for case in cases["fires"])


def test_cases_stand_in_the_file_that_has_the_name_of_their_rules_file() -> None:
    files: dict[str, set[str]] = {}
    for rule in RULES.values():
        files.setdefault(rule.look.__module__.rpartition(".")[2], set()).add(rule.cause)
    assert {theme: set(cases) for theme, cases in CASES.items()} == files


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yml")), ids=lambda path: path.stem)
def test_no_rule_has_its_cases_twice(path: Path) -> None:
    """YAML keeps the last of two equal keys, so the cases of the first would be lost."""
    causes = re.findall(r"^(\w+):", path.read_text("utf-8"), re.MULTILINE)
    assert sorted(causes) == sorted(CASES[path.stem])


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.cause)
def test_it_says_what_an_operator_needs(rule: Rule) -> None:
    assert rule_lacks(rule) == []


def test_a_rule_without_a_source_would_be_found() -> None:
    bad = Rule("c", lambda host: None, "A title.", "what it does", "what to do", "", "s", "no_role")
    assert rule_lacks(bad) == ["title", "fix", "confirm", "source", "title", "role"]


def test_titles_tell_causes_apart() -> None:
    assert len({rule.title for rule in RULES.values()}) == len(RULES)


def test_the_example_of_the_documentation_is_a_rule_with_its_cases() -> None:
    page = (Path(__file__).parents[2] / "docs/diagnosis.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (cases,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    module = ModuleType("example")
    exec(compile(code, "docs/diagnosis.md", "exec"), vars(module))
    rules = rules_of([module])
    ((cause, kinds),) = yaml.safe_load(cases).items()
    for case in kinds["fires"]:
        run = run_of(("n1", case))
        (diagnosis,) = diagnose(run, judge(run, shipped()), rules).diagnoses
        assert (diagnosis.cause, diagnosis.confidence) == (cause, case["confidence"])
        assert set(case["explains"]) <= set(diagnosis.explains)
    for case in kinds["silent"]:
        run = run_of(("n1", case))
        assert diagnose(run, judge(run, shipped()), rules).diagnoses == ()
