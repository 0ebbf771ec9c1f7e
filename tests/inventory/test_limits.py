"""``hwcheck_limits`` as it stands in an inventory: merged by Ansible, refused with host and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import read
from hwcheck.inventory.limits import limits
from hwcheck.inventory.variables import Variables

PERCENT = "power_cap.power_limit_percent"


def parsed(terms: Any, **others: Any) -> dict[str, dict[str, Any]]:
    raw = {"hwcheck_limits": terms, **others}
    return limits(Variables("n1", raw, "cluster.yml"))


def test_borders_are_numbers_and_texts_may_be_templates() -> None:
    terms = {PERCENT: {"warn": 90, "fail": "{{ lowest }}", "source": "{{ ticket }}"}}
    limits = parsed(terms, lowest=70, ticket="OPS-112")
    assert limits == {PERCENT: {"warn": 90.0, "fail": 70.0, "source": "OPS-112"}}


def test_what_is_ignored_has_a_source_too() -> None:
    assert parsed({PERCENT: {"ignore": "yes", "source": "OPS-1"}}) == {
        PERCENT: {"ignore": True, "source": "OPS-1"}
    }
    assert parsed({PERCENT: {"ignore": False, "warn": 1, "source": "OPS-1"}}) == {
        PERCENT: {"warn": 1.0, "source": "OPS-1"}
    }


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ("a text", "is no mapping; write {check.metric: {warn: 90, source:"),
        ({PERCENT: 90}, "is no mapping; write {warn: 90, source:"),
        ({PERCENT: {"warn": 90}}, "source is missing"),
        ({PERCENT: {"warn": 90, "source": " "}}, "source is missing"),
        ({PERCENT: {"warn": 90, "source": None}}, "source is missing"),
        ({PERCENT: {"source": "OPS-1"}}, "it sets nothing"),
        ({PERCENT: {"ignore": False, "source": "OPS-1"}}, "it sets nothing"),
        ({PERCENT: {"wrn": 90, "source": "OPS-1"}}, "'wrn' is none of warn, fail, ignore, source"),
        ({PERCENT: {"warn": "high", "source": "OPS-1"}}, "warn: 'high' is not a number"),
        ({PERCENT: {"warn": True, "source": "OPS-1"}}, "warn: 'True' is not a number"),
        ({PERCENT: {"warn": "nan", "source": "OPS-1"}}, "warn: 'nan' is not a number"),
        ({PERCENT: {"warn": [1], "source": "OPS-1"}}, "is a list; one value is wanted"),
        ({PERCENT: {"ignore": "maybe", "source": "OPS-1"}}, "'maybe' is not true or false"),
        ({PERCENT: {"ignore": True, "warn": 1, "source": "OPS-1"}}, "ignore stands alone"),
        ({PERCENT: {"warn": 1, "source": "x" * 501}}, "501 characters; at most 500"),
    ],
)
def test_what_is_no_limit_is_refused(terms: Any, message: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parsed(terms)
    assert str(refusal.value).startswith("cluster.yml: n1: hwcheck_limits")
    assert message in str(refusal.value)


def test_ansible_merges_them_as_any_variable(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yml"
    file.write_text(
        "all:\n  hosts:\n    n1:\n    n2:\n"
        f"      hwcheck_limits: {{{PERCENT}: {{ignore: true, source: OPS-2}}}}\n    n3:\n"
        f"  vars:\n    hwcheck_limits: {{{PERCENT}: {{warn: 90, source: OPS-1}}}}\n"
        "  children:\n    old:\n      hosts:\n        n3:\n"
        "      vars:\n        hwcheck_limits:\n"
    )
    hosts = {host.name: host for host in read(str(file)).hosts}
    assert hosts["n1"].limits == {PERCENT: {"warn": 90.0, "source": "OPS-1"}}
    assert hosts["n2"].limits == {PERCENT: {"ignore": True, "source": "OPS-2"}}
    assert hosts["n3"].limits == {}, "null takes them away"
    assert "limits" not in hosts["n1"].expect
