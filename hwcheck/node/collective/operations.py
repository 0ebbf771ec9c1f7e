"""The collectives, each as an ``Operation``: what a rank puts in, what it must have afterwards."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any, Callable, List

from hwcheck.node.collective.pattern import MAX_RANKS, PERIODS, Pattern
from hwcheck.node.collective.runtime import dist, one_of

IN_PLACE, OUT_OF_PLACE, BOTH = "in place", "out of place", "both"

Contents = Callable[[Pattern, int, int], List[Any]]
"""What stands in a buffer of (pattern, rank, round): one period for each of its equal chunks."""


@dataclass(frozen=True)
class Operation:
    """A collective as functions, in the manner of nccl-tests.

    ``sends`` is what a rank puts in, ``holds`` what it must have afterwards. ``run(source, target,
    rank, ranks)`` starts the collective; in place one of the two is a part of the other, or the
    same. Where ``by_rank``, the bytes that nccl-tests prints as *size* are those of one chunk for
    each rank, otherwise those of one chunk. ``placement`` is IN_PLACE, OUT_OF_PLACE or BOTH: what
    the library offers. ``sums``: the ranks' data is added up; ``by_pair``: every two ranks have
    data of their own. Both bound how many ranks can be told apart, see ``pattern``.
    """

    name: str
    sends: Contents
    holds: Contents
    run: Callable[[Any, Any, int, int], None]
    by_rank: bool
    placement: str
    least_ranks: int = 1
    sums: bool = False
    by_pair: bool = False

    def refuses(self, ranks: int, dtype: str, summed_ranks: int = MAX_RANKS) -> str:
        """Return why so many ranks cannot be measured, or an empty text.

        ``summed_ranks`` is how many ranks' data can be added up exactly.
        """
        senders = isqrt(PERIODS[dtype]) if self.by_pair else PERIODS[dtype]
        most = summed_ranks if self.sums else senders
        if ranks > most:
            return "%s verifies up to %d ranks, not %d" % (self.name, most, ranks)
        if ranks < self.least_ranks:
            return "%s needs another rank to send to" % self.name
        return ""


def _run_all_reduce(_source: Any, target: Any, _rank: int, _ranks: int) -> None:
    """Sum in place: torch offers no other way."""
    dist.all_reduce(target)


all_reduce = Operation(
    "all_reduce",
    lambda data, rank, round_: [data.summand(rank, 0, round_)],
    lambda data, _, round_: [data.total(0, round_)],
    _run_all_reduce,
    by_rank=False,
    placement=IN_PLACE,
    sums=True,
)


def _run_alltoall(source: Any, target: Any, _rank: int, _ranks: int) -> None:
    """Exchange chunks; there is no way in place."""
    dist.all_to_all_single(target, source)


alltoall = Operation(
    "alltoall",
    lambda data, rank, round_: [
        data.copied(rank * data.ranks + to, round_) for to in range(data.ranks)
    ],
    lambda data, rank, round_: [
        data.copied(sender * data.ranks + rank, round_) for sender in range(data.ranks)
    ],
    _run_alltoall,
    by_rank=True,
    placement=OUT_OF_PLACE,
    by_pair=True,
)


def _run_all_gather(source: Any, target: Any, _rank: int, _ranks: int) -> None:
    """Gather; in place the source is this rank's chunk of the target."""
    one_of("all_gather_single", "all_gather_into_tensor")(target, source)


all_gather = Operation(
    "all_gather",
    lambda data, rank, round_: [data.copied(rank, round_)],
    lambda data, _, round_: [data.copied(sender, round_) for sender in range(data.ranks)],
    _run_all_gather,
    by_rank=True,
    placement=BOTH,
)


def _run_reduce_scatter(source: Any, target: Any, _rank: int, _ranks: int) -> None:
    """Sum and scatter; in place the target is this rank's chunk of the source."""
    one_of("reduce_scatter_single", "reduce_scatter_tensor")(target, source)


reduce_scatter = Operation(
    "reduce_scatter",
    lambda data, rank, round_: [data.summand(rank, each, round_) for each in range(data.ranks)],
    lambda data, rank, round_: [data.total(rank, round_)],
    _run_reduce_scatter,
    by_rank=True,
    placement=BOTH,
    sums=True,
)


def _run_broadcast(_source: Any, target: Any, _rank: int, _ranks: int) -> None:
    """Send from rank 0, in place: torch offers no other way."""
    dist.broadcast(target, 0)


broadcast = Operation(
    "broadcast",
    lambda data, rank, round_: [data.copied(rank, round_)],
    lambda data, _, round_: [data.copied(0, round_)],
    _run_broadcast,
    by_rank=False,
    placement=IN_PLACE,
)


def _run_sendrecv(source: Any, target: Any, rank: int, ranks: int) -> None:
    """Send and receive at once, as one group."""
    sent = dist.P2POp(dist.isend, source, (rank + 1) % ranks)
    received = dist.P2POp(dist.irecv, target, (rank - 1) % ranks)
    for work in dist.batch_isend_irecv([sent, received]):
        work.wait()


sendrecv = Operation(
    "sendrecv",
    lambda data, rank, round_: [data.copied(rank, round_)],
    lambda data, rank, round_: [data.copied((rank - 1) % data.ranks, round_)],
    _run_sendrecv,
    by_rank=False,
    placement=OUT_OF_PLACE,
    least_ranks=2,
)


Harm = Callable[[Any], None]
"""Does it: is given the buffer that holds the result, on one rank."""


def sabotaged(operation: Operation, name: str, harm: Harm) -> Operation:
    """Return the collective under another name; its last rank does ``harm`` after each run."""

    def run(source: Any, target: Any, rank: int, ranks: int) -> None:
        operation.run(source, target, rank, ranks)
        if rank == ranks - 1:
            harm(target)

    return replace(operation, name=name, run=run)


def damage_one_element(target: Any) -> None:
    """Change one element by one: the least that a comparison has to see."""
    target[:1] += 1


def stop_this_process(_target: Any) -> None:
    """Stand still as a process does that is stuck: it neither ends nor reports anything."""
    os.kill(os.getpid(), signal.SIGSTOP)


prove_hang = sabotaged(all_reduce, "prove_hang", stop_this_process)
prove_wrong = sabotaged(all_reduce, "prove_wrong", damage_one_element)

OPERATIONS = {
    each.name: each
    for each in (
        *(all_reduce, alltoall, all_gather, reduce_scatter, broadcast, sendrecv),
        *(prove_hang, prove_wrong),
    )
}


def load(name: str) -> Operation:
    """Return the collective of that name. Raises ValueError when there is none."""
    if name not in OPERATIONS:
        raise ValueError("no collective is named %r" % name)
    return OPERATIONS[name]
