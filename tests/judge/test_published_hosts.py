"""A bandwidth over several hosts beside what others published for such hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.contract.reasons import NONE
from hwcheck.contract.wire import CheckResult, Sample
from hwcheck.judge.judge import judge
from hwcheck.judge.models.records import size_bytes
from hwcheck.judge.published import METRIC, published
from hwcheck.judge.records import Finding
from hwcheck.report.multi_host import multi_host_view
from hwcheck.results.multi_host import (
    MultiHostRecord,
    MultiHostRun,
    MultiHostTiming,
    Transport,
)
from hwcheck.results.run_folder import HostRecord
from tests import factories
from tests.factories import gpu_facts

GIB = 1 << 30
H100, GB200 = "NVIDIA H100 80GB HBM3", "NVIDIA GB200"
AWS, GCP = "Amazon EC2 p5.48xlarge", "Google Google Compute Engine"
EFA, MNNVL = {"NET/AWS Libfabric": 8}, {"P2P/MNNVL": 64}


def host(name: str, model: str, gpus: int, product: str) -> HostRecord:
    samples = (Sample("hypervisor", "none"), Sample("product", product), Sample("container", False))
    facts = [{**gpu, "uuid": f"GPU-{name}-{gpu['index']}"} for gpu in gpu_facts(gpus, model)]
    return factories.record(
        name, [CheckResult("virtualization", "done", NONE, samples)], gpus=facts
    )


def judged(
    busbw: float,
    *,
    model: str = H100,
    hosts: int = 2,
    product: str = AWS,
    why: str = "all",
    size: int = 16 * GIB,
    ways: Mapping[str, Any] = EFA,
) -> Sequence[Finding]:
    gpus = 8 if model == H100 else 4
    names = tuple(f"n{n}" for n in range(hosts))
    timing = MultiHostTiming(size, 20, 1000.0, 0.02, busbw, busbw, busbw, 0)
    run = MultiHostRun(
        *(why, 0, names, "all_reduce", gpus * hosts, "done"),
        library="NCCL 2.27.5",
        sizes=(timing,),
        transport=(Transport(names, ways),),
    )
    record = MultiHostRecord(("all",), names, "nccl", (run,), finished=True)
    records = [host(name, model, gpus, product) for name in names]
    findings = judge(
        factories.run(*records, checks=("virtualization",)), shipped(), record
    ).findings
    return [finding for finding in findings if finding.metric == METRIC]


@pytest.mark.parametrize(
    ("case", "figure"),
    [
        ({}, "487.9 GB/s on 16 GPUs (h100_sxm, AWS)"),
        ({"product": GCP}, "337.1 GB/s on 16 GPUs (h100_sxm, GCP)"),
        ({"why": "pairs"}, "487.9"),
        ({"size": 8 * GIB}, "487.9"),
        ({"model": GB200, "hosts": 4, "ways": MNNVL}, "882.5 GB/s on 16 GPUs (gb200, one NVLink"),
        ({"model": GB200, "hosts": 4, "why": "mnnvl_off"}, "191 GB/s on 16 GPUs"),
        ({"model": "NVIDIA GB300", "hosts": 8, "ways": MNNVL}, "923.3"),
        ({"model": "NVIDIA GB300", "hosts": 16, "ways": MNNVL}, "932.1"),
    ],
)
def test_a_figure_of_such_hosts_is_shown(case: dict[str, Any], figure: str) -> None:
    first, *others = judged(300.0, **case)
    assert figure in first.reason.text
    assert first.reason.text.startswith("300 GB/s here")
    assert {each.outcome for each in (first, *others)} == {"pass"}
    assert len(others) == case.get("hosts", 2) - 1


@pytest.mark.parametrize(
    "case",
    [
        {"product": "Supermicro SYS-821GE"},
        {"product": "unknown"},
        {"hosts": 3},
        {"size": 4 * GIB},
        {"size": 64 * GIB},
        {"model": GB200, "hosts": 4, "ways": MNNVL, "size": 1 << 20},
        {"model": GB200, "hosts": 2, "ways": MNNVL},
        {"model": "NVIDIA H200"},
        {"why": "split"},
    ],
)
def test_figures_of_others_are_not_shown(case: dict[str, Any]) -> None:
    assert judged(300.0, **case) == []


@pytest.mark.parametrize("busbw", [1.0, 487.9, 2000.0])
def test_it_is_no_verdict(busbw: float) -> None:
    assert {finding.outcome for finding in judged(busbw)} == {"pass"}


def test_the_report_shows_it_once() -> None:
    findings = judged(450.0)
    record = MultiHostRecord(("all",), ("n0", "n1"), "nccl", (), finished=True)
    (remark,) = multi_host_view(record, findings).remarks
    assert remark.startswith("all: 450 GB/s here (0.92")
    assert "published: 487.9 GB/s on 16 GPUs (h100_sxm, AWS) at 16 GiB" in remark
    assert multi_host_view(record).remarks == ()


def test_every_row_is_of_a_model_and_has_its_source() -> None:
    day, rows = published()
    assert day <= date(2026, 11, 23)
    known = {model.id for model in shipped().models.every}
    for row in rows:
        assert row.model in known
        assert row.source
        assert size_bytes(row.size) == 16 * GIB
        assert row.gpus % row.hosts == 0
