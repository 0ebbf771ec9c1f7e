from __future__ import annotations

import json

from hwcheck.advise.assessment import Assessment
from hwcheck.render.summary import summary
from tests import factories
from tests.render.example import judged


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
