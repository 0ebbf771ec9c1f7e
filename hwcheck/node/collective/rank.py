"""What one rank of one leg does: join, then turn by turn verify, time, verify, size by size."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple

from hwcheck.contract.collective_spec import NOISE, CollectiveSpec, size_text
from hwcheck.node import json_lines
from hwcheck.node.collective import operations, runtime
from hwcheck.node.collective.operations import BOTH, Operation
from hwcheck.node.collective.pattern import Pattern
from hwcheck.node.collective.work import Work, chunk_bytes, footprint
from hwcheck.node.json_lines import Send

MEMORY_SHARE = 0.5  # of what is free: buffers of the library come on top of ours
LARGEST_MEASURED = "the largest size is measured"
ROUNDS_OF_A_TURN = 128
STORE_PATIENCE_S = 60.0
SPEAKS_S = 1.0  # no more often does a rank say that it has run again


@dataclass(frozen=True)
class Bounds:
    """Where a turn ends.

    It begins no size that does not fit in ``share_s``, and is killed after ``limit_s``; both count
    from its first verified run.
    """

    share_s: float
    limit_s: float
    max_bytes: int
    max_bytes_reason: str = ""


@dataclass(frozen=True)
class Turn:
    """What the ranks of a leg do next: time these ``sizes``, or without any as far as it goes."""

    number: int
    collective: str
    bounds: Bounds
    sizes: Tuple[int, ...] = ()

    def to_dict(self) -> Dict[str, Any]:
        """Return the turn as plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Turn:
        """Rebuild from ``to_dict``."""
        bounds, sizes = Bounds(**data["bounds"]), tuple(data["sizes"])
        return cls(data["number"], data["collective"], bounds, sizes)


def run_rank(spec: CollectiveSpec, rank: int, store_fd: int, turns_fd: int, send: Send) -> None:
    """Take turn after turn and send what came of each; the launcher puts the ranks together."""
    runtime.log_line_by_line()
    runtime.record_flight(spec, rank)
    device = runtime.device(spec, rank)
    limit_s = spec.start_s + spec.first_run_s(spec.max_bytes) + spec.budget_s + spec.grace_s
    store = runtime.join(spec, rank, store_fd, limit_s + STORE_PATIENCE_S)
    send({"kind": "joined", "library": device.library()})
    for turn in turns_of(turns_fd):
        named = runtime.dist.PrefixStore("turn%d" % turn.number, store)
        stop, largest = Ranked(spec, device, rank, send).take(turn, named)
        device.release()
        send({"kind": "done", "stop": stop, "largest": largest})
    meet(store, spec.ranks, rank)


def turns_of(fd: int) -> Iterator[Turn]:
    """Yield the turns that the launcher writes; an empty message is the end."""
    messages = json_lines.Reader(fd)
    while True:
        turn = messages.next()
        if not turn:
            return
        yield Turn.from_dict(turn)


class Ranked:
    """One rank at work on one turn."""

    def __init__(self, spec: CollectiveSpec, device: Any, rank: int, send: Send) -> None:
        self._spec = spec
        self._device = device
        self._rank = rank
        self._send = send
        self._pattern = Pattern(spec.dtype, spec.ranks, device.name)
        self._spoke = time.monotonic()
        self._started: Optional[float] = None

    def take(self, turn: Turn, store: Any) -> Tuple[str, int]:
        """Return why the turn ended and the last size, having sent what each size gave."""
        chosen = operations.load(turn.collective)
        rounds = count(turn.number * ROUNDS_OF_A_TURN)
        for size in turn.sizes:
            self.measure(chosen, size, rounds)
        if turn.sizes:
            return "", turn.sizes[-1]
        spec, size, larger, step_s = self._spec, 0, self._spec.min_bytes, 0.0
        room = MEMORY_SHARE / footprint(chosen, spec.ranks)
        memory_bytes = int(self._device.free_bytes * room)
        while True:
            mine = (size, step_s, memory_bytes)
            left_s = self._left_s(turn.bounds)
            stop = agree(store, spec.ranks, self._rank, turn.bounds, left_s, mine, larger)
            if stop:
                return stop, size
            size, larger = larger, larger * spec.step_factor
            step_s = self.measure(chosen, size, rounds)

    def measure(self, chosen: Operation, size_bytes: int, rounds: Iterator[int]) -> float:
        """Time one size out of place, in place, or both; return how long such a step takes (s).

        A size that leaves nothing for each rank, in whole chunks, is passed over.
        """
        took_s = 0.0
        chunks = self._spec.ranks if chosen.by_rank else 1
        if chunk_bytes(size_bytes, chunks) < self._pattern.element_bytes:
            return took_s
        for in_place in (False, True) if chosen.placement == BOTH else (False,):
            took_s += self._half(chosen, size_bytes, rounds, in_place)
        return took_s

    def _half(
        self, chosen: Operation, size_bytes: int, rounds: Iterator[int], in_place: bool
    ) -> float:
        spec = self._spec
        work = Work(chosen, size_bytes, self._rank, self._pattern, self._device.name, in_place)
        wrong = work.verified(next(rounds))
        start = time.monotonic()
        if self._started is None:
            self._started = start
            self._send({"kind": "started"})
        self._speak()
        times_us = self._device.time_us(work.run, spec.warmups, spec.iterations, self._speak)
        middle = time.monotonic()
        wrong += work.verified(next(rounds))
        # The first run of a size may set up connections: the second one stands for both.
        took_s = middle - start + 2 * (time.monotonic() - middle)
        self._send(
            {
                "kind": "size",
                "requested_bytes": size_bytes,
                "size_bytes": work.size_bytes,
                "in_place": in_place,
                "times_us": times_us,
                "wrong": wrong,
                "took_s": took_s,
            }
        )
        return took_s

    def _left_s(self, bounds: Bounds) -> float:
        """Return what is left of the share, whose clock starts with the first verified run."""
        spent_s = 0.0 if self._started is None else time.monotonic() - self._started
        return bounds.share_s - spent_s

    def _speak(self) -> None:
        """Say that a run has ended: whoever is slow does not hang."""
        now = time.monotonic()
        if now - self._spoke >= SPEAKS_S:
            self._spoke = now
            self._send({"kind": "alive"})


def agree(
    store: Any,
    ranks: int,
    rank: int,
    bounds: Bounds,
    left_s: float,
    mine: Tuple[int, float, int],
    larger: int,
) -> str:
    """Return why all ranks stop before the size ``larger``, or an empty text.

    Rank 0 decides from every rank's (size, seconds, memory) and from the seconds that it has left.
    The words go through the store, not through the collective under test, which may be corrupt.
    """
    size_bytes, step_s, memory_bytes = mine
    verdict = "stop/%d" % size_bytes
    store.set("took/%d/%d" % (size_bytes, rank), "%r %d" % (step_s, memory_bytes))
    if rank == 0:
        reports = [store.get("took/%d/%d" % (size_bytes, each)).split() for each in range(ranks)]
        slowest_s = max(float(seconds) for seconds, _ in reports)
        least_bytes = min(int(free) for _, free in reports)
        why = reason_to_stop(bounds, size_bytes, slowest_s, left_s, least_bytes, larger)
        store.set(verdict, why or "-")
    text: str = store.get(verdict).decode()
    return "" if text == "-" else text


def reason_to_stop(
    bounds: Bounds,
    size_bytes: int,
    step_s: float,
    left_s: float,
    memory_bytes: int,
    larger: int,
) -> str:
    """Return why the size ``larger``, after ``size_bytes``, is not measured, or an empty text.

    ``size_bytes`` is 0 where nothing was measured yet: that much is tried in any time.
    """
    if larger > bounds.max_bytes:
        return bounds.max_bytes_reason or LARGEST_MEASURED
    if larger > memory_bytes and not size_bytes:
        return "the smallest size, %s, does not fit in free memory" % size_text(larger)
    if larger > memory_bytes:
        return "stopped at %s: the next size does not fit in free memory" % size_text(size_bytes)
    if size_bytes and step_s * larger / size_bytes * NOISE > left_s:
        return "stopped at %s: the next size does not fit the time budget" % size_text(size_bytes)
    return ""


def meet(store: Any, ranks: int, rank: int) -> None:
    """Wait until every rank is here: one that leaves early breaks its neighbors' connections."""
    store.set("left/%d" % rank, "1")
    store.wait(["left/%d" % each for each in range(ranks)])
