"""Healthy fleets, judged as a run is: next to no warning, and never a failure.

``make test-fleets`` judges thousands.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import pytest

from hwcheck import checks
from hwcheck.advise.catalogue import shipped
from hwcheck.advise.causes import diagnose
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import CheckResult, Leg, Sample
from hwcheck.judge.judge import judge
from hwcheck.results.run_folder import HostRecord, Run
from tests import factories
from tests.advise.both import cluster_advice
from tests.factories import as_alltoall, gpu_facts, leg, record, reduce_result, slow_in_small
from tests.judge.nodes import pcie, topology

FEW, MANY = 60, 200
"""Fleets of a kind. No warning in 5 x 60: fewer than one in a hundred have one, at 95 %."""
SCATTER = 0.015
"""Standard deviation of a bandwidth over healthy hosts, as a share of it."""
SPREAD, SPREAD_SCATTER = 0.01, 0.006
SMALL_SCATTER = 0.2
"""Of the time of small messages, which waits for the operating system too."""
WAYS = {"default": "P2P/CUMEM", "p2p_off": "SHM", "net": "NET/IB"}


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
        made = leg(leg_name, gbps, ranks=kind.gpus, spread=spread, library=kind.library)
        transport = {WAYS[leg_name]: 16 * kind.gpus, "channels": 16}
        small = 1 + abs(dice.gauss(0, SMALL_SCATTER))
        return replace(slow_in_small(made, small), transport=transport)

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
@pytest.mark.timeout(3600)
def test_healthy_fleets_raise_next_to_no_warning(kinds: tuple[Kind, ...], fleets: int) -> None:
    dice = random.Random(20261121)
    alarmed: Counter[tuple[str, str, str]] = Counter()
    for _ in range(fleets):
        run = fleet(dice, kinds)
        judgement = judge(run, shipped())
        bad = {
            (finding.outcome, finding.check, finding.metric)
            for finding in judgement.findings
            if finding.outcome in ("warn", "fail")
        }
        alarmed.update(bad)
        if not bad:
            assert diagnose(run, judgement, shipped().rules).diagnoses == ()
            assert dict(cluster_advice(run).settings) == {}
    assert sum(alarmed.values()) < max(1, fleets / 100), alarmed
    assert not any(outcome == "fail" for outcome, _, _ in alarmed), alarmed


def test_a_sick_host_in_such_a_fleet_is_found() -> None:
    dice, found = random.Random(7), 0
    sick = H200._replace(busbw_gbps={"default": 330, "p2p_off": 40, "net": 9})
    for _ in range(20):
        run = fleet(dice, (H200, sick))
        found += any(
            f.host == "other0" and f.outcome == "warn" for f in judge(run, shipped()).findings
        )
    assert found == 20


REGISTRY = checks.load()
SOME, ALL = 25, 2000
"""Fleets with everything that is compared."""


class Make(NamedTuple):
    """A make of machine: GPUs, RDMA ports by rate, and what its GPUs and its kernel do not have.

    ``lacks`` are checks that do not apply to any host of it.
    """

    model: str
    gpus: int
    slowdown_c: int
    limit_w: float
    memory_gib: int
    ports: int
    rate_gbps: float
    lacks: tuple[str, ...] = ()
    hypervisor: str = "none"


RDMA = ("infiniband_ports", "memlock", "peermem", "roce_gids")
CONSUMER = ("ecc_errors", "mig", "retired_pages", "row_remap", "nvlink_state", *RDMA)
MAKES = (
    Make("NVIDIA H100 80GB HBM3", 8, 89, 700.0, 80, 8, 400.0, ("retired_pages", "roce_gids")),
    Make("NVIDIA H200", 8, 92, 700.0, 141, 10, 400.0, ("retired_pages", "roce_gids")),
    Make("NVIDIA A100-SXM4-80GB", 8, 92, 400.0, 80, 4, 200.0, ("retired_pages", "roce_gids")),
    Make("Tesla V100-SXM2-32GB", 8, 90, 300.0, 32, 1, 100.0, ("mig", "row_remap", "roce_gids")),
    Make("NVIDIA GeForce RTX 4090", 4, 90, 450.0, 24, 0, 0.0, CONSUMER),
    Make("NVIDIA A40", 10, 95, 300.0, 48, 1, 100.0, ("mig", "retired_pages", "roce_gids")),
    Make(
        *("NVIDIA A100-SXM4-40GB", 8, 92, 400.0, 40, 0, 0.0),
        ("retired_pages", "numa_balancing", *RDMA),
        "kvm",
    ),
)


def decades(dice: random.Random, middle: float, sigma: float) -> int:
    """Return a count of a counter that grew for as long as nobody knows."""
    return round(10 ** dice.gauss(middle, sigma)) if dice.random() < 0.8 else 0


def gpu_answers(dice: random.Random, make: Make) -> dict[str, Any]:
    """Return what a host says of its GPUs: slots, age and the air that it gets differ."""
    gpus = [f"gpu{n}" for n in range(make.gpus)]
    air_c, age, rear_c = dice.gauss(28, 2), dice.gauss(0, 0.25), dice.uniform(0, 9)
    warm = {
        gpu: round(air_c + rear_c * (n >= make.gpus // 2) + dice.gauss(3, 1.2))
        for n, gpu in enumerate(gpus)
    }
    consumer = make.limit_w == 450.0
    display, idle_w = dice.random() < 0.2 and consumer, 18.0 if consumer else make.limit_w / 10

    def each(value: Any) -> dict[str, Any]:
        return dict.fromkeys(gpus, value)

    def counted(middle: float, sigma: float = 0.35) -> dict[str, int]:
        return {gpu: decades(dice, middle + age, sigma) for gpu in gpus}

    return {
        "temperature_idle": {
            "temperature_c": warm,
            "temperature_slowdown_c": each(make.slowdown_c),
        },
        "thermal_margin": {
            "thermal_margin_c": {gpu: make.slowdown_c - heat for gpu, heat in warm.items()},
            "memory_temperature_c": {gpu: heat + 4 for gpu, heat in warm.items()},
        },
        "power_cap": {
            "power_limit_w": each(make.limit_w),
            "power_limit_default_w": each(make.limit_w),
            "power_limit_percent": each(100.0),
        },
        "power_budget": {
            "power_limit_w": each(make.limit_w),
            "power_planned_w": {
                gpu: idle_w * dice.gauss(1, 0.06) + 15 * (display and gpu == "gpu0") for gpu in gpus
            },
        },
        "pcie_errors": {
            "pcie_replays": counted(1.3),
            "pcie_replays_over_peers": each(1.0),
        },
        "ecc_mode": {
            "ecc_enabled": each(make.limit_w != 450.0),
            "ecc_differs_from_default": each(False),
            "ecc_change_pending": each(False),
        },
        "ecc_errors": {
            "ecc_uncorrected_volatile": each(0),
            "ecc_corrected_volatile": {gpu: dice.choice((0, 0, 0, 1, 3)) for gpu in gpus},
            "ecc_corrected_per_hour": {gpu: dice.choice((0, 0, 0, 0.01)) for gpu in gpus},
            "ecc_uncorrected_aggregate": {gpu: dice.choice((0, 0, 0, 1)) for gpu in gpus},
            "ecc_corrected_aggregate": {
                gpu: decades(dice, 2, 1.2) if dice.random() < 0.1 else 0 for gpu in gpus
            },
        },
        "row_remap": {
            "row_remap_pending": each(False),
            "row_remap_failure": each(False),
            "row_remap_uncorrectable": {gpu: dice.choice((0, 0, 0, 1)) for gpu in gpus},
            "row_remap_correctable": {gpu: dice.choice((0, 0, 0, 2)) for gpu in gpus},
        },
        "retired_pages": {
            "retired_pages_pending": each(False),
            "retired_pages": {gpu: dice.choice((0, 0, 0, 1, 2)) for gpu in gpus},
            "retired_pages_single_bit": each(0),
            "retired_pages_double_bit": each(0),
        },
        "mig": {"mig_enabled": each(False), "mig_change_pending": each(False)},
        "gpu_model": {
            "gpu_model": each(make.model),
            "gpu_model_of_most": each(make.model),
            "gpu_board_id": each("10de"),
            "memory_gib": each(make.memory_gib),
        },
        "stray_processes": {
            "compute_processes": each(0),
            "graphics_processes": {gpu: int(display and gpu == "gpu0") for gpu in gpus},
            "memory_used_bytes": {gpu: dice.randint(0, 900) << 20 for gpu in gpus},
        },
    }


def node_answers(dice: random.Random, make: Make) -> dict[str, Any]:
    """Return what a host says of the rest; of its ports one may be for nobody."""
    ports = [f"port mlx5_{n}/1" for n in range(make.ports)]
    spare = ["port mlx5_99/1"] if dice.random() < 0.3 else []
    age = dice.gauss(0, 0.25)

    def each(value: Any) -> dict[str, Any]:
        return dict.fromkeys(ports, value)

    def counted(middle: float, sigma: float = 0.35) -> dict[str, int]:
        return {port: decades(dice, middle + age, sigma) for port in ports}

    grown = {"link_downed": 0.6, "port_rcv_errors": 0.8, "symbol_error": 0.5}
    grown |= {"out_of_sequence": 3.0, "local_ack_timeout_err": 1.0, "roce_adp_retrans": 2.0}
    return {
        "infiniband_ports": {
            "active_ports": make.ports,
            "link_layer": dict.fromkeys((*ports, *spare), "InfiniBand"),
            "port_state": dict.fromkeys(spare, "DOWN, Polling"),
            "linked_state": each("ACTIVE"),
            "port_rate_gbps": each(make.rate_gbps),
            "firmware": dict.fromkeys((*ports, *spare), "28.39.2048"),
            "firmware_of_most": dict.fromkeys((*ports, *spare), "28.39.2048"),
            **{metric: counted(middle) for metric, middle in grown.items()},
        },
        "memlock": {"memlock_unlimited": True},
        "peermem": {
            "peermem_module": "nvidia_peermem",
            "driver_is_open": True,
            "gpudirect_rdma": True,
        },
        "roce_gids": {},
        "nvlink_state": {},
        "software_versions": {"torch_version": "2.8.0", "nccl_version": "2.27.5"},
        "numa_balancing": {"numa_balancing": "0", "numa_nodes": 2},
        "virtualization": {"hypervisor": make.hypervisor, "product": "x", "container": False},
        "power_state": {},
    }


def answer_of(check: str, metrics: dict[str, Any]) -> CheckResult:
    """Return an answer by metric, of the node or by subject."""
    units = {metric.name: metric.unit for metric in REGISTRY[check].metrics}
    samples = [
        Sample(metric, value, units[metric], subject)
        for metric, values in metrics.items()
        for subject, value in (values if isinstance(values, dict) else {"node": values}).items()
    ]
    return CheckResult(check, "done", samples=tuple(samples))


def whole_host(dice: random.Random, name: str, make: Make, lacks: tuple[str, ...]) -> HostRecord:
    """Return a healthy host with all that is compared; ``lacks`` is what its fleet goes without."""
    answers = {**gpu_answers(dice, make), **node_answers(dice, make)}
    results = [
        CheckResult(check, "not_applicable", Reason("not_applicable", "it has none"))
        if check in (*make.lacks, *lacks) or not says
        else answer_of(check, says)
        for check, says in answers.items()
    ]
    facts = [
        {**gpu, "uuid": f"GPU-{name}-{gpu['index']}"} for gpu in gpu_facts(make.gpus, make.model)
    ]
    return record(name, results, gpus=facts)


def whole_fleet(dice: random.Random) -> Run:
    """Return 5 to 50 hosts of one to three makes; some fleets are without torch or a budget."""
    makes = dice.sample(MAKES, dice.choice((1, 1, 2, 3)))
    some = ("software_versions", "power_budget", "numa_balancing")
    lacks = tuple(check for check in some if dice.random() < 0.3)
    hosts = [
        whole_host(dice, f"n{place}", makes[min(place % 7, len(makes) - 1)], lacks)
        for place in range(dice.randint(5, 50))
    ]
    return factories.run(*hosts, checks=tuple(gpu_answers(dice, MAKES[0])) + NODE_CHECKS)


NODE_CHECKS = tuple(node_answers(random.Random(0), MAKES[0]))


@pytest.mark.parametrize("fleets", [SOME, pytest.param(ALL, marks=pytest.mark.fleets)])
@pytest.mark.timeout(3600)
def test_fleets_with_all_that_is_compared(fleets: int, capsys: pytest.CaptureFixture[str]) -> None:
    dice = random.Random(20261122)
    outcomes: Counter[str] = Counter()
    hosts, bad = 0, Counter[tuple[str, ...]]()
    for _ in range(fleets):
        judgement = judge(whole_fleet(dice), shipped())
        outcomes[judgement.outcome] += 1
        hosts += len(judgement.hosts)
        bad.update(
            {
                (f.outcome, f.check, f.metric, f.reason)
                for f in judgement.findings
                if f.outcome != "pass"
            }
        )
    with capsys.disabled():
        print(f"\n{fleets} healthy fleets of {hosts} hosts: {dict(outcomes)}", end=" ")
    assert outcomes["fail"] == outcomes["inconclusive"] == 0, bad
    assert outcomes["warn"] <= fleets / 100, bad


@cache
def fleets_of_eight() -> list[list[HostRecord]]:
    """Return 20 fleets of 8 healthy hosts."""
    dice = random.Random(11)
    return [[whole_host(dice, f"n{n}", MAKES[0], ()) for n in range(8)] for _ in range(20)]


@pytest.mark.parametrize(
    ("check", "metric", "subject", "value"),
    [
        ("pcie_errors", "pcie_replays", "gpu5", 3_000_000),
        ("temperature_idle", "temperature_c", "gpu2", 66),
        ("mig", "mig_enabled", "gpu7", True),
        ("infiniband_ports", "port_rcv_errors", "port mlx5_3/1", 5_000_000),
    ],
)
def test_one_fault_in_such_a_fleet_is_found(
    check: str, metric: str, subject: str, value: Any
) -> None:
    seen = 0
    for healthy in fleets_of_eight():
        hosts = list(healthy)
        report = hosts[3].report
        assert report is not None
        results = tuple(
            replace(
                answer,
                samples=tuple(
                    replace(sample, value=value)
                    if (sample.metric, sample.subject) == (metric, subject)
                    else sample
                    for sample in answer.samples
                ),
            )
            if answer.check == check
            else answer
            for answer in report.results
        )
        hosts[3] = replace(hosts[3], report=replace(report, results=results))
        asked = tuple(gpu_answers(random.Random(11), MAKES[0])) + NODE_CHECKS
        findings = judge(factories.run(*hosts, checks=asked), shipped()).findings
        seen += any(
            (f.host, f.metric, f.subject, f.outcome) == ("n3", metric, subject, "warn")
            for f in findings
        )
    assert seen == 20
