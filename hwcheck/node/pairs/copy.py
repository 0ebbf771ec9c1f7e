"""The process that copies: it sees all GPUs and sends what came of each pair.

A copy between two GPUs is queued on the source's stream and goes straight where the driver grants
peer access, through the host otherwise (PyTorch, aten/src/ATen/native/cuda/Copy.cu). Whatever way
it goes, it arrives whole or the node is broken (NVIDIA/open-gpu-kernel-modules#1257).
"""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Sequence, Set, Tuple

from hwcheck.contract.pairs_run import Pair, Round
from hwcheck.node.affinity import cpu_set, stay_on
from hwcheck.node.json_lines import Send
from hwcheck.node.torch_runtime import torch

MOST_BYTES = 256 * 1024 * 1024  # 0.6 ms at 400 GB/s: a launch of some us does not show
MEMORY_SHARE = 8  # source, target, what is expected and its comparison are less than half of it
ALONE_S = 0.03
TOGETHER_S = 0.05
MOST_COPIES = 100
# Odd, so an element tells its index from every other below 2^32, whatever is added to all.
FACTOR = -1640531535
ELEMENT_BYTES = 4


class Ends:
    """A source and a target on every GPU.

    What is copied through the host goes through buffers where the thread that asks for it runs, so
    it runs on the CPUs near the source (``near_cpus``, for each GPU; empty: anywhere).
    """

    def __init__(self, gpus: int, near_cpus: Sequence[str] = ()) -> None:
        allowed = os.sched_getaffinity(0)
        self._near: List[Set[int]] = [cpu_set(cpus) & allowed or allowed for cpus in near_cpus]
        self._near += [allowed] * (gpus - len(self._near))
        free = min(int(torch.cuda.mem_get_info(gpu)[0]) for gpu in range(gpus))
        self._gpus = gpus
        self._salt = 0
        self.count = max(1, min(MOST_BYTES, free // MEMORY_SHARE) // ELEMENT_BYTES)
        self.bytes = self.count * ELEMENT_BYTES
        self._sources = [self._made(gpu, gpu) for gpu in range(gpus)]
        self._targets = [self._made(gpu, gpu) for gpu in range(gpus)]

    def _made(self, gpu: int, of: int) -> Any:
        """Return on ``gpu`` what the source on GPU ``of`` holds now."""
        stay_on(self._near[gpu])
        made = torch.arange(self.count, dtype=torch.int32, device="cuda:%d" % gpu)
        return made.mul_(FACTOR).add_(self._salt + of)

    def prepare(self, pairs: Sequence[Pair]) -> None:
        """Fill what each pair will copy with something new, and clear where it arrives."""
        self._salt += self._gpus
        for one, other in pairs:
            self._sources[one].copy_(self._made(one, one))
            self._targets[other].zero_()
        for gpu in {gpu for pair in pairs for gpu in pair}:
            torch.cuda.synchronize(gpu)

    def copy(self, pair: Pair) -> None:
        """Queue one copy."""
        one, other = pair
        stay_on(self._near[one])
        self._targets[other].copy_(self._sources[one], non_blocking=True)

    def wrong(self, pair: Pair) -> int:
        """Return how many elements of the target are not the source's.

        What they must be is worked out on the target's own GPU.
        """
        one, other = pair
        torch.cuda.synchronize(one)
        expected = self._made(other, one)
        return int((self._targets[other] != expected).sum(dim=0, dtype=torch.int64).item())

    def timed(self, pair: Pair, copies: int) -> Tuple[Any, Any]:
        """Queue so many copies; return the events before and after them."""
        with torch.cuda.device(pair[0]):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(copies):
                self.copy(pair)
            end.record()
        return begin, end

    def gbps(self, events: Tuple[Any, Any], copies: int) -> float:
        """Wait for the copies and return their speed in 1e9 bytes/s."""
        begin, end = events
        end.synchronize()
        return float(copies * self.bytes / begin.elapsed_time(end) / 1e6)


def run(gpus: int, send: Send, met: Sequence[Round], near_cpus: Sequence[str] = ()) -> None:
    """Copy within each pair of some rounds both ways, then on the pairs of a round at once."""
    visible = torch.cuda.device_count()
    if visible < gpus:
        raise RuntimeError("torch sees %d of %d GPUs" % (visible, gpus))
    send({"kind": "doing", "what": "start of CUDA on every GPU"})
    ends, alone = Ends(gpus, near_cpus), {}
    for pair in sorted(pair for each in met for ways in both_ways(each) for pair in ways):
        send({"kind": "doing", "pairs": [pair]})
        gbps, wrong = _alone(ends, pair)
        access = bool(torch.cuda.can_device_access_peer(*pair))
        alone[pair] = gbps
        send({"kind": "alone", "pair": pair, "access": access, "gbps": gbps, "wrong": wrong})
    for each in met:
        for pairs in both_ways(each):
            send({"kind": "doing", "pairs": pairs})
            for pair, gbps, wrong in _together(ends, pairs, alone):
                send({"kind": "together", "pair": pair, "gbps": gbps, "wrong": wrong})
    send({"kind": "done"})


def both_ways(pairs: Round) -> Tuple[Round, Round]:
    """Return the pairs of a round, and the same ones the other way round."""
    return pairs, [(other, one) for one, other in pairs]


def _alone(ends: Ends, pair: Pair) -> Tuple[float, int]:
    """Return the best copy and the wrong elements of all, of which the first is not timed."""
    ends.prepare([pair])
    ends.copy(pair)
    wrong, best = ends.wrong(pair), 0.0
    end = time.monotonic() + ALONE_S
    while not best or time.monotonic() < end:
        ends.prepare([pair])
        best = max(best, ends.gbps(ends.timed(pair, 1), 1))
        wrong += ends.wrong(pair)
    return best, wrong


def _together(
    ends: Ends, pairs: Sequence[Pair], alone: Dict[Pair, float]
) -> List[Tuple[Pair, float, int]]:
    """Copy on all pairs at once; return the speed of each and the wrong elements of its last."""
    ends.prepare(pairs)
    counts = [_copies(ends, alone[pair]) for pair in pairs]
    events = [ends.timed(pair, count) for pair, count in zip(pairs, counts)]  # noqa: B905
    speeds = [ends.gbps(each, count) for each, count in zip(events, counts)]  # noqa: B905
    return [(pair, gbps, ends.wrong(pair)) for pair, gbps in zip(pairs, speeds)]  # noqa: B905


def _copies(ends: Ends, gbps: float) -> int:
    """Return how many copies take so long that all pairs are at work at the same time."""
    return max(2, min(MOST_COPIES, int(TOGETHER_S * gbps * 1e9 / ends.bytes)))
