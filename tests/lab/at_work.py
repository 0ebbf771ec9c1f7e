"""Nodes of the lab at work: what they answer idle, and the real checks over simulated work.

``at_work.yml`` has two parts::

    nodes: {h100x8: {legs: {default: 470, ...}, copies: {gbps: 370}}}
    faults:
      name: {doc: one line, node: h100x8 link_down, cause: nvlink_down, legs: ..., ...}

A fault lies over the healthy work of its node's scenario; ``node`` may have a fault of its own. The
legs of all_reduce are by name: the busbw in GB/s, or ``{gbps, state, wrong, driver, log, library,
transport}``. ``copies`` are those between all pairs: ``{gbps, together, access}``, and in ``pairs``
what one does otherwise, besides ``wrong`` and ``hang: true``. ``load`` names what befalls a load
(``tests/checks/test_load_scenarios.py``). ``idle`` has checks to ask again, of a node as in a
case: its keys, or the name of a case of that check.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from hwcheck import checks
from hwcheck.contract.wire import CheckResult, Leg, Report
from hwcheck.node.main import run_check
from hwcheck.results.run_folder import HostPlan, HostRecord, Run, RunMeta
from hwcheck.testing.fake_node import FakeNode
from tests import factories
from tests.checks import test_load_scenarios as simulated
from tests.lab.scenario import overlay
from tests.lab.tree_writer import ScenarioError, section

FILE = Path(__file__).with_name("at_work.yml")
CASES = Path(__file__).parents[1] / "cases"
REGISTRY = checks.load()
SEED = 7

WORK: Mapping[str, Any] = {"legs": {}, "copies": {}, "load": "", "idle": {}}
FAULT: Mapping[str, Any] = {**WORK, "doc": "", "node": "", "cause": ""}
COPIES: Mapping[str, Any] = {"gbps": 20.0, "together": None, "access": True, "pairs": {}}
PAIR: Mapping[str, Any] = {"gbps": None, "together": None, "wrong": 0, "hang": False}
LEG: Mapping[str, Any] = {
    "gbps": 20.0,
    "state": "done",
    "wrong": 0,
    "driver": "",
    "log": "",
    "reason": "",
    "library": "NCCL 2.27.5",
    "transport": {},
}


P2P_STATUS = ("pcie_read", "pcie_write", "nvlink_read", "nvlink_write")
NO_STATUS = dict.fromkeys(("read", "write", "nvlink", "atomics"), "OK")


@dataclass(frozen=True)
class AtWork:
    """A node that was put to work; ``node`` is the title of the idle one, ``cause`` empty where it
    is healthy."""

    name: str
    node: str
    work: Mapping[str, Any]
    doc: str = ""
    cause: str = ""

    def run(self, idle: Report, expect: Mapping[str, Any]) -> Run:
        """Return the run of the node by itself, from what it answered idle."""
        again = dict(_asked_again(self.work["idle"]))
        answers = [again.get(answer.check, answer) for answer in idle.results]
        answers += self._of_work(idle)
        report = replace(idle, results=tuple(answers))
        plan = HostPlan(self.name, "127.0.0.1", expect)
        asked = tuple(answer.check for answer in answers)
        meta = RunMeta(id="at-work", started="", checks=asked, hosts=(plan,))
        return Run(Path(), meta, (HostRecord(self.name, "reported", report=report),))

    def _of_work(self, idle: Report) -> Iterator[CheckResult]:
        gpus = len(idle.facts["gpus"])
        if self.work["legs"]:
            legs = [leg_of(name, says, gpus) for name, says in self.work["legs"].items()]
            yield run_check(REGISTRY["all_reduce"], node_of(idle, legs=[*map(plain, legs)]))
        if self.work["copies"]:
            node = node_of(idle, pairs=pairs_of(self.work["copies"], gpus))
            yield run_check(REGISTRY["gpu_pairs"], node)
        if self.work["load"]:
            yield from simulated.answers(getattr(simulated, self.work["load"]), SEED)[1]


def healthy() -> list[AtWork]:
    """Return the nodes of the file with nothing wrong."""
    return [AtWork(name, name, work) for name, work in _read()["nodes"].items()]


def faulty() -> list[AtWork]:
    """Return the faults of the file, each on its node."""
    found = []
    for name, says in _read()["faults"].items():
        own = section(says, f"at_work.yml: {name}", FAULT)
        scenario = own["node"].partition(" ")[0]
        base = _read()["nodes"].get(scenario)
        if base is None:
            raise ScenarioError(f"at_work.yml: {name}: no node {scenario!r}")
        work = {key: overlay(base[key], own[key]) for key in WORK}
        found.append(AtWork(name, own["node"], work, own["doc"], own["cause"]))
    return found


@cache
def _read() -> Mapping[str, Any]:
    says = section(yaml.safe_load(FILE.read_text("utf-8")), FILE.name, {"nodes": {}, "faults": {}})
    nodes = {name: section(work, FILE.name, WORK) for name, work in says["nodes"].items()}
    return {"nodes": nodes, "faults": says["faults"]}


def _asked_again(idle: Mapping[str, Any]) -> Iterator[tuple[str, CheckResult]]:
    for check, says in idle.items():
        node = says
        if isinstance(says, str):
            node = json.loads((CASES / check / f"{says}.json").read_text("utf-8"))["node"]
        yield check, run_check(REGISTRY[check], FakeNode({"pci_gpus": ["0000:18:00.0"], **node}))


def node_of(idle: Report, **work: Any) -> FakeNode:
    """Return a node with the GPUs of the idle one, the ways between them and NVML's word on P2P."""
    ways: dict[str, dict[str, str]] = {}
    granted: dict[str, dict[str, dict[str, str]]] = {}
    for answer in idle.results:
        for sample in answer.samples if answer.check == "topology" else ():
            if sample.metric == "path":
                one, _, other = sample.subject.partition("-")
                ways.setdefault(one, {})[other] = str(sample.value)
                ways.setdefault(other, {})[one] = str(sample.value)
        for sample in answer.samples if answer.check == "p2p_status" else ():
            _, _, what = sample.metric.partition("_")
            if sample.metric in P2P_STATUS:
                one, _, other = sample.subject.partition("-")
                status = granted.setdefault(one, {}).setdefault(other, dict(NO_STATUS))
                status[what] = str(sample.value)
    common = {"mig_mode": None, "compute_processes": [], "nvlinks": []}
    gpus = [
        {**common, "name": gpu["name"], "pci_address": f"0000:{0x18 + place:02x}:00.0"}
        for place, gpu in enumerate(idle.facts["gpus"])
    ]
    for place, gpu in enumerate(gpus):
        gpu["pcie_path"] = ways.get(f"gpu{place}", {})
        gpu["p2p_status"] = granted.get(f"gpu{place}", {})
    return FakeNode({"pci_gpus": [gpu["pci_address"] for gpu in gpus], "gpus": gpus, **work})


def leg_of(name: str, says: Any, gpus: int) -> Leg:
    own = section(says if isinstance(says, Mapping) else {"gbps": says}, f"leg {name}", LEG)
    more = {key: own[key] for key in ("library", "driver", "reason")}
    more["transport"] = {kind: n for kind, n in own["transport"].items() if n is not None}
    made = factories.leg(name, own["gbps"], ranks=gpus, log_tail=own["log"], **more)
    if own["state"] != "done":
        return replace(made, state=own["state"], sizes=())
    last = replace(made.sizes[-1], wrong=own["wrong"])
    return replace(made, sizes=(*made.sizes[:-1], last))


def plain(leg: Leg) -> dict[str, Any]:
    return {key: value for key, value in asdict(leg).items() if key != "collective"}


def pairs_of(says: Mapping[str, Any], gpus: int) -> dict[str, Any]:
    """Return the record of the copies; the first pair that hangs ends them."""
    own = section(says, "copies", COPIES)
    every = [(one, other) for one in range(gpus) for other in range(gpus) if one != other]
    named = {f"gpu{one}-gpu{other}": (one, other) for one, other in every}
    pairs = {name: section(own["pairs"].get(name, {}), name, PAIR) for name in named}
    unknown = set(own["pairs"]) - set(named)
    if unknown:
        raise ScenarioError(f"copies: no such pair: {', '.join(sorted(unknown))}")
    hung = next((name for name in named if pairs[name]["hang"]), "")
    copies = []
    for name, (one, other) in named.items():
        if name == hung:
            break
        pair = pairs[name]
        gbps = pair["gbps"] or own["gbps"]
        together = None if hung else pair["together"] or own["together"] or gbps
        ends = {"one": one, "other": other, "access": own["access"]}
        copies.append({**ends, "gbps": gbps, "together_gbps": together, "wrong": pair["wrong"]})
    if not hung:
        return {"copies": copies}
    reason = f"{hung}: killed after 20 s without a word"
    return {"copies": copies, "hung": [hung], "reason": reason, "driver": "answers"}
