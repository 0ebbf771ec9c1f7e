"""What one rank does: meet the others, then for each order build, compare, time."""

from __future__ import annotations

import math
import re
import time
from datetime import timedelta
from typing import Any, Dict, List, Optional, Tuple

from hwcheck.contract.collective_spec import CollectiveSpec
from hwcheck.contract.reasons import OUT_OF_MEMORY
from hwcheck.node import json_lines
from hwcheck.node.collective import runtime
from hwcheck.node.collective.runtime import dist, torch
from hwcheck.node.json_lines import Send
from hwcheck.node.multi_host import store as stores
from hwcheck.node.training import strategies
from hwcheck.node.training.device import device as device_of
from hwcheck.node.training.job import RankJob
from hwcheck.node.training.order import TrainingOrder

BEYOND_S = 60.0  # the launcher sees a hang before torch does
SPEAKS_S = 1.0  # no more often does a rank say that it has taken a step
LOSS_SEEN = 1e30  # a loss beyond it is no figure
NO_MEMORY = "out of memory"
CPU_ALLOCATOR = "DefaultCPUAllocator"
ASKED = re.compile(r"tried to allocate ([\d.]+ [A-Za-z]+)", re.IGNORECASE)  # GPU or CPU


class OutOfMemory(Exception):  # noqa: N818 (its name is what is read)
    """The device has no memory left; the text has the peak and what was asked for."""

    code = OUT_OF_MEMORY


def run_rank(
    first: TrainingOrder, spec: CollectiveSpec, index: int, orders_fd: int, send: Send
) -> None:
    """Carry out orders and send what came of each; the controller puts the hosts together."""
    rank = first.rank0 + index
    runtime.log_line_by_line()
    runtime.record_flight(spec, rank)
    device = device_of(first.devices[index], cuda=bool(spec.gpus))
    timeout_s = first.start_s + first.silence_s + BEYOND_S
    store = stores.connect(*first.store, "training/" + first.launch, timeout_s)
    dist.init_process_group(
        spec.backend,
        store=store,
        rank=rank,
        world_size=first.world,
        timeout=timedelta(seconds=timeout_s),
    )
    send({"kind": "joined", "library": device.library()})
    groups: Dict[Any, Any] = {}
    messages = json_lines.Reader(orders_fd)
    while True:
        message = messages.next()
        if not message:
            break
        order = TrainingOrder.from_dict(message)
        try:
            RunningOrder(order, rank, device, groups, send).take()
        except Exception as error:
            if not _is_of_memory(error):
                raise
            raise OutOfMemory(memory_words(device.peak_bytes(), str(error))) from error
        device.release()
        send({"kind": "done", "stop": ""})
    stores.together(store, "left", first.world)


def _is_of_memory(error: Exception) -> bool:
    kinds = (MemoryError, torch.cuda.OutOfMemoryError)
    text = str(error)
    return isinstance(error, kinds) or NO_MEMORY in text or CPU_ALLOCATOR in text


def memory_words(peak_bytes: int, error: str) -> str:
    """Return the peak of memory and what was asked for beyond it.

    Of torch's text the rest is about its settings. Where it names no size, as CUDA and NCCL do not,
    the line of it that is about memory.
    """
    peak = "%.2f GiB at the peak" % (peak_bytes / 2**30)
    asked = ASKED.search(error)
    if asked:
        return "%s, %s more asked for" % (peak, asked.group(1))
    lines = [line.strip() for line in error.splitlines() if NO_MEMORY in line]
    return ": ".join([peak, *lines[:1]])


class RunningOrder:
    """One order at work."""

    def __init__(
        self, order: TrainingOrder, rank: int, device: Any, groups: Dict[Any, Any], send: Send
    ) -> None:
        self._order = order
        self._rank = rank
        self._device = device
        self._send = send
        self._spoke = 0.0
        self._strategy = strategies.load(order.strategy)
        degrees = self._strategy.degrees(order.world, order.hosts)
        self._job = RankJob(order, rank, device, degrees, groups)

    def take(self) -> None:
        """Build the model, send the losses of the first steps, then the times of the others."""
        order, device = self._order, self._device
        if device.cuda:
            torch.set_float32_matmul_precision("high" if order.tf32 else "highest")
        trainer = self._strategy.wrap(self._job)
        whole = self._strategy.one_process
        losses = self._losses(trainer, self._job.batch(order.parity_sequences, whole=whole))
        self._send({"kind": "parity", "rank": self._rank, "losses": losses})
        batch = self._job.batch(order.sequences, whole=whole)
        last: List[Optional[Any]] = [None]

        def step() -> None:
            last[0] = trainer.step(batch)

        device.times_s(step, order.warmup, self._speak)
        for _ in range(order.repeats if order.steps else 0):
            device.forget_peak()
            dist.barrier()
            begin_s = time.monotonic()
            times_s = device.times_s(step, order.steps, self._speak)
            end_s = time.monotonic()
            _finite(last[0], "the last timed step")
            self._send(
                {
                    "kind": "timed",
                    "rank": self._rank,
                    "times_s": times_s,
                    "peak_bytes": device.peak_bytes(),
                    "begin_s": begin_s,
                    "end_s": end_s,
                }
            )

    def _losses(self, trainer: Any, batch: Tuple[Any, Any]) -> List[float]:
        """Return the loss of each step of the comparison; none where this rank sees none."""
        losses = []
        for number in range(max(1, self._order.parity_steps)):
            loss = _finite(trainer.step(batch), "step %d" % (number + 1))
            if not number:
                self._send({"kind": "started"})
            self._speak()
            if loss is not None and number < self._order.parity_steps:
                losses.append(loss)
        return losses

    def _speak(self) -> None:
        """Say that a step has ended: whoever is slow does not hang."""
        now = time.monotonic()
        if now - self._spoke >= SPEAKS_S:
            self._spoke = now
            self._send({"kind": "alive"})


def _finite(loss: Optional[Any], where: str) -> Optional[float]:
    """Return a loss as a number. Raises FloatingPointError where it is none."""
    if loss is None:
        return None
    value = float(loss)
    if not math.isfinite(value) or abs(value) > LOSS_SEEN:
        raise FloatingPointError("the loss is %r in %s" % (value, where))
    return value
