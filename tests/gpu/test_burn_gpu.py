"""The burn on a real GPU, beside the plainest product and copy that torch can do there."""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hwcheck.contract.load_run import GpuWork
from hwcheck.node.load import launch
from hwcheck.node.load.launch import Burn
from hwcheck.node.load.spec import BurnSpec, Target

pytestmark = pytest.mark.gpu

ROOT = str(Path(launch.__file__).parents[3])
SECONDS = 10.0
SHARE = 0.97
H200_COPY_GBPS = 4300.0


def burn(seconds: float = SECONDS, dtype: str = "auto") -> GpuWork:
    import torch

    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    spec = BurnSpec((Target("gpu0", uuid),), seconds, dtype, 64 << 30)
    with Burn(spec, sys.executable, ROOT) as running:
        assert running.backend == "cuda"
        end = time.monotonic() + seconds + 30
        while not running._tallies[0].done:
            assert running.problem() == ""
            assert time.monotonic() < end
            time.sleep(0.1)
    (work,) = running.stop()
    assert work.reason == ""
    print(work)
    return work


def plain_tflops(size: int, dtype: Any, seconds: float = SECONDS) -> float:
    """Return the median over batches of ten products, from when the chip is warm."""
    import torch

    left, right = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
    speeds: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        start, done = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(10):
            left @ right
        done.record()
        done.synchronize()
        speeds.append(10 * 2 * size**3 / start.elapsed_time(done) / 1e9)
    return statistics.median(speeds)


def test_the_products_are_as_fast_as_plain_ones() -> None:
    import torch

    work = burn()
    assert work.tflops is not None
    assert work.wrong_products == 0
    types = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
    plain = plain_tflops(work.size, types[work.dtype])
    print(f"plain {plain:.0f} TFLOP/s, burn {work.tflops:.0f} TFLOP/s")
    assert work.tflops >= SHARE * plain
    if torch.cuda.get_device_name(0) == "NVIDIA H200":
        assert (work.dtype, work.size) == ("bf16", 8192)
        assert work.copy_gbps == pytest.approx(H200_COPY_GBPS, rel=0.05)


def test_two_runs_and_every_product_agree_to_the_bit() -> None:
    one, other = burn(3.0), burn(3.0)
    assert one.digest == other.digest
    assert (one.wrong_products, other.wrong_products) == (0, 0)


@pytest.mark.parametrize("dtype", ["fp16", "fp32", "tf32"])
def test_the_arithmetic_is_the_one_asked_for(dtype: str) -> None:
    work = burn(3.0, dtype)
    assert (work.dtype, work.wrong_products) == (dtype, 0)


def test_the_link_copies_both_ways() -> None:
    work = burn(1.0)
    for gbps in (work.to_device_gbps, work.from_device_gbps):
        assert gbps is not None
        assert 1.0 < gbps < 1000.0


def test_a_gpu_that_is_not_there_is_named() -> None:
    spec = BurnSpec((Target("gpu7", "GPU-00000000-0000-0000-0000-000000000000"),), 1.0)
    with pytest.raises(launch.CouldNotMeasure, match=r"^gpu7: \w+Error: .*(CUDA|cuda)"):
        Burn(spec, sys.executable, ROOT).start()
