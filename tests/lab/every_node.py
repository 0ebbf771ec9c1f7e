"""Every node of the lab, healthy and with each fault, and what the payload answers of it idle.

No test module: one that another imports is loaded twice, and every node would be asked twice.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hwcheck import checks
from hwcheck.contract.wire import Report, Request
from hwcheck.inventory.expectations import expectations
from hwcheck.inventory.variables import Variables
from hwcheck.results.run_folder import HostPlan, HostRecord, Run, RunMeta
from tests.lab import at_work
from tests.lab.answers import Forks, answers
from tests.lab.scenario import Scenario, load, names

TOKEN = "0123abcd"
AT_A_TIME = 4
TIME_LIMIT_S = 60
REGISTRY = checks.load()
IDLE = sorted(name for name, check in REGISTRY.items() if not (check.load or check.after_load))

THROUGH_PAYLOAD = ("gb200", "h100x8", "none")
SCENARIOS = [load(name) for name in names()]
FAULTS = [load(healthy.name, fault) for healthy in SCENARIOS for fault in healthy.faults]


def title(scenario: Scenario) -> str:
    return scenario.name + (f" {scenario.fault.name}" if scenario.fault else "")


WITHOUT_NVML = "h100x8 nvml_of_another_version"


def _controls() -> list[Scenario]:
    """Return a fault of each check, and those whose nodes tests name."""
    named = {WITHOUT_NVML, *(node.node for node in at_work.faulty())}
    found: dict[str, list[Scenario]] = {}
    for faulty in FAULTS:
        assert faulty.fault
        of_check = found.setdefault(faulty.fault.check, [])
        if not of_check or title(faulty) in named:
            of_check.append(faulty)
    return [faulty for of_check in found.values() for faulty in of_check]


CONTROLS = _controls()
"""The faults of ``make test``; ``make test-wide`` takes the others."""
OTHERS = [faulty for faulty in FAULTS if faulty not in CONTROLS]


def declared(scenario: Scenario) -> dict[str, Any]:
    """Return what an inventory with the scenario's variables comes down to."""
    variables = {f"hwcheck_{name}": value for name, value in scenario.expect.items()}
    return expectations(Variables(title(scenario), variables, scenario.name))


def install(scenario: Scenario, folder: Path) -> tuple[Request, dict[str, str]]:
    """Write a node; return what it is asked, and the environment of its processes.

    A faulty node whose host is as it should be reads the tree of the healthy one: thousands of
    files take longer to write than to check.
    """
    own = folder / title(scenario).replace(" ", ".")
    healthy = load(scenario.name)
    same = scenario.fault is not None and scenario.host == healthy.host
    environment, variables = scenario.install(own, folder / healthy.name / "root" if same else None)
    root = str(variables["hwcheck_host_root"])
    return Request(TOKEN, tuple(IDLE), host_root=root, expect=declared(scenario)), environment


def report(node: str) -> Report:
    """Return what the node with this title answers; it is asked once, whoever wants to know."""
    return _reports(node in map(title, OTHERS))[node]


@cache
def _reports(others: bool) -> dict[str, Report]:
    """Ask the nodes with the other faults, or the healthy ones and the controls.

    On ``THROUGH_PAYLOAD`` the payload runs as it would there; the others, which are many, are asked
    in forks.
    """
    # Tens of thousands of small files: pytest would keep them for three runs.
    with TemporaryDirectory(prefix="hwlab-") as name:
        folder = Path(name)
        healthy, faulty = ([], OTHERS) if others else (SCENARIOS, CONTROLS)
        # Also where they are not asked: faulty nodes read their trees.
        trees = {each.name: install(each, folder) for each in SCENARIOS}

        def installed(scenario: Scenario) -> tuple[Request, dict[str, str]]:
            return install(scenario, folder) if scenario.fault else trees[scenario.name]

        def ask(scenario: Scenario) -> Report:
            return answers(*installed(scenario), timeout_s=TIME_LIMIT_S)[0]

        def ask_in_forks(scenarios: list[Scenario]) -> dict[str, Report]:
            with Forks(gpus=scenarios[0].nvml is not None) as forks:
                return {title(each): forks.ask(*installed(each)) for each in scenarios}

        alone = [each for each in healthy if each.name in THROUGH_PAYLOAD]
        rest = [*(each for each in healthy if each not in alone), *faulty]
        with_gpus = [each for each in rest if each.nvml is not None]
        without = [each for each in rest if each.nvml is None]
        some = [with_gpus[n::AT_A_TIME] for n in range(AT_A_TIME)]
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            found = dict(zip(map(title, alone), pool.map(ask, alone), strict=True))
            for part in pool.map(ask_in_forks, filter(None, (*some, without))):
                found |= part
    return found


def run_of(scenario: Scenario) -> Run:
    """Return the run of one node by itself: with others it would be compared with them."""
    name = title(scenario)
    plan = HostPlan(name, "127.0.0.1", declared(scenario))
    meta = RunMeta(id="matrix", started="", checks=tuple(IDLE), hosts=(plan,))
    return Run(Path(), meta, (HostRecord(name, "reported", report=report(name)),))
