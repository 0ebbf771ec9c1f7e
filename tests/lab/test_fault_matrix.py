"""Every fault is found by its check, a healthy node raises nothing, and the table that shows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from hwcheck import payload
from hwcheck.expectations import expectations
from hwcheck.host_vars import HostVars
from hwcheck.judge.judge import judge
from hwcheck.judge.records import worst
from hwcheck.node import checks
from hwcheck.results import HostPlan, HostRecord, Run, RunMeta
from hwcheck.schema_check import schema_problem
from hwcheck.wire import Deframer, Report, Request, to_dict
from tests.lab.scenario import Scenario, load, names

TOKEN = "0123abcd"
AT_A_TIME = 4
TIME_LIMIT_S = 60
REGISTRY = checks.load()
IDLE = sorted(name for name, check in REGISTRY.items() if not (check.load or check.after_load))

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

pytestmark = pytest.mark.timeout(300)
"""The first test waits for all nodes: 25 s on two processors that have nothing else to do."""

SCENARIOS = [load(name) for name in names()]
FAULTS = [load(healthy.name, fault) for healthy in SCENARIOS for fault in healthy.faults]

Row = dict[str, str]


def title(scenario: Scenario) -> str:
    return scenario.name + (f" {scenario.fault.name}" if scenario.fault else "")


def declared(scenario: Scenario) -> dict[str, Any]:
    """Return what an inventory with the scenario's variables comes down to."""
    variables = {f"hwcheck_{name}": value for name, value in scenario.expect.items()}
    return expectations(HostVars(title(scenario), variables, scenario.name))


def ask(scenario: Scenario, folder: Path, zipped: Path) -> Report:
    """Run the payload as the node would and return its report.

    A faulty node whose host is as it should be reads the tree of the healthy one: thousands of
    files take longer to write than to check.
    """
    own = folder / title(scenario).replace(" ", ".")
    healthy = load(scenario.name)
    same = scenario.fault is not None and scenario.host == healthy.host
    environment, variables = scenario.install(own, folder / healthy.name / "root" if same else None)
    root = str(variables["hwcheck_host_root"])
    expect = declared(scenario)
    request = Request(token=TOKEN, checks=tuple(IDLE), host_root=root, expect=expect)
    done = subprocess.run(
        [sys.executable, str(zipped)],
        input=json.dumps(to_dict(request)).encode(),
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        timeout=TIME_LIMIT_S,
    )
    assert done.returncode == 0, f"{title(scenario)}: {done.stderr.decode()}"
    frames, _ = Deframer(TOKEN).feed(done.stdout)
    body = frames[-1]["report"]
    assert schema_problem(body, "report") == ""
    return Report.from_dict(body)


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    """Return the outcome of each check on each node."""
    return {title(scenario): _row(scenario) for scenario in [*SCENARIOS, *FAULTS]}


@cache
def reports() -> dict[str, Report]:
    """Return what every node answers; it is asked once, whoever wants to know."""
    # Tens of thousands of small files: pytest would keep them for three runs.
    with TemporaryDirectory(prefix="hwlab-") as name:
        folder = Path(name)
        zipped = folder / "payload.pyz"
        zipped.write_bytes(payload.build().data)
        found: dict[str, Report] = {}
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            for some in (SCENARIOS, FAULTS):
                answers = pool.map(lambda scenario: ask(scenario, folder, zipped), some)
                found.update(zip(map(title, some), answers, strict=True))
    return found


def run_of(scenario: Scenario) -> Run:
    """Return the run of one node by itself: with others it would be compared with them."""
    name = title(scenario)
    plan = HostPlan(name, "127.0.0.1", declared(scenario))
    meta = RunMeta(id="matrix", started="", checks=tuple(IDLE), hosts=(plan,))
    return Run(Path(), meta, (HostRecord(name, "reported", report=reports()[name]),))


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
    assert alarms(rows[title(healthy)]) == {}


@pytest.mark.parametrize("faulty", FAULTS, ids=title)
def test_a_fault_is_found_by_its_check(faulty: Scenario, rows: dict[str, Row]) -> None:
    assert faulty.fault is not None
    assert rows[title(faulty)][faulty.fault.check] == faulty.fault.outcome


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
    false = sum(len(alarms(rows[each.name])) for each in SCENARIOS)
    lines += ["", LEGEND, f"{len(rows)} nodes, {len(IDLE)} checks, {asked} answers judged: "]
    lines[-1] += f"{found} of {len(FAULTS)} faults found by their check, {false} false alarms"
    return "\n".join(lines)
