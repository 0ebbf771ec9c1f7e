"""The prediction of busbw against what others published, row by row.

Facts with their sources: hardware, number of GPUs, message size, busbw in GB/s. No row was measured
for this project, and none is of a machine that its owner complained of; those are at the end.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import median

import pytest

from hwcheck.judge.expectation import PASS_FROM
from hwcheck.judge.interconnect import Hop, Links
from hwcheck.judge.prediction import ERRORS, Prediction, predict

DATA = Path(__file__).parents[3] / "shared" / "data" / "training"
GIB, MIB = 2**30, 2**20
V100, A100, GA102, HOPPER, BLACKWELL = 25.78125, 25.0, 14.0625, 26.5625, 53.125

ML = "stas00/ml-engineering, network/README.md"
VTRAIN = "VIA-Research/vTrain, trace"
PRO6000 = "local-inference-lab/rtx6kpro, hardware/pcie-bandwidth.md"

CUBE_MESH = (
    *((0, 1, 1), (0, 2, 1), (0, 3, 2), (0, 4, 2), (1, 2, 2), (1, 3, 1), (1, 5, 2), (2, 3, 2)),
    *((2, 6, 1), (3, 7, 1), (4, 5, 1), (4, 6, 1), (4, 7, 2), (5, 6, 2), (5, 7, 1), (6, 7, 2)),
)
"""NVLinks of a DGX-1 with V100s (DGX-1 with Tesla V100 System Architecture, white paper), by the
order of nvidia-smi."""


def switched(gpus: int, links: int, gbps: float) -> Links:
    """GPUs whose NVLinks all lead to switches."""
    return Links(gpus, _all(gpus, lambda a, b: Hop((a, b), f"NV{links}", links)), True, gbps)


def meshed(gpus: int, gbps: float, *links: tuple[int, int, int]) -> Links:
    """GPUs with NVLinks from one to another; pairs without one are a socket apart."""
    between = {(one, other): amount for one, other, amount in links}

    def hop(one: str, other: str) -> Hop:
        amount = between.get((int(one[3:]), int(other[3:])), 0)
        return Hop((one, other), f"NV{amount}" if amount else "SYS", amount)

    return Links(gpus, _all(gpus, hop), link_gbps=gbps, pcie=_pcie(gpus, 3))


def over_pcie(gpus: int, generation: int, path: str, peer: bool, cpu: str = "") -> Links:
    """GPUs without NVLink, the same way between any two."""
    hops = _all(gpus, lambda a, b: Hop((a, b), path, peer=peer))
    return Links(gpus, hops, pcie=_pcie(gpus, generation), cpu=cpu)


def _all(gpus: int, hop: Callable[[str, str], Hop]) -> dict[tuple[int, int], Hop]:
    return {pair: hop(f"gpu{pair[0]}", f"gpu{pair[1]}") for pair in combinations(range(gpus), 2)}


def _pcie(gpus: int, generation: int) -> dict[str, tuple[int, int]]:
    return {f"gpu{gpu}": (generation, 16) for gpu in range(gpus)}


@dataclass(frozen=True)
class Row:
    """One published figure; ``healthy`` where nobody says that something is wrong with it."""

    hardware: str
    links: Links = field(repr=False)
    size_bytes: int
    busbw_gbps: float
    source: str
    collective: str = "all_reduce"
    library: str = "NCCL 2.27.7"
    healthy: bool = True

    @property
    def predicted(self) -> Prediction:
        found = predict(self.links, self.collective, self.library)
        assert isinstance(found, Prediction), found
        return found

    @property
    def share(self) -> float:
        """Measured over predicted."""
        return self.busbw_gbps / self.predicted.at(self.size_bytes)

    @property
    def error(self) -> float:
        return abs(1 / self.share - 1)


OLD = "NCCL 2.16.2"
ROWS = (
    Row("8x H100 SXM", switched(8, 18, HOPPER), 2 * GIB, 468.6, "aws-do-eks, nccl-test README"),
    Row("8x H100 SXM", switched(8, 18, HOPPER), 16 * GIB, 480, "NVIDIA/nccl-tests#212"),
    Row("8x H800 SXM", switched(8, 8, HOPPER), 8 * GIB, 215, "NVIDIA/nccl#1374"),
    *(
        Row(f"{n}x H200 SXM", switched(n, 18, HOPPER), 8 * GIB, busbw, ML)
        for n, busbw in ((4, 363), (5, 414), (6, 436), (7, 460), (8, 473))
    ),
    Row("8x H200 SXM", switched(8, 18, HOPPER), 16 * GIB, 482.3, ML),
    Row("8x H200 SXM, ring", switched(8, 18, HOPPER), 16 * GIB, 367.6, ML, library=OLD),
    Row("8x H200 SXM", switched(8, 18, HOPPER), 16 * GIB, 361.4, ML, "all_gather"),
    Row("8x H200 SXM", switched(8, 18, HOPPER), 16 * GIB, 362.9, ML, "reduce_scatter"),
    Row("8x B200", switched(8, 18, BLACKWELL), 8 * GIB, 838.0, ML),
    Row("8x B200", switched(8, 18, BLACKWELL), 16 * GIB, 845.7, ML),
    Row("8x B200, ring", switched(8, 18, BLACKWELL), 8 * GIB, 682.2, ML, library=OLD),
    Row("8x A100 SXM", switched(8, 12, A100), 8 * GIB, 235.3, "microsoft/superbenchmark, tests"),
    Row("8x A100 SXM", switched(8, 12, A100), GIB, 231.7, "facebookresearch/gcm, tests"),
    Row("8x A100 SXM", switched(8, 12, A100), 16 * GIB, 234.9, ML),
    Row("4x A100 SXM", switched(4, 12, A100), 8 * GIB, 234.7, "public log of a DGX A100"),
    *(
        Row(f"{n}x A100 SXM", switched(n, 12, A100), GIB, busbw, VTRAIN)
        for n, busbw in ((2, 196.9), (3, 211.7), (4, 221.4), (6, 226.9), (8, 229.3))
    ),
    Row("16x V100 SXM", switched(16, 6, V100), GIB, 122, "NVIDIA/nccl#258"),
    Row("2x A40, bridged", meshed(2, GA102, (0, 1, 4)), 8 * GIB, 47.5, "public log"),
    Row("8x V100, mesh", meshed(8, V100, *CUBE_MESH), GIB, 130, "NVIDIA/nccl#258"),
    *(
        Row(f"{n}x V100, mesh", meshed(n, V100, *CUBE_MESH), GIB, busbw, VTRAIN)
        for n, busbw in ((2, 22.6), (3, 45.1), (4, 85.3), (6, 45.8), (7, 87.0), (8, 134.4))
    ),
    Row("8x RTX 5090", over_pcie(8, 5, "PXB", True), 32 * MIB, 45.7, "log of a patched driver"),
    Row("8x RTX PRO 6000", over_pcie(8, 5, "PXB", True), 32 * MIB, 41.1, PRO6000),
    Row("7x RTX PRO 6000", over_pcie(7, 5, "PXB", True), 4 * GIB, 41.5, PRO6000),
    Row("4x RTX 4090", over_pcie(4, 4, "PXB", True), GIB, 22, "NVIDIA/nccl#1603"),
    Row("4x RTX 4090", over_pcie(4, 4, "NODE", False), GIB, 18, "NVIDIA/nccl#1603"),
    Row(
        "4x RTX PRO 6000", over_pcie(4, 5, "NODE", False), 32 * MIB, 30.3, "rtx6kpro, asus-esc8000a"
    ),
    Row("4x RTX 5090", over_pcie(4, 5, "NODE", False), GIB, 35, "NVIDIA/nccl#1639"),
    Row("8x RTX 5090", over_pcie(8, 5, "SYS", False, "GenuineIntel"), GIB, 28, "NVIDIA/nccl#1639"),
    Row(
        "2x H100 PCIe",
        meshed(2, HOPPER, (0, 1, 12)),
        2 * GIB,
        115.9,
        "NVIDIA/nccl#1161",
        healthy=False,
    ),
    Row("2 GPUs", over_pcie(2, 3, "NODE", False), GIB, 3.9, "NVIDIA/nccl#384", healthy=False),
    Row("2x A40", over_pcie(2, 4, "NODE", False), 8 * GIB, 3.8, "public log", healthy=False),
    Row("8x RTX PRO 6000", over_pcie(8, 5, "NODE", False), 32 * MIB, 22.2, PRO6000, healthy=False),
)
HEALTHY = [row for row in ROWS if row.healthy]


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print("\n" + "\n".join(_table()))
    assert median(row.error for row in HEALTHY) < 0.05
    assert median(row.error for row in HEALTHY if row.predicted.rule == "NVLS") < 0.05


def test_each_rule_has_the_error_that_reports_give() -> None:
    for rule, stated in ERRORS.items():
        errors = [row.error for row in HEALTHY if row.predicted.rule == rule]
        assert median(errors) == pytest.approx(stated, abs=0.006), rule


def test_every_published_healthy_machine_passes() -> None:
    assert [row.hardware for row in HEALTHY if row.share < PASS_FROM] == []


def test_machines_that_their_owners_complain_of_do_not_pass() -> None:
    assert [row.share < PASS_FROM for row in ROWS if not row.healthy] == [True] * 4


def _table() -> Iterator[str]:
    yield f"{'hardware':<20} {'size':>9} {'GB/s':>6} {'model':>6} {'share':>6}  rule, source"
    for row in ROWS:
        size = f"{row.size_bytes / MIB:g} MiB"
        predicted = row.predicted.at(row.size_bytes)
        what = f"{row.predicted.rule}, {row.collective}, {row.source}"
        what += "" if row.healthy else " (its owner complains)"
        figures = f"{row.busbw_gbps:6g} {predicted:6.1f} {row.share:6.2f}"
        yield f"{row.hardware:<20} {size:>9} {figures}  {what}"


@pytest.mark.skipif(not DATA.is_dir(), reason="the folder of public samples is not here")
def test_every_size_of_the_public_tables_from_64_mib_on() -> None:
    links = {
        "A100-SXM 8x NVLink3": switched(8, 12, A100),
        "H200-SXM 8x NVLink4": switched(8, 18, HOPPER),
        "B200 P6 8x NVLink5 + 8x50GB/s EFAv4": switched(8, 18, BLACKWELL),
        "a100": switched(8, 12, A100),
    }
    with (DATA / "measured_allreduce_busbw.csv").open() as stream:
        rows = [
            Row("", links[row["hardware"]], int(row["bytes"]), float(row["busbw_gbps"]), "")
            for row in csv.DictReader(stream)
            if (row["nodes"], row["gpus"]) == ("1", "8")
            and row["hardware"] in links
            and int(row["bytes"]) >= 64 * MIB
        ]
    assert len(rows) > 25
    assert median(row.error for row in rows) < 0.05
    assert min(row.share for row in rows) >= 0.8
