"""Every case of every check, through the payload's own loop and the judge; and completeness."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwcheck import shipped
from hwcheck.inventory.expectations import VARIABLES
from hwcheck.judge.evidence import credible
from hwcheck.judge.host_case import NodeFacts
from hwcheck.judge.limits import judge_answer
from hwcheck.judge.p2p import p2p_gains
from hwcheck.judge.records import worst
from hwcheck.node import checks
from hwcheck.node.check import Check
from hwcheck.node.limits import Equal, FromInventory
from hwcheck.node.main import run_check
from hwcheck.node.wire import Sample, to_dict
from hwcheck.results.schema_check import schema_problem
from tests.node.fakes import FakeNode

CASES = Path(__file__).parents[2] / "cases"
KEYS = {"doc", "node", "expect_inventory", "result", "outcomes"}
REGISTRY = checks.load()
FILES = sorted(CASES.glob("*/*.json"))


def read(file: Path) -> dict[str, Any]:
    case: dict[str, Any] = json.loads(file.read_text("utf-8"))
    assert set(case) == KEYS, f"{file} must have exactly {sorted(KEYS)}"
    return case


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_case(file: Path) -> None:
    prove(REGISTRY[file.parent.name], read(file))


def prove(check: Check, case: Mapping[str, Any]) -> None:
    """Hold what a check makes of a case's node against what the case says."""
    node = FakeNode(case["node"], case["expect_inventory"])
    result = run_check(check, node)
    assert schema_problem(to_dict(result), "result") == ""
    assert result.state == case["result"]["state"], result.reason
    assert case["result"].get("reason_contains", "") in result.reason
    if "samples" in case["result"]:
        assert list(result.samples) == [Sample(**sample) for sample in case["result"]["samples"]]
    known = NodeFacts(case["expect_inventory"], models(case["node"]), mig=split(case["node"]))
    # What an honest node answers must never be doubted.
    assert credible(check, result, known) == result
    assert outcomes(check, result, known) == case["outcomes"]


def split(says: Mapping[str, Any]) -> bool:
    """Return whether the node's facts would name a GPU with MIG on."""
    modes = [(says.get("gpu", {}) | gpu).get("mig_mode") for gpu in says.get("gpus", [])]
    return any(mode["current"] for mode in modes if mode and "current" in mode)


def models(says: Mapping[str, Any]) -> dict[str, str]:
    """Return what the node's facts would name: the model of each GPU, by its subject."""
    common = says.get("gpu", {})
    return {
        f"gpu{index}": (common | gpu).get("name", "")
        for index, gpu in enumerate(says.get("gpus", []))
        if says.get("nvml_status", "ok") == "ok"
    }


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
    assert set(case) == KEYS
    prove(check, case)
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
    with pytest.raises(AssertionError):
        prove(check, {**case, **wrong})


def outcomes(check: Check, result: Any, known: NodeFacts) -> dict[str, str]:
    """Return the worst outcome by ``metric subject``; a finding with no metric is ``node``."""
    found: dict[str, list[str]] = {}
    gains = p2p_gains("node1", check.id, result.legs)
    for finding in (*judge_answer("node1", check, result, known), *gains):
        key = f"{finding.metric} {finding.subject}".strip()
        found.setdefault(key, []).append(finding.outcome)
    return {key: worst(several) for key, several in found.items()}


def missing(check: Check, cases: list[dict[str, Any]]) -> list[str]:
    """Return what a check lacks to be one that an operator can rely on."""
    limits = [limit for metric in check.metrics for limit in metric.limits]
    judged = [worst(case["outcomes"].values()) for case in cases if case["outcomes"]]
    problems = {
        "docstring": len(check.doc.split("\n\n")) >= 2,
        "remedy": all((check.remedy.cause, check.remedy.fix, check.remedy.command)),
        "limit": bool(limits),
        "source": all(len(limit.source) >= 15 for limit in limits),
        "meaning": all(metric.meaning for metric in check.metrics),
        "passing case": "pass" in judged,
        "failing case": bool({"fail", "warn"} & set(judged)),
        "role that exists": not check.remedy.role or shipped.find(f"roles/{check.remedy.role}"),
        "doc of a case": all(case["doc"] for case in cases),
        "case without what is optional": not check.optional
        or any(case["result"]["state"] == "not_applicable" for case in cases),
    }
    return [name for name, there in problems.items() if not there]


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
    assert REGISTRY[name].function.__module__ == f"hwcheck.node.checks.{name}"


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
