"""Run one order after another: fork its ranks, watch them, say what became of them."""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping

from hwcheck.contract.collective_spec import SITE, CollectiveSpec, LegPlan, rank_environment
from hwcheck.contract.wire import to_dict
from hwcheck.node.collective import nccl_info, proof, stacks
from hwcheck.node.collective.choose_legs import LOGIN
from hwcheck.node.collective.log import Log
from hwcheck.node.collective.ranks import RankGroup, RankProcess
from hwcheck.node.collective.watch import Watch
from hwcheck.node.json_lines import Message, Send
from hwcheck.node.multi_host import rank as rank_body
from hwcheck.node.multi_host import store
from hwcheck.node.multi_host.order import Order
from hwcheck.node.multi_host.rank import Calls


def serve(
    setup: Mapping[str, Any], orders: Iterable[Message], send: Send, close_fds: List[int]
) -> None:
    """Open the store, say where it is, and answer every order.

    ``close_fds`` are the launcher's own, which no rank may keep.
    """
    with store_of(setup["address"], send, close_fds) as shut:
        for order in orders if shut else ():
            send(run_order(Order.from_dict(order), setup, shut))


@contextmanager
def store_of(
    address: str, send: Send, close_fds: List[int], facts: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[List[int]]:
    """Keep a store for the length of the block and send its port, with more facts.

    Yields what no rank may keep; nothing where the store does not open, which is sent too.
    """
    with RankGroup() as store_process, socket.socket() as listener, Log() as log:
        listener.bind((address, 0))
        listener.listen(socket.SOMAXCONN)
        port = listener.getsockname()[1]
        store_process.fork(0, lambda say: store.keep(listener, say), os.environ, log.fd, close_fds)
        listener.close()
        messages = store_process.ranks[0].read()
        if not messages or messages[0]["kind"] != "open":
            send({"reason": "the store does not open: %s" % log.tail()[-300:]})
            yield []
            return
        send(dict(facts, port=port))
        yield [*close_fds, store_process.ranks[0].pipe_fd]


def run_order(order: Order, setup: Mapping[str, Any], close_fds: List[int]) -> Dict[str, Any]:
    """Fork the ranks of one order and return the answer."""
    start = time.monotonic()
    spec = CollectiveSpec(
        collectives=(order.collective,),
        ranks=len(order.devices),
        gpus=setup["gpus"],
        budget_s=order.deadline_s,
        memory_available_bytes=setup["memory_bytes"],
        dtype=order.dtype,
    )
    recorded = bool(spec.gpus)
    with Log() as log, RankGroup() as group, Calls(len(order.devices)) as calls:
        for index in range(len(order.devices)):
            body = _body(order, spec, index, calls)
            env = rank_environment(spec, _leg(order, setup), order.rank0 + index, os.environ)
            group.fork(order.rank0 + index, body, env, log.fd, close_fds)
        watch = Watch(group, 1.0, lambda _: None)
        state, reason = watch.until(start + order.deadline_s)
        aborted = watch.aborted
        places = [_place(rank, calls.of(index)) for index, rank in enumerate(group.ranks)]
        tail, left_over = _end(order, state, group, log, recorded)
        transport = _transport(log) if spec.gpus else {}
    return {
        "id": order.id,
        "state": state,
        "reason": reason,
        "aborted": aborted,
        "library": watch.library,
        "transport": transport,
        "sizes": [
            {"size_bytes": size.size_bytes, "times_us": size.times_us, "wrong": size.wrong}
            for size in watch.timed
        ],
        "exchanges": watch.others,
        "ranks": [] if state == "done" else places,
        "left_over": [to_dict(reason) for reason in left_over],
        "log_tail": tail,
        "duration_s": time.monotonic() - start,
    }


def _body(order: Order, spec: CollectiveSpec, index: int, calls: Calls) -> Callable[[Send], None]:
    return lambda send: rank_body.run_rank(order, spec, index, calls, send)


def _leg(order: Order, setup: Mapping[str, Any]) -> LegPlan:
    """Return the environment: ``site`` adds what the login sets; NCCL reads its files itself."""
    interface = setup["interface"]
    # "=" makes NCCL take this name only, not every one that begins with it (NCCL user guide).
    env = {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": "=" + interface}
    for name, value, origin in setup["settings"] if order.leg == SITE else ():
        env.pop(name, "")
        if origin.startswith(LOGIN):
            env[name] = value
    return LegPlan(order.leg, {**env, **order.env})


def _transport(log: Log) -> Dict[str, Any]:
    info = nccl_info.read(log.whole())
    return dict(proof.facts(info), version=info.version)


def _place(rank: RankProcess, calls: int) -> Dict[str, Any]:
    """Say where a rank stood: its process's state as proc(5) has it, the collectives it began."""
    try:
        with open("/proc/%d/stat" % rank.pid, encoding="utf-8", errors="replace") as stream:
            process = stream.read().rpartition(")")[2].split()[0]
    except OSError:
        process = "X"
    return {"rank": rank.rank, "process": process, "calls": calls, "done": rank.done}


def _end(order: Order, state: str, group: RankGroup, log: Log, recorded: bool) -> Any:
    """End the ranks; return the tail of their log and a line for each thing that stays."""
    tail, left_over = stacks.kill(group, log, state, recorded=recorded)
    if order.keep_log or state != "done":
        sys.stderr.write("-- log of order %d\n%s" % (order.id, log.read()))
        sys.stderr.flush()
    return tail, left_over
