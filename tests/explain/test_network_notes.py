"""What busbw between hosts says of their network."""

from __future__ import annotations

import pytest

from hwcheck.explain.explain import explain
from hwcheck.explain.sources import LogFile
from tests.node.nccl_tests.logs import FOOTER, MIB, device, header, row

TWO = [device(0, "a", 0), device(1, "b", 0)]
FOUR = [device(rank, "ab"[rank // 2], rank % 2) for rank in range(4)]


def notes(devices: list[str], busbw: float, gpu: str, *before: str, size: int = 128 * MIB) -> str:
    factor = 2 * (len(devices) - 1) / len(devices)
    rows = [row(MIB, busbw=busbw / 2, factor=factor), row(size, busbw=busbw, factor=factor)]
    named = [each.replace("GPU X", gpu) for each in devices]
    (entry,) = explain(LogFile("f", "\n".join([*before, *named, header(), *rows, FOOTER])))
    return "\n".join(entry.notes)


WRONG = "most likely the wrong network transport"


@pytest.mark.parametrize(
    ("devices", "busbw", "gpu", "wrong"),
    [
        (FOUR, 5.4, "NVIDIA GH200 120GB", True),
        (FOUR, 5.4, "NVIDIA H100 80GB HBM3", True),
        (FOUR, 122.0, "NVIDIA GH200 120GB", False),
        (FOUR, 12.2, "NVIDIA H100 80GB HBM3", False),
        (FOUR, 5.4, "Tesla T4", False),
        ([device(rank) for rank in range(4)], 5.4, "NVIDIA H100 80GB HBM3", False),
    ],
)
def test_a_fabric_that_is_not_used(devices, busbw: float, gpu: str, wrong: bool) -> None:
    assert (WRONG in notes(devices, busbw, gpu)) is wrong


def test_a_small_size_says_nothing_of_the_network() -> None:
    assert WRONG not in notes(FOUR, 5.4, "NVIDIA GH200 120GB", size=2 * MIB)


@pytest.mark.parametrize(
    ("devices", "busbw", "rate"),
    [
        (TWO, 22.9, "one port of 200 Gb/s"),
        (TWO, 3.1, "one port of 25 Gb/s"),
        (TWO, 48.0, "one port of 400 Gb/s"),
        (TWO, 17.0, ""),
        (FOUR, 22.9, ""),
        (TWO[:1], 22.9, ""),
    ],
)
def test_one_rank_for_each_host_that_fills_one_port(devices, busbw: float, rate: str) -> None:
    told = notes(devices, busbw, "Tesla T4") if len(devices) > 1 else ""
    assert ("about one port in use" in told) is bool(rate)
    assert rate in told


@pytest.mark.parametrize(
    ("ports", "busbw", "told"),
    [
        ("mlx5_0,mlx5_1,mlx5_4", 41.5, True),
        ("=mlx5_0:1,mlx5_1:1", 41.5, True),
        ("mlx5_0,mlx5_1", 95.0, False),
        ("mlx5_0", 41.5, False),
        ("^mlx5_0,mlx5_1", 41.5, False),
    ],
)
def test_several_ports_named_and_what_one_carries(ports: str, busbw: float, told: bool) -> None:
    command = f"$ mpirun -x NCCL_IB_HCA={ports} ./all_reduce_perf -e 128M"
    assert ("one port is used" in notes(FOUR, busbw, "Tesla T4", command)) is told
