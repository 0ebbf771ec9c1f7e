"""The checks of the load on a simulated node, run by the payload itself and judged."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from hwcheck import checks
from hwcheck.advise.actions import advise
from hwcheck.advise.catalogue import shipped
from hwcheck.advise.records import Action
from hwcheck.contract.load_run import LoadRun
from hwcheck.contract.wire import Report, Request
from hwcheck.inventory.expectations import expectations
from hwcheck.inventory.variables import Variables
from hwcheck.judge.judge import judge
from hwcheck.judge.records import Finding, worst
from hwcheck.results.run_folder import HostPlan, HostRecord, Run, RunMeta
from hwcheck.results.schema_check import schema_problem
from hwcheck.results.series import unpack
from tests.lab.answers import answers
from tests.lab.loads import LoadedNode

CHECKS = tuple(
    sorted(
        name
        for name, check in checks.load().items()
        if check.load and check.per_gpu and name not in checks.ON_DEMAND
    )
)
LOAD_S = 14.0
"""What is read once a second is wanted five times in the second half of the load."""
TIME_LIMIT_S = 300
TOKEN = "0123abcd"

# As `python payload < request.json`, with a load lock of its own: the nodes share a machine.
START = """
import runpy, sys
lock, payload = sys.argv[1:]
sys.path.insert(0, payload)
from hwcheck.node import load_lock
load_lock.NAME = chr(0) + lock
runpy.run_path(payload, run_name="__main__")
"""


@dataclass(frozen=True)
class Loaded:
    """What came of one node."""

    report: Report
    load: LoadRun
    findings: tuple[Finding, ...]
    actions: tuple[Action, ...]

    def complaints(self) -> dict[str, str]:
        """Return all that is no pass: the worst outcome by check and subject."""
        found: dict[str, list[str]] = {}
        for each in self.findings:
            found.setdefault(f"{each.check} {each.subject}", []).append(each.outcome)
        return {of: worst(said) for of, said in found.items() if worst(said) != "pass"}

    def outcome(self, check: str) -> str:
        """Return the worst outcome of a check; empty where it does not apply."""
        said = [each.outcome for each in self.findings if each.check == check]
        return worst(said) if said else ""


def run(node: LoadedNode, folder: Path, root: Path | None = None) -> Loaded:
    """Load a node that is written to a new folder, and judge it by itself.

    ``root`` is the tree of a node like it that was installed before.
    """
    report, frames = answer(node, folder, CHECKS, root)
    series = [frame["series"] for frame in frames if frame["kind"] == "series"]
    assert len(series) == 1, f"{node.name}: {[result.reason.text for result in report.results]}"
    assert schema_problem(series[0], "series") == ""
    load = unpack(series[0]).load
    assert load is not None
    return Loaded(report, load, *judged(node, report, CHECKS))


def answer(
    node: LoadedNode,
    folder: Path,
    asked: tuple[str, ...],
    root: Path | None = None,
) -> tuple[Report, list[dict[str, Any]]]:
    """Return what the payload reports of a node that is written to a new folder; all its frames."""
    environment, variables = node.install(folder, root)
    request = Request(
        token=TOKEN,
        checks=asked,
        load_s=LOAD_S,
        host_root=str(variables["hwcheck_host_root"]),
        expect=declared(node),
        torch_python=str(variables["hwcheck_torch_python"]),
    )
    start = ("-c", START, str(folder))
    return answers(request, environment, timeout_s=TIME_LIMIT_S, start=start)


def declared(node: LoadedNode) -> dict[str, Any]:
    variables = {f"hwcheck_{name}": value for name, value in node.scenario.expect.items()}
    return expectations(Variables(node.name, variables, node.scenario.name))


def judged(
    node: LoadedNode, report: Report, asked: tuple[str, ...]
) -> tuple[tuple[Finding, ...], tuple[Action, ...]]:
    """Judge a node by itself; return the findings and what is to be done about them."""
    plan = HostPlan(node.name, "127.0.0.1", declared(node))
    meta = RunMeta(id="load", started="", checks=asked, hosts=(plan,))
    run = Run(Path(), meta, (HostRecord(node.name, "reported", report=report),))
    judgement = judge(run, shipped())
    return tuple(judgement.findings), advise(run, judgement, shipped()).actions


def largest_gap_s(load: LoadRun) -> float:
    """Return the longest time without a sample while the GPUs worked."""
    inside = [at_s for at_s in load.series.time_s if 0 < at_s < load.load_end_s]
    return max(late - early for early, late in pairwise([0.0, *inside, load.load_end_s]))


def told(
    load: LoadRun, quantity: str, subject: str, begin_s: float, end_s: float = math.inf
) -> list[float]:
    """Return what a GPU told of a quantity from a time on, and until another."""
    pairs = zip(load.series.time_s, load.series.columns[subject][quantity], strict=True)
    return [value for at_s, value in pairs if value is not None and begin_s <= at_s <= end_s]
