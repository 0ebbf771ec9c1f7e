"""Every case of every check, through the payload's own loop and the judge; and completeness."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwcheck import checks
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.check import Check
from hwcheck.contract.limits import Equal, FromInventory
from hwcheck.contract.reasons import IDLE_CARDS, NOT_APPLICABLE
from hwcheck.inventory.expectations import VARIABLES
from hwcheck.node.main import run_check
from hwcheck.testing.cases import check_case_problem, missing
from hwcheck.testing.fake_node import FakeNode

CASES = Path(__file__).parents[1] / "cases"
REGISTRY = checks.load()
FILES = sorted(CASES.glob("*/*.json"))


def read(file: Path) -> dict[str, Any]:
    case: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return case


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_case(file: Path) -> None:
    assert check_case_problem(REGISTRY[file.parent.name], read(file), shipped().models) == ""


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_what_does_not_apply_has_no_code_of_a_failure(file: Path) -> None:
    case = read(file)
    node = FakeNode(case["node"], case["expect_inventory"])
    result = run_check(REGISTRY[file.parent.name], node)
    if result.state == "not_applicable":
        assert result.reason.code in (NOT_APPLICABLE, IDLE_CARDS)
    else:
        assert result.reason.code not in (NOT_APPLICABLE, IDLE_CARDS)


def documented() -> tuple[Check, dict[str, Any]]:
    """Return the check and the case that the guide shows."""
    guide = (CASES.parents[1] / "docs" / "adding-a-check.md").read_text("utf-8")
    source, text = (
        guide.partition(f"```{language}\n")[2].partition("```")[0]
        for language in ("python", "json")
    )
    made: dict[str, Any] = {}
    exec(compile(source, "adding-a-check.md", "exec"), made)
    case: dict[str, Any] = json.loads(text)
    return made["utilization"], case


def test_the_example_of_the_guide_works() -> None:
    check, case = documented()
    assert check_case_problem(check, case, shipped().models) == ""
    assert missing(check, [case]) == ["passing case"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"result": {"state": "could_not_measure"}},
        {"result": {"state": "done", "reason_contains": "because"}},
        {"result": {"state": "done", "samples": []}},
        {"outcomes": {"utilization_percent gpu0": "pass"}},
        {"node": {"pci_gpus": ["0000:18:00.0"], "gpus": [{"utilization_percent": 99}]}},
    ],
)
def test_a_case_that_is_wrong_is_noticed(wrong: Mapping[str, Any]) -> None:
    check, case = documented()
    assert check_case_problem(check, {**case, **wrong}, shipped().models) != ""


@pytest.mark.parametrize("name", REGISTRY)
def test_complete(name: str) -> None:
    cases = [read(file) for file in FILES if file.parent.name == name]
    assert missing(REGISTRY[name], cases) == []


def test_what_a_limit_takes_from_the_inventory_can_be_declared_there() -> None:
    limits = [
        limit for check in REGISTRY.values() for metric in check.metrics for limit in metric.limits
    ]
    names = {limit.operand.name for limit in limits if isinstance(limit.operand, FromInventory)}
    assert {f"hwcheck_{name}" for name in names} <= set(VARIABLES)


def test_every_folder_of_cases_belongs_to_a_check() -> None:
    assert {file.parent.name for file in FILES} == set(REGISTRY)


@pytest.mark.parametrize("name", REGISTRY)
def test_one_word_names_a_check(name: str) -> None:
    assert REGISTRY[name].id == name
    assert REGISTRY[name].function.__module__ == f"hwcheck.checks.{name}"


GOOD = REGISTRY["persistence_mode"]
GOOD_CASES = [
    {"doc": "on", "outcomes": {"persistence_mode gpu0": "pass"}, "result": {"state": "done"}},
    {"doc": "off", "outcomes": {"persistence_mode gpu0": "warn"}, "result": {"state": "done"}},
]
UNSOURCED = replace(GOOD.metrics[0], limits=(Equal(True, source=""),))


@pytest.mark.parametrize(
    ("check", "cases", "lacks"),
    [
        (GOOD, GOOD_CASES, []),
        (GOOD, GOOD_CASES[1:], ["passing case"]),
        (GOOD, GOOD_CASES[:1], ["failing case"]),
        (GOOD, [*GOOD_CASES, {**GOOD_CASES[0], "doc": ""}], ["doc of a case"]),
        (replace(GOOD, doc="One line."), GOOD_CASES, ["docstring"]),
        (replace(GOOD, optional="a daemon"), GOOD_CASES, ["case without what is optional"]),
        (replace(GOOD, remedy=replace(GOOD.remedy, fix="")), GOOD_CASES, ["remedy"]),
        (replace(GOOD, metrics=(UNSOURCED,)), GOOD_CASES, ["source"]),
        (replace(GOOD, metrics=(replace(UNSOURCED, limits=()),)), GOOD_CASES, ["limit"]),
        (replace(GOOD, metrics=(replace(GOOD.metrics[0], meaning=""),)), GOOD_CASES, ["meaning"]),
        (
            replace(GOOD, remedy=replace(GOOD.remedy, role="nosuch")),
            GOOD_CASES,
            ["role that exists"],
        ),
    ],
)
def test_an_incomplete_check_is_refused(
    check: Check, cases: list[dict[str, Any]], lacks: list[str]
) -> None:
    assert missing(check, cases) == lacks
