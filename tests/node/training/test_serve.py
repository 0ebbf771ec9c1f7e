"""What breaks costs its strategy, names its rank, and leaves nothing behind."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from hwcheck.node.collective.ranks import wait_until
from hwcheck.node.training import strategies
from hwcheck.node.training.strategy import Strategy
from tests.node.training.serving import GONE_S, answers, children, losses, order

DDP = strategies.load("ddp")


class Broken:
    """A trainer that breaks on rank 1 in its second step."""

    def __init__(self, job: Any, how: Callable[[], Any]) -> None:
        self._trainer = DDP.wrap(job)
        self._how = how if job.rank == 1 else None
        self._steps = 0

    def step(self, batch: Any) -> Any:
        loss = self._trainer.step(batch)
        self._steps += 1
        if self._how and self._steps == 2:
            broken = self._how()
            return loss if broken is None else loss * broken
        return loss


OF_TORCH = (
    "CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 139.80 GiB of "
    "which 1.91 GiB is free. Including non-PyTorch memory, this process has 137.88 GiB memory in "
    "use. Of the allocated memory 136.22 GiB is allocated by PyTorch, and 1.04 GiB is reserved by "
    "PyTorch but unallocated. If reserved but unallocated memory is large try setting "
    "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for "
    "Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html"
    "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
)
"""Torch 2.13's on an H200."""


def crash() -> None:
    raise ValueError("planted")


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def no_memory() -> None:
    import torch

    raise torch.cuda.OutOfMemoryError(OF_TORCH)


BREAKS: Mapping[str, tuple[Callable[[], Any], str, str]] = {
    "crash": (crash, "failed", "rank 1: ValueError: planted"),
    "nan": (lambda: math.nan, "failed", "rank 1: FloatingPointError: the loss is nan in step 2"),
    "memory": (no_memory, "out_of_memory", " GiB at the peak, 3.00 GiB more asked for"),
    "killed": (killed, "failed", "rank 1 was killed by SIGKILL"),
    "hang": (signal.pause, "hang", "rank 0, 1: silent after the first step"),
}
"""What a strategy of this name does in its second step, how it ends, and words of the reason."""


@pytest.fixture(scope="module")
def came() -> Iterator[Mapping[str, Sequence[dict[str, Any]]]]:
    """Return of each break the answers before it, of it and after it.

    A whole strategy runs between two that break: after the one, and in the launch of the other.
    """
    pytest.importorskip("torch")
    others = children()
    load = strategies.load

    def planted(name: str) -> Strategy:
        if name not in BREAKS:
            return load(name)
        how = BREAKS[name][0]
        return Strategy(name, "broken", DDP.degrees, lambda job: Broken(job, how))

    orders = [order("ddp")]
    for name, (_, state, _) in BREAKS.items():
        orders += [
            replace(orders[-1], strategy=name, silence_s=2.0 if state == "hang" else 60.0),
            order("ddp", launch=f"2 after {name}"),
        ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strategies, "load", planted)  # ranks are forked from here
        said = answers(orders)
    yield {name: said[2 * place : 2 * place + 3] for place, name in enumerate(BREAKS)}
    assert wait_until(lambda: children() <= others, GONE_S)


@pytest.mark.parametrize("name", BREAKS)
def test_what_breaks_costs_its_strategy_alone(
    came: Mapping[str, Sequence[dict[str, Any]]], name: str
) -> None:
    _, state, words = BREAKS[name]
    before, broken, after = came[name]
    assert (broken["state"], words in broken["reason"]) == (state, True), broken["reason"]
    assert "rank 1" in broken["reason"] or state == "hang"
    assert "out of memory" not in broken["reason"].lower(), "the state says so"
    assert broken["log_tail"]
    assert not broken["repeats"]
    assert not broken["left_over"]
    if state == "hang":
        assert "-- stack of rank 1" in broken["log_tail"]
        assert "step" in broken["log_tail"]
    assert before["state"] == after["state"] == "done"
    assert losses(after) == pytest.approx(losses(before))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OF_TORCH, "138.65 GiB at the peak, 3.00 GiB more asked for"),
        (
            "[enforce fail at alloc_cpu.cpp:128] err == 0. DefaultCPUAllocator: can't allocate "
            "memory: you tried to allocate 4503599627370496 bytes. Error code 12 (Cannot allocate "
            "memory)",
            "138.65 GiB at the peak, 4503599627370496 bytes more asked for",
        ),
        (
            "CUDA error: out of memory\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side "
            "assertions.\n",
            "138.65 GiB at the peak: CUDA error: out of memory",
        ),
        (
            "NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:328, unhandled cuda error "
            "(run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5\nncclUnhandledCudaError: "
            "Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'",
            "138.65 GiB at the peak: Cuda failure 2 'out of memory'",
        ),
        ("", "138.65 GiB at the peak"),
    ],
    ids=["CUDA", "CPU", "driver", "NCCL", "Python"],
)
def test_of_memory_the_peak_and_what_was_asked_for_stay(error: str, words: str) -> None:
    pytest.importorskip("torch")
    from hwcheck.node.training.rank import memory_words

    assert memory_words(round(138.65 * 2**30), error) == words


def test_ranks_stay_for_their_next_turn() -> None:
    first, again = answers([order("ddp"), order("ddp", parity_steps=0, repeats=2)])
    assert first["library"].startswith("gloo")
    assert again["state"] == "done"
    assert not again["library"]  # the ranks had met before
    assert not again["losses"]
    assert len(again["repeats"]) == 2
