"""What breaks costs its strategy, names its rank, and leaves nothing behind."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable
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


def crash() -> None:
    raise ValueError("planted")


def no_memory() -> None:
    import torch

    raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 8 GiB")


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Have strategy zero1 break so; ranks are forked from here."""

    def planted(how: Callable[[], Any]) -> None:
        pytest.importorskip("torch")
        load = strategies.load
        broken = Strategy("zero1", "broken", DDP.degrees, lambda job: Broken(job, how))
        monkeypatch.setattr(
            strategies, "load", lambda name: broken if name == "zero1" else load(name)
        )

    return planted


@pytest.mark.parametrize(
    ("how", "state", "words"),
    [
        (crash, "failed", "rank 1: ValueError: planted"),
        (lambda: math.nan, "failed", "rank 1: FloatingPointError: the loss is nan in step 2"),
        (no_memory, "out_of_memory", "rank 1: OutOfMemory: out of memory, "),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "failed", "rank 1 was killed by SIGKILL"),
        (signal.pause, "hang", "rank 0, 1: silent after the first step"),
    ],
    ids=["crash", "nan", "memory", "killed", "hang"],
)
def test_what_breaks_costs_its_strategy_alone(
    plant: Callable[[Callable[[], Any]], None],
    how: Callable[[], Any],
    state: str,
    words: str,
) -> None:
    plant(how)
    others = children()
    before, broken, after = answers(
        [
            order("ddp"),
            order("zero1", silence_s=2.0 if state == "hang" else 60.0),
            order("ddp", launch="2 again"),
        ]
    )
    assert (broken["state"], words in broken["reason"]) == (state, True), broken["reason"]
    assert not broken["repeats"]
    assert not broken["left_over"]
    if state == "hang":
        assert "-- stack of rank 1" in broken["log_tail"]
        assert "step" in broken["log_tail"]
    assert before["state"] == after["state"] == "done"
    assert losses(after) == pytest.approx(losses(before))
    assert wait_until(lambda: children() <= others, GONE_S)


def test_ranks_stay_for_their_next_turn() -> None:
    first, again = answers([order("ddp"), order("ddp", parity_steps=0, repeats=2)])
    assert first["library"].startswith("gloo")
    assert again["state"] == "done"
    assert not again["library"]  # the ranks had met before
    assert not again["losses"]
    assert len(again["repeats"]) == 2
