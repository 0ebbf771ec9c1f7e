from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import fastjsonschema

from hwcheck.advise.assessment import Assessment
from hwcheck.report.summary import summary
from tests import factories
from tests.report.example import judged


def test_the_summary(shown: Assessment) -> None:
    found = summary(shown)
    assert found["outcome"] == "fail"
    assert found["exit_code"] == 1
    coverage = found["coverage"]
    gaps = coverage.pop("gaps")
    assert coverage == {
        "measured": 35,
        "asked": 42,
        "not_applicable": 0,
        "percent": 83.3,
        "required_percent": None,
        "shortfall": "",
    }
    assert [gap["hosts"] for gap in gaps] == [("node04",)]
    assert len(gaps[0]["checks"]) == 42 - 35
    assert gaps[0]["applies"] is True
    assert found["hosts"] == {
        "total": 6,
        "fail": ["node03", "node05", "node06"],
        "inconclusive": ["node04"],
        "warn": [],
        "pass": ["node01", "node02"],
    }
    assert {finding["outcome"] for finding in found["findings"]} == {"fail", "inconclusive"}
    assert found["nccl"]["settings"] == {}
    assert found["exercise"] == {"hosts": [], "meaning": ""}


def test_a_setting_and_its_value() -> None:
    bad = [factories.hung(), factories.leg("p2p_off", 20.0)]
    found = summary(judged(factories.run(factories.gpu_host("a", bad, nvlink_links=0))))
    assert found["nccl"]["settings"] == {"NCCL_P2P_DISABLE": "1"}


def test_an_exercise_is_marked(cpu_only: Assessment) -> None:
    found = summary(cpu_only)
    assert found["exercise"]["hosts"] == ["localhost"]
    assert "says nothing about GPUs" in found["exercise"]["meaning"]


def test_it_is_json_whatever_the_node_says(hostile: Assessment) -> None:
    found = summary(hostile)
    assert json.loads(json.dumps(found, allow_nan=False))["id"] == found["id"]


SCHEMA = Path(__file__).parents[2] / "hwcheck/results/schema/summary.schema.json"


def _problem(data: object) -> str:
    """What breaks the schema that is documented; empty where nothing does."""
    try:
        _compiled()(json.loads(json.dumps(data)))
    except fastjsonschema.JsonSchemaValueException as refusal:
        return str(refusal)
    return ""


@cache
def _compiled() -> Callable[[object], object]:
    made: Callable[[object], object] = fastjsonschema.compile(json.loads(SCHEMA.read_text()))
    return made


def test_it_is_as_its_schema_says(shown: Assessment, cpu_only: Assessment) -> None:
    assert _problem(summary(shown)) == ""
    assert _problem(summary(cpu_only)) == ""
    both = judged(factories.run(factories.gpu_host("a"), interrupted=True))
    assert _problem(summary(both)) == ""
    broken = {**summary(shown), "exit_code": 2}
    assert "exit_code" in _problem(broken), "the control"
    assert "surprise" in _problem({**summary(shown), "surprise": 1}), "the control"


def test_hostile_answers_are_as_the_schema_says(hostile: Assessment) -> None:
    assert _problem(summary(hostile)) == ""


def test_every_key_is_documented() -> None:
    page = (SCHEMA.parents[3] / "docs/json.md").read_text()
    kinds = json.loads(SCHEMA.read_text())["$defs"]
    for kind in ("summary", "finding", "host_result", "cause", "action", "gap"):
        missing = [key for key in kinds[kind]["properties"] if f"`{key}`" not in page]
        assert missing == [], kind
