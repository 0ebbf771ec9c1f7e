from __future__ import annotations

import time
from typing import Any

import pytest

from hwcheck.contract.load_run import GpuWork
from hwcheck.node.load.tally import Tally

PREPARED = {
    "kind": "prepared",
    "library": "torch 2",
    "dtype": "bf16",
    "size": 8192,
    "digest": "d",
    "copy_gbps": 4300.0,
    "to_device_gbps": 55.0,
    "from_device_gbps": 54.0,
}


def window(tflops: float, seconds: float = 1.0, wrong: int = 0) -> dict[str, Any]:
    flop = tflops * 1e12 * seconds
    return {
        "kind": "window",
        "products": flop / (2 * 8192**3),
        "seconds": seconds,
        "wrong": wrong,
    }


def tally(*messages: dict[str, Any]) -> Tally:
    told = Tally("gpu3")
    for message in messages:
        told.take(message)
    return told


def test_the_median_window_and_the_low_one() -> None:
    speeds = [float(speed) for speed in range(700, 800)]
    work = tally(PREPARED, *map(window, speeds), {"kind": "done"}).work()
    assert work.tflops == pytest.approx(749.5)
    assert work.tflops_low == pytest.approx(705.0)
    assert (work.subject, work.dtype, work.size, work.digest) == ("gpu3", "bf16", 8192, "d")
    assert (work.copy_gbps, work.to_device_gbps, work.from_device_gbps) == (4300.0, 55.0, 54.0)
    assert (work.wrong_products, work.reason) == (0, "")


def test_products_are_added_and_wrong_ones_are_counted_by_the_worker() -> None:
    work = tally(
        PREPARED,
        {"kind": "window", "products": 640, "seconds": 1.0, "wrong": 1},
        {"kind": "window", "products": 320, "seconds": 1.0, "wrong": 3},
    ).work()
    assert (work.products, work.wrong_products) == (960, 3)


def test_a_window_that_was_cut_short_counts_only_when_there_is_no_other() -> None:
    short = tally(PREPARED, window(100.0, seconds=0.1))
    assert short.work().tflops == pytest.approx(100.0)
    short.take(window(700.0))
    assert short.work().tflops == pytest.approx(700.0)


def test_what_never_worked_has_no_figure() -> None:
    told = tally({"kind": "step", "doing": "starting CUDA"}, {"kind": "error", "reason": "no"})
    assert told.work() == GpuWork("gpu3", "", 0, 0, reason="no")
    assert not told.prepared


def test_the_loss_of_a_worker_says_what_it_was_doing_and_the_first_reason_stays() -> None:
    told = tally(PREPARED, {"kind": "lost", "reason": "process 7 was killed by SIGSEGV"})
    assert told.work().reason == "process 7 was killed by SIGSEGV, while multiplying"
    told.take({"kind": "error", "reason": "later"})
    assert told.work().reason == "process 7 was killed by SIGSEGV, while multiplying"


def test_silence_ends_with_the_work() -> None:
    told = tally(PREPARED)
    told._last_message -= 100.0
    now = time.monotonic()
    assert told.silent_s(0.0) >= 100.0
    assert told.silent_s(now) < 50.0
    told.take({"kind": "done"})
    told._last_message -= 100.0
    assert told.silent_s(0.0) == 0.0
