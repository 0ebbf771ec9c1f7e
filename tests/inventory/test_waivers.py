"""``hwcheck_waivers`` as it stands in an inventory: merged by Ansible, refused where it is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import read
from hwcheck.inventory.variables import Variables
from hwcheck.inventory.waivers import waivers
from hwcheck.results.waivers import Waiver

RMA = {"check": "pcie_link", "subject": "gpu3", "until": "2027-01-31", "reason": "RMA 4711"}


def parsed(given: Any, **others: Any) -> tuple[Waiver, ...]:
    return waivers(Variables("n1", {"hwcheck_waivers": given, **others}, "cluster.yml"))


def test_texts_may_be_templates_and_a_subject_may_be_left_out() -> None:
    short = {"check": "mig", "until": "2027-01-31", "reason": "{{ ticket }}"}
    assert parsed([RMA, short], ticket="OPS-1") == (
        Waiver("pcie_link", "2027-01-31", "RMA 4711", "gpu3"),
        Waiver("mig", "2027-01-31", "OPS-1"),
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (RMA, "hwcheck_waivers: is no list; write [{check: pcie_link,"),
        (["pcie_link"], "hwcheck_waivers[1]: is no mapping"),
        ([RMA, RMA | {"check": None}], "hwcheck_waivers[2]: check is missing"),
        ([RMA | {"until": ""}], "until is missing: name the last day"),
        ([{k: RMA[k] for k in ("check", "reason")}], "until is missing"),
        ([RMA | {"until": "31.1.2027"}], "until: '31.1.2027' is not a day, such as 2027-01-31"),
        ([RMA | {"until": "20270131"}], "until: '20270131' is not a day"),
        ([RMA | {"until": "2027-02-30"}], "until: '2027-02-30' is not a day"),
        ([RMA | {"reason": " "}], "reason is missing: say by whose word"),
        ([RMA | {"reason": "x" * 501}], "reason: 501 characters; at most 500"),
        ([RMA | {"subject": "x" * 201}], "subject: 201 characters; at most 200"),
        ([RMA | {"metric": "a"}], "'metric' is none of check, subject, until, reason"),
        ([RMA | {"check": ["a"]}], "is a list; one value is wanted"),
        ([RMA] * 1001, "1001 waivers; at most 1000"),
    ],
)
def test_what_is_no_waiver_is_refused(given: Any, message: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parsed(given)
    assert str(refusal.value).startswith("cluster.yml: n1: hwcheck_waivers")
    assert message in str(refusal.value)


def test_ansible_merges_them_as_any_variable(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yml"
    file.write_text(
        "all:\n  hosts:\n    n1:\n    n2:\n      hwcheck_waivers: []\n  vars:\n"
        '    hwcheck_waivers: [{check: pcie_link, until: 2027-01-31, reason: "RMA 4711"}]\n'
    )
    hosts = {host.name: host for host in read(str(file)).hosts}
    assert hosts["n1"].waivers == (Waiver("pcie_link", "2027-01-31", "RMA 4711"),)
    assert hosts["n2"].waivers == ()
    assert "waivers" not in hosts["n1"].expect
