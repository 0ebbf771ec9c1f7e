"""Hosts with a topology, for the tests of what is held against it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from hwcheck import checks
from hwcheck.contract.wire import CheckResult, Leg, Sample
from hwcheck.judge.host_case import HostCase, node_facts
from hwcheck.results.run_folder import HostPlan, HostRecord
from tests.factories import gpu_facts, record, reduce_result

H100 = "NVIDIA H100 80GB HBM3"


def host_case(record: HostRecord, **expect: Any) -> HostCase:
    """Return a host as its judges see it: asked for every check that it answered."""
    results = record.report.results if record.report else ()
    return HostCase(
        plan=HostPlan(record.host, "127.0.0.1", expect),
        record=record,
        facts=node_facts(expect, record),
        checks={result.check: checks.load().get(result.check) for result in results},
        answers={result.check: result for result in results},
    )


def topology(
    gpus: int = 8, path: str = "NV18", *, switched: bool = True, link_gbps: float = 26.5625
) -> CheckResult:
    """The answer of the topology check; every pair is alike."""
    names = [f"gpu{index}" for index in range(gpus)]
    links = int(path[2:]) if path.startswith("NV") else 0
    samples = [
        Sample("pci_address", f"0000:{0x18 + n:02x}:00.0", "", g) for n, g in enumerate(names)
    ]
    samples += [Sample("nvlinks_unanswered", 0, "links", gpu) for gpu in names]
    if links:
        samples += [Sample("nvswitch", switched, "", gpu) for gpu in names]
    for one, other in combinations(names, 2):
        samples.append(Sample("path", path, "", f"{one}-{other}"))
        if links and link_gbps:
            samples.append(Sample("nvlink_gbps", links * link_gbps, "GB/s", f"{one}-{other}"))
    return CheckResult("topology", "done", samples=tuple(samples))  # fmt: skip


def pcie(gpus: int = 8, generation: int = 5, lanes: int = 16, reached: int = 0) -> CheckResult:
    """The answer of the pcie_link check."""
    values = {
        "pcie_link_width": reached or lanes,
        "pcie_link_width_max": lanes,
        "pcie_link_generation": 1,
        "pcie_link_generation_max": generation,
    }
    units = {"pcie_link_width": "lanes", "pcie_link_width_max": "lanes"}
    samples = tuple(
        Sample(metric, value, units.get(metric, ""), f"gpu{gpu}")
        for gpu in range(gpus)
        for metric, value in values.items()
    )
    return CheckResult("pcie_link", "done", samples=samples)


def node(host: str, legs: Sequence[Leg], *others: CheckResult, **options: Any) -> HostRecord:
    """A host that was asked for its topology and timed these legs."""
    gpus = options.pop("gpus", 8)
    facts = gpu_facts(gpus, options.pop("gpu_name", H100))
    return record(host, [reduce_result(legs), *others], gpus=facts, **options)
