"""Versions that are known to be broken or old."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from hwcheck.judge.records import Finding
from hwcheck.judge.software import judge_floors, judge_nccl_defects
from hwcheck.judge.versions import floors, nccl_defects, numbers
from tests.advise.nodes import record_of
from tests.judge.nodes import host_case

JUST_AFTER = "2026-11-22T12:00:00Z"


def of_nccl(version: str) -> list[Finding]:
    record = record_of("n", {"samples": {"software_versions": {"nccl_version": version}}})
    return list(judge_nccl_defects(host_case(record)))


def of_driver(version: str, started: str = JUST_AFTER, **expect: str) -> list[Finding]:
    record = record_of("n", {"samples": {"driver": {"driver_version": version}}})
    return list(judge_floors(replace(host_case(record, **expect), started=started)))


@pytest.mark.parametrize(
    ("version", "outcomes", "says"),
    [
        ("2.27.7", ["warn"], "issue 1996"),
        ("2.27.7-1", ["warn"], "RAS thread"),
        ("2.18.1", ["warn"], "LL128"),
        ("2.30.7", ["pass"], "issue 2198"),
        ("2.29.2", ["pass"], "gcc before 10"),
        ("2.26.2", [], ""),
        ("none", [], ""),
        ("", [], ""),
    ],
)
def test_a_defect_warns_where_any_job_may_meet_it(
    version: str, outcomes: list[str], says: str
) -> None:
    found = of_nccl(version)
    assert [finding.outcome for finding in found] == outcomes
    assert all(says in f"{finding.reason}" for finding in found)


def test_a_mended_defect_is_not_told_of_the_version_that_mends_it() -> None:
    assert "2198" in of_nccl("2.31.1")[0].reason.text
    assert "2198" not in of_nccl("2.31.2")[0].reason.text


def test_every_row_names_a_range_what_it_does_and_who_says_so() -> None:
    for defect in nccl_defects():
        assert len(numbers(defect.since)) == 3
        assert not defect.fixed or numbers(defect.since) < numbers(defect.fixed)
        assert all((defect.effect, defect.remedy, defect.source))
        assert defect.concerns(defect.since)
        assert not defect.fixed or not defect.concerns(defect.fixed)


def test_nobody_is_warned_of_an_old_driver_unasked() -> None:
    (found,) = of_driver("535.183.01")
    assert found.outcome == "pass"
    assert "branch 535 ended on 2026-06-30" in found.reason.text
    assert "hwcheck_version_floors" in found.reason.text
    assert of_driver("580.200.01") == []


@pytest.mark.parametrize(
    ("version", "outcome", "says"),
    [
        ("535.183.01", "warn", "ended on 2026-06-30"),
        ("550.90.07", "warn", "no longer supported"),
        ("570.211.01", "warn", "ended on 2026-01-31"),
        ("580.82.07", "warn", "below 580.178.04"),
        ("595.91.07", "pass", ""),
        ("620.10.01", "pass", ""),
    ],
)
def test_a_driver_is_held_against_the_floors_where_the_inventory_asks(
    version: str, outcome: str, says: str
) -> None:
    (found,) = of_driver(version, version_floors="warn")
    assert found.outcome == outcome
    assert says in found.reason.text
    (graver,) = of_driver(version, version_floors="fail")
    assert graver.outcome == ("fail" if outcome == "warn" else "pass")


def test_a_branch_is_judged_by_the_day_of_the_run() -> None:
    before = of_driver("535.183.01", "2026-06-30T12:00:00Z", version_floors="fail")
    assert [finding.outcome for finding in before] == ["pass"]


def test_a_table_of_last_year_says_so_itself() -> None:
    driver, age = of_driver("595.91.07", "2027-06-01T12:00:00Z", version_floors="fail")
    assert (driver.outcome, age.outcome) == ("fail", "warn")
    assert (age.metric, age.value) == ("floors_age_days", 218)
    assert len(of_driver("620.10.01", "2027-06-01T12:00:00Z")) == 0
    assert floors().age_days(date(2026, 10, 27)) == 1


def test_firmware_is_held_against_the_floor_of_its_train() -> None:
    assert floors().firmware_problem("28.39.2048") == "below 39.8002"
    assert floors().firmware_problem("28.39.8002") == ""
    assert floors().firmware_problem("28.44.2506") == ""
    assert floors().firmware_problem("unknown") == ""


def of_tools(container_toolkit: str, started: str = JUST_AFTER, **expect: str) -> list[Finding]:
    samples = {"container_toolkit_version": container_toolkit, "dcgm_version": "4.5.3"}
    record = record_of("n", {"samples": {"tool_versions": samples}})
    return list(judge_floors(replace(host_case(record, **expect), started=started)))


@pytest.mark.parametrize(
    ("version", "outcome"),
    [("1.17.8", "warn"), ("1.19.0", "warn"), ("1.19.1", "pass"), ("1.20.0", "pass")],
)
def test_tools_are_held_against_the_floors_where_the_inventory_asks(
    version: str, outcome: str
) -> None:
    toolkit, dcgm = of_tools(version, version_floors="warn")
    assert (toolkit.metric, toolkit.outcome) == ("container_toolkit_floor", outcome)
    assert ("below 1.19.1" in f"{toolkit.reason}") == (outcome == "warn")
    assert (dcgm.metric, dcgm.outcome) == ("dcgm_floor", "pass")
    assert all(finding.outcome == "pass" for finding in of_tools(version))


def test_a_table_of_last_year_is_told_without_a_driver_too() -> None:
    *_, age = of_tools("1.19.1", "2027-06-01T12:00:00Z", version_floors="fail")
    assert (age.metric, age.outcome) == ("floors_age_days", "warn")
