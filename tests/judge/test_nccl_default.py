"""Two NCCLs on both sides of the change of 2.23."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hwcheck.contract.wire import CheckResult
from hwcheck.judge.p2p import crosses, judge_nccl_default, rule_changes
from tests.advise.nodes import record_of
from tests.factories import leg
from tests.judge.nodes import host_case


def outcomes(check: str = "all_reduce", torch: str = "2.22.3", **changes: Any) -> list[str]:
    says = {
        "path": "NODE",
        "gpus": 4,
        "cpu": "AuthenticAMD",
        "samples": {
            "software_versions": {"system_nccl_version": "2.27.5"},
            "p2p_status": {"pcie_read": {"gpu0-gpu1": "OK"}},
        },
    }
    legs = [leg("default", 16.0, ranks=4, library=f"NCCL {torch}")]
    record = record_of("n", {**says, **changes})
    assert record.report is not None
    collective = CheckResult(check, "done", legs=tuple(legs))
    report = replace(record.report, results=(collective, *record.report.results))
    host = host_case(replace(record, report=report))
    return [finding.outcome for finding in judge_nccl_default(host)]


def test_it_is_said_once_and_only_where_it_changes_something() -> None:
    assert outcomes() == ["warn"]
    assert outcomes("alltoall") == []
    assert outcomes(torch="2.26.2") == []
    assert outcomes(cpu="GenuineIntel") == []
    assert outcomes(gpus=2) == []
    assert outcomes(path="PIX") == []
    assert outcomes(path="NV4") == []
    assert outcomes(samples={"software_versions": {"system_nccl_version": "2.27.5"}}) == []


@pytest.mark.parametrize(
    ("text", "crossed"),
    [("NCCL 2.22.3, and 2.23.4", True), ("2.21.5 2.22.3", False), ("none, 2.27.5", False)],
)
def test_both_sides_of_the_change(text: str, crossed: bool) -> None:
    assert crosses(text) is crossed


def test_hosts_that_the_change_reaches() -> None:
    assert rule_changes("AuthenticAMD", 4)
    assert rule_changes("", 2)
    assert not rule_changes("AuthenticAMD", 2)
    assert not rule_changes("GenuineIntel", 8)
