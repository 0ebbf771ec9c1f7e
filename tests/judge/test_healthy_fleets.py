"""Healthy fleets, judged as a run is: next to no warning, and never a failure.

``make test-fleets`` judges a thousand.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import pytest

from hwcheck.advise.causes import diagnose
from hwcheck.judge.judge import judge
from hwcheck.node.wire import CheckResult, Leg
from hwcheck.results.run_folder import HostRecord, Run
from tests import factories
from tests.advise.both import cluster_advice
from tests.factories import as_alltoall, gpu_facts, leg, record, reduce_result
from tests.judge.nodes import pcie, topology

FEW, MANY = 60, 200
"""Fleets of a kind. No warning in 5 x 60: fewer than one in a hundred have one, at 95 %."""
SCATTER = 0.015
"""Standard deviation of a bandwidth over healthy hosts, as a share of it."""
SPREAD, SPREAD_SCATTER = 0.01, 0.006


class Kind(NamedTuple):
    """Hosts of one kind: GPUs, the way between them, and busbw by leg in GB/s."""

    model: str
    gpus: int
    path: str
    link_gbps: float
    generation: int
    busbw_gbps: dict[str, float]
    library: str = "NCCL 2.27.5"


H200 = Kind("NVIDIA H200", 8, "NV18", 26.5625, 5, {"default": 473, "p2p_off": 40, "net": 9})
KINDS = {
    "8x H200": (H200,),
    "8x A100": (
        Kind(
            "NVIDIA A100-SXM4-80GB", 8, "NV12", 25.0, 4, {"default": 233, "p2p_off": 25, "net": 9}
        ),
    ),
    "8x B200": (
        Kind("NVIDIA B200", 8, "NV18", 53.125, 5, {"default": 838, "p2p_off": 50, "net": 9}),
    ),
    "4x RTX 4090": (
        Kind("NVIDIA GeForce RTX 4090", 4, "NODE", 0, 4, {"default": 18, "p2p_off": 18, "net": 5}),
    ),
    "mixed": (
        H200,
        H200._replace(gpus=4, busbw_gbps={"default": 363, "p2p_off": 38, "net": 9}),
        H200._replace(library="NCCL 2.16.5", busbw_gbps={"default": 363, "p2p_off": 40, "net": 9}),
    ),
}


def host(dice: random.Random, name: str, kind: Kind) -> HostRecord:
    """Return a healthy host, whose figures scatter as healthy ones do."""

    def timed(leg_name: str, gbps: float) -> Leg:
        gbps *= 1 + dice.gauss(0, SCATTER)
        spread = abs(dice.gauss(SPREAD, SPREAD_SCATTER))
        return leg(leg_name, gbps, ranks=kind.gpus, spread=spread, library=kind.library)

    reduced = [timed(*each) for each in kind.busbw_gbps.items()]
    swapped = [as_alltoall(timed(*each)) for each in kind.busbw_gbps.items()]
    first = reduce_result(reduced)
    second = replace(reduce_result(swapped), check="alltoall")
    way: list[CheckResult] = [
        topology(kind.gpus, kind.path, link_gbps=kind.link_gbps),
        pcie(kind.gpus, kind.generation),
    ]
    facts = gpu_facts(kind.gpus, kind.model, 18 if kind.link_gbps else 0)
    return record(name, [first, second, *way], gpus=facts)


def fleet(dice: random.Random, kinds: tuple[Kind, ...]) -> Run:
    """Return a run over 4 to 8 hosts, most of them of the first kind."""
    hosts = [host(dice, f"n{place}", kinds[0]) for place in range(dice.randint(4, 8))]
    hosts += [host(dice, f"other{place}", kind) for place, kind in enumerate(kinds[1:])]
    return factories.run(*hosts, checks=("all_reduce", "alltoall", "topology", "pcie_link"))


@pytest.mark.parametrize("fleets", [FEW, pytest.param(MANY, marks=pytest.mark.fleets)])
@pytest.mark.parametrize("kinds", KINDS.values(), ids=KINDS)
def test_healthy_fleets_raise_next_to_no_warning(kinds: tuple[Kind, ...], fleets: int) -> None:
    dice = random.Random(20261121)
    alarmed: Counter[tuple[str, str, str]] = Counter()
    for _ in range(fleets):
        run = fleet(dice, kinds)
        judgement = judge(run)
        bad = {
            (finding.outcome, finding.check, finding.metric)
            for finding in judgement.findings
            if finding.outcome in ("warn", "fail")
        }
        alarmed.update(bad)
        if not bad:
            assert diagnose(run, judgement).diagnoses == ()
            assert dict(cluster_advice(run).settings) == {}
    assert sum(alarmed.values()) < max(1, fleets / 100), alarmed
    assert not any(outcome == "fail" for outcome, _, _ in alarmed), alarmed


def test_a_sick_host_in_such_a_fleet_is_found() -> None:
    dice, found = random.Random(7), 0
    sick = H200._replace(busbw_gbps={"default": 330, "p2p_off": 40, "net": 9})
    for _ in range(20):
        run = fleet(dice, (H200, sick))
        found += any(f.host == "other0" and f.outcome == "warn" for f in judge(run).findings)
    assert found == 20
