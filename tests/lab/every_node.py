"""Every node of the lab, healthy and with each fault, and what the payload answers of it idle.

No test module: one that another imports is loaded twice, and every node would be asked twice.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hwcheck.connect import payload
from hwcheck.inventory.expectations import expectations
from hwcheck.inventory.variables import Variables
from hwcheck.node import checks
from hwcheck.node.wire import Report, Request
from hwcheck.results.run_folder import HostPlan, HostRecord, Run, RunMeta
from tests.lab.answers import answers
from tests.lab.scenario import Scenario, load, names

TOKEN = "0123abcd"
AT_A_TIME = 4
TIME_LIMIT_S = 60
REGISTRY = checks.load()
IDLE = sorted(name for name, check in REGISTRY.items() if not (check.load or check.after_load))

SCENARIOS = [load(name) for name in names()]
FAULTS = [load(healthy.name, fault) for healthy in SCENARIOS for fault in healthy.faults]


def title(scenario: Scenario) -> str:
    return scenario.name + (f" {scenario.fault.name}" if scenario.fault else "")


def declared(scenario: Scenario) -> dict[str, Any]:
    """Return what an inventory with the scenario's variables comes down to."""
    variables = {f"hwcheck_{name}": value for name, value in scenario.expect.items()}
    return expectations(Variables(title(scenario), variables, scenario.name))


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
    request = Request(TOKEN, tuple(IDLE), host_root=root, expect=expect)
    return answers(zipped, request, environment, timeout_s=TIME_LIMIT_S)[0]


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
