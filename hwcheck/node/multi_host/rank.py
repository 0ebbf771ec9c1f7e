"""What one rank of an order does: meet the others, measure and verify every size."""

from __future__ import annotations

import mmap
import struct
from datetime import timedelta
from typing import Any, Callable, Dict, List, Tuple

from hwcheck.contract.collective_spec import CollectiveSpec
from hwcheck.node.collective import operations, pattern, runtime
from hwcheck.node.collective.runtime import dist, torch
from hwcheck.node.collective.work import Work
from hwcheck.node.json_lines import Send
from hwcheck.node.multi_host import store as stores
from hwcheck.node.multi_host.order import Order

COUNT = struct.Struct("=Q")


class Calls:
    """One counter for each rank of a host; ranks inherit it, the launcher reads it."""

    def __init__(self, ranks: int) -> None:
        self._memory = mmap.mmap(-1, COUNT.size * ranks)

    def begin(self, index: int) -> None:
        """Count one more."""
        COUNT.pack_into(self._memory, COUNT.size * index, self.of(index) + 1)

    def of(self, index: int) -> int:
        """Return the count of one rank."""
        count: int = COUNT.unpack_from(self._memory, COUNT.size * index)[0]
        return count

    def __enter__(self) -> Calls:
        return self

    def __exit__(self, *exc: object) -> None:
        self._memory.close()


BEYOND_S = 60.0  # the launcher sees a hang before torch does
EXCHANGE_BYTES = 1024 * 1024
EXCHANGE_RANKS = 64  # every two of them set up a connection
DTYPE = "float"


class Large(pattern.Pattern):
    """Data that can be verified for 1365 ranks: their summands weigh 1 or 2, not their number."""

    MAX_RANKS = 1365  # 8191 x 1.5 x ranks must stay below 2^24, where fp32 holds every integer

    def summand(self, rank: int, chunk: int, round_: int) -> Any:
        return super().summand(rank % 2, chunk, round_)

    def total(self, chunk: int, round_: int) -> Any:
        return super().summand(0, chunk, round_) * (self.ranks + self.ranks // 2)


def run_rank(order: Order, spec: CollectiveSpec, index: int, calls: Calls, send: Send) -> None:
    """Run one rank and send what came of each size; the controller puts the hosts together."""
    rank, world = order.rank0 + index, order.world
    runtime.log_line_by_line()
    runtime.record_flight(spec, rank)
    device = runtime.device(spec, order.devices[index])
    calls.begin(index)  # to meet is the first step: a rank that never does it is behind the others
    timeout_s = order.deadline_s + BEYOND_S
    store = stores.connect(*order.store, "order/%d" % order.id, timeout_s)
    dist.init_process_group(
        spec.backend,
        store=store,
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=timeout_s),
    )
    send({"kind": "joined", "library": device.library()})
    wrong = 0

    def begun() -> None:
        calls.begin(index)

    for place, size in enumerate(order.sizes):
        moved, times_us, wrong_here = measure(order, device, rank, size, 2 * place, begun)
        send({"kind": "size", "size_bytes": moved, "times_us": times_us, "wrong": wrong_here})
        wrong += wrong_here
    if stores.together(store, "wrong", world, wrong) and world <= EXCHANGE_RANKS:
        send({"kind": "exchange", "rank": rank, "wrong_from": exchange(device.name, rank, world)})
    send({"kind": "done", "stop": ""})
    stores.together(store, "left", world)


def measure(
    order: Order, device: Any, rank: int, size_bytes: int, round_: int, begun: Callable[[], None]
) -> Tuple[int, List[float], int]:
    """Return the bytes moved, the times (us), and the wrong elements of two runs around them.

    ``begun`` is called as each collective begins. Raises ValueError where so many ranks cannot be
    verified.
    """
    chosen = operations.load(order.collective)
    refused = chosen.refuses(order.world, order.dtype)
    many = order.collective == "all_reduce" and order.dtype == DTYPE and bool(refused)
    if many:
        refused = chosen.refuses(order.world, DTYPE, Large.MAX_RANKS)
    if refused:
        raise ValueError(refused)
    data = (Large if many else pattern.Pattern)(order.dtype, order.world, device.name)
    work = Work(chosen, size_bytes, rank, data, device.name)

    def timed() -> None:
        begun()
        work.run()

    begun()
    wrong = work.verified(round_)
    times_us = device.time_us(timed, order.warmups, order.iterations)
    begun()
    return work.size_bytes, times_us, wrong + work.verified(round_ + 1)


def exchange(device: str, rank: int, world: int) -> Dict[str, int]:
    """Send data to every other rank directly; return the wrong elements by who sent them.

    A collective mixes what all ranks send, so its outcome does not say whose data was wrong.
    """
    data = pattern.Pattern(DTYPE, world, device)
    elements = EXCHANGE_BYTES // data.dtype.itemsize
    sent, received = (torch.empty(elements, dtype=data.dtype, device=device) for _ in range(2))
    wrong = {}
    for step in range(1, world):
        to, source = (rank + step) % world, (rank - step) % world
        pattern.fill(sent, data.copied(rank, step))
        received.zero_()
        moves = [dist.P2POp(dist.isend, sent, to), dist.P2POp(dist.irecv, received, source)]
        for move in dist.batch_isend_irecv(moves):
            move.wait()
        count = pattern.count_wrong(received, data.copied(source, step))
        if count:
            wrong[str(source)] = count
    return wrong
