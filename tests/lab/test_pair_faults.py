"""Two GPUs that cannot talk to each other are found, and named; pairs that can are silent.

The payload runs as on a node, under an interpreter whose CUDA is simulated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

pytest.importorskip("torch")

from hwcheck.contract.collective_spec import PAIRS
from hwcheck.contract.wire import CheckResult
from hwcheck.judge.records import Finding, worst
from tests.lab import loads
from tests.lab.load_runs import answer, judged
from tests.lab.loads import LoadedNode

pytestmark = pytest.mark.timeout(300)


def faulty(node: LoadedNode, doc: str, **faults: Mapping[str, Mapping[str, Any]]) -> LoadedNode:
    """Return a node on which copies from some GPUs (``gpu2``) to some others go wrong."""
    gpus = [
        {**says, "peer_faults": faults.get(f"gpu{place}", {})}
        for place, says in enumerate(node.gpus)
    ]
    return replace(node, name=f"{node.name} {doc}", gpus=tuple(gpus))


def refused(node: LoadedNode) -> LoadedNode:
    """Return a node on which CUDA grants no peer access, whatever NVML says."""
    gpus = tuple({**says, "peer_access": False} for says in node.gpus)
    return replace(node, name=f"{node.name} refused", gpus=gpus)


HEALTHY = {node.name: node for node in (*map(loads.load, ("h100x8", "rtx4090x4")), loads.ten_a40())}
FAULTY = {
    "corrupts": faulty(loads.load("h100x8"), "corrupts", gpu2={"5": {"flip_every": 1}}),
    "slow": faulty(loads.load("h100x8"), "slow", gpu1={"6": {"gbps": 180}}),
    "slow_of_ten": faulty(loads.ten_a40(), "slow", gpu9={"4": {"gbps": 12}}),
    "slow_through_the_host": faulty(loads.load("rtx4090x4"), "slow", gpu3={"0": {"gbps": 9}}),
}
REFUSED = refused(loads.ten_a40())
FINDS = {
    "slow_of_ten": {"p2p_percent_of_alike gpu9-gpu4": "warn"},
    "corrupts": {"p2p_wrong_elements gpu2-gpu5": "fail"},
    "slow": {"p2p_percent_of_alike gpu1-gpu6": "warn"},
    "slow_through_the_host": {"p2p_percent_of_alike gpu3-gpu0": "warn"},
}


def with_controls(names: Iterable[str], *controls: str) -> list[Any]:
    """Return the names as parameters; ``make test`` takes the controls."""
    return [
        name if name in controls else pytest.param(name, marks=pytest.mark.wide) for name in names
    ]


@dataclass(frozen=True)
class Row:
    result: CheckResult
    findings: tuple[Finding, ...]
    evidence: str

    def complaints(self) -> dict[str, str]:
        return {
            f"{each.metric} {each.subject}": worst([each.outcome])
            for each in self.findings
            if each.outcome != "pass"
        }

    def values(self, metric: str) -> dict[str, Any]:
        return {s.subject: s.value for s in self.result.samples if s.metric == metric}


@cache
def row_of(name: str) -> Row:
    """Ask the node that has this name here."""
    node = {**HEALTHY, **FAULTY, "refused": REFUSED}[name]
    with TemporaryDirectory(prefix="hwlab-") as folder:
        report, _ = answer(node, Path(folder) / "node", (PAIRS,))
        findings, actions = judged(node, report, (PAIRS,))
        said = " ".join(" ".join(action.evidence) for action in actions)
        return Row(report.results[0], findings, said)


@pytest.mark.parametrize("name", with_controls(HEALTHY, "h100x8"))
def test_on_a_healthy_node_every_pair_is_whole_and_alike(name: str) -> None:
    node, row = HEALTHY[name], row_of(name)
    count = len(node.gpus)
    assert (row.result.state, row.result.reason.text) == ("done", "")
    assert row.complaints() == {}
    assert set(row.values("p2p_wrong_elements").values()) == {0}
    assert set(row.values("p2p_access").values()) == {node.gpus[0]["peer_access"]}
    for metric in ("p2p_copy_gbps", "p2p_concurrent_gbps", "p2p_percent_of_alike"):
        values = row.values(metric)
        assert len(values) == count * (count - 1)
        wanted = 100 if metric.endswith("alike") else node.gpus[0]["peer_gbps"]
        assert [*values.values()] == pytest.approx([wanted] * len(values), rel=0.02)


def test_what_cuda_refuses_and_nvml_grants_is_said_of_every_pair() -> None:
    row = row_of("refused")
    found = row.complaints()
    assert row.values("p2p_access") == dict.fromkeys(row.values("p2p_access"), False)
    assert len(found) == 90
    assert {(name.split()[0], outcome) for name, outcome in found.items()} == {
        ("p2p_refused_by_cuda", "warn")
    }


@pytest.mark.parametrize("fault", with_controls(FAULTY, "corrupts", "slow"))
def test_a_pair_that_is_ill_is_named_and_no_other(fault: str) -> None:
    row = row_of(fault)
    assert row.result.state == "done"
    assert row.complaints() == FINDS[fault]
    (found,) = FINDS[fault]
    assert found.split()[1] in row.evidence


def test_every_wrong_copy_is_counted() -> None:
    wrong = row_of("corrupts").values("p2p_wrong_elements")
    # The first copy alone, those that are timed, and the last one beside the other pairs.
    assert wrong["gpu2-gpu5"] >= 3
    assert sum(wrong.values()) == wrong["gpu2-gpu5"]
