"""Every fault is found by its check, a healthy node raises nothing, and the table that shows it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hwcheck.judge.judge import judge
from hwcheck.judge.records import worst
from tests.lab.every_node import FAULTS, IDLE, SCENARIOS, reports, run_of, title
from tests.lab.scenario import Scenario

ONLY_A_REAL_MACHINE: Mapping[str, str] = {}
"""Idle checks whose fault no scenario can present, with the reason."""

HOST_CHECKS = {
    *("cpu_governor", "disk_free", "hugepages", "infiniband_ports", "iommu", "kernel", "memlock"),
    *("nccl_environment", "numa_balancing", "pcie_acs", "pcie_aer", "peermem", "roce_gids"),
    *("shm_size", "software_versions", "time_sync", "virtualization", "xid"),
}
"""Checks that ask nothing of NVML."""

NOT_APPLICABLE = "-"
SIGNS = {"pass": ".", "warn": "W", "fail": "F", "inconclusive": "?", NOT_APPLICABLE: NOT_APPLICABLE}
LEGEND = ". pass   W warn   F fail   ? inconclusive   - not applicable"

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("every node")]
"""The first test waits for all nodes: 25 s on two processors that have nothing else to do."""

Row = dict[str, str]


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    """Return the outcome of each check on each node."""
    return {title(scenario): _row(scenario) for scenario in [*SCENARIOS, *FAULTS]}


def _row(scenario: Scenario) -> Row:
    report, found = reports()[title(scenario)], dict[str, list[str]]()
    for finding in judge(run_of(scenario)).findings:
        found.setdefault(finding.check, []).append(finding.outcome)
    states = {result.check: result.state for result in report.results}
    return {
        check: NOT_APPLICABLE
        if states[check] == "not_applicable" and check not in found
        else worst(found.get(check, ()))
        for check in IDLE
    }


def alarms(row: Row) -> Row:
    """Return what is neither a pass nor without meaning on the node."""
    return {check: out for check, out in row.items() if out not in ("pass", NOT_APPLICABLE)}


def changed(healthy: Row, faulty: Row, blinds: bool = False) -> set[str]:
    """Return the checks that answer otherwise; one that passes raises nothing.

    With ``blinds`` those that are left without an answer are as they may be.
    """
    free = {"pass", "inconclusive"} if blinds else {"pass"}
    return {check for check in healthy if faulty[check] not in {healthy[check], *free}}


@pytest.mark.parametrize("healthy", SCENARIOS, ids=title)
def test_a_healthy_node_raises_nothing(healthy: Scenario, rows: dict[str, Row]) -> None:
    assert alarms(rows[title(healthy)]) == dict.fromkeys(healthy.unanswered, "inconclusive")


@pytest.mark.parametrize("faulty", FAULTS, ids=title)
def test_a_fault_is_found_by_its_check(faulty: Scenario, rows: dict[str, Row]) -> None:
    assert faulty.fault is not None
    fault = faulty.fault
    assert rows[title(faulty)][fault.check] == fault.outcome
    if fault.subjects:
        findings = [each for each in judge(run_of(faulty)).findings if each.check == fault.check]
        assert {each.subject for each in findings if each.outcome != "pass"} == set(fault.subjects)


@pytest.mark.parametrize("faulty", FAULTS, ids=title)
def test_no_other_check_answers_otherwise(faulty: Scenario, rows: dict[str, Row]) -> None:
    assert faulty.fault is not None
    others = changed(rows[faulty.name], rows[title(faulty)], faulty.fault.blinds)
    assert others - {faulty.fault.check} == set(faulty.fault.also)


def test_every_idle_check_has_a_fault() -> None:
    found = {faulty.fault.check for faulty in FAULTS if faulty.fault}
    assert found | set(ONLY_A_REAL_MACHINE) == set(IDLE)
    assert not found & set(ONLY_A_REAL_MACHINE)


def test_an_alarm_would_be_seen() -> None:
    row = {"driver": "pass", "xid": "warn", "mig": NOT_APPLICABLE, "vbios": "inconclusive"}
    assert alarms(row) == {"xid": "warn", "vbios": "inconclusive"}


def test_a_change_would_be_seen() -> None:
    healthy = {"driver": "pass", "xid": NOT_APPLICABLE, "kernel": "pass", "mig": "warn"}
    faulty = {"driver": "fail", "xid": "pass", "kernel": "inconclusive", "mig": NOT_APPLICABLE}
    assert changed(healthy, faulty) == {"driver", "kernel", "mig"}
    assert changed(healthy, faulty, blinds=True) == {"driver", "mig"}


def test_without_nvml_the_host_is_checked_as_ever(rows: dict[str, Row]) -> None:
    others = changed(rows["h100x8"], rows["h100x8 nvml_of_another_version"])
    assert not others & HOST_CHECKS
    assert rows["h100x8"].keys() >= HOST_CHECKS


def test_the_table(rows: dict[str, Row], capsys: pytest.CaptureFixture[str]) -> None:
    table = render(rows)
    with capsys.disabled():
        print("\n" + table)
    cells = [line.split("  ")[-1].split() for line in table.splitlines() if "x8 link_down " in line]
    assert dict(zip(IDLE, *cells, strict=True))["nvlink_state"] == "F"


def render(rows: Mapping[str, Row]) -> str:
    """Return the table: a row for each node, a column for each check, its name written down."""
    width = max(map(len, rows))
    height = max(map(len, IDLE))
    lines = [
        " " * width + "  " + " ".join(name.rjust(height)[line] for name in IDLE)
        for line in range(height)
    ]
    lines.append("-" * (width + 1 + 2 * len(IDLE)))
    for name, row in rows.items():
        lines.append(name.ljust(width) + "  " + " ".join(SIGNS[row[check]] for check in IDLE))
    asked = sum(row[check] != NOT_APPLICABLE for row in rows.values() for check in IDLE)
    faults = [(rows[title(each)], each.fault) for each in FAULTS if each.fault]
    found = sum(row[fault.check] == fault.outcome for row, fault in faults)
    false = sum(len(alarms(rows[each.name]).keys() - each.unanswered) for each in SCENARIOS)
    lines += ["", LEGEND, f"{len(rows)} nodes, {len(IDLE)} checks, {asked} answers judged: "]
    lines[-1] += f"{found} of {len(FAULTS)} faults found by their check, {false} false alarms"
    return "\n".join(lines)
