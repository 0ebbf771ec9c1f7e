"""What each host is in its scheduler; drain and resume, within bounds, each on record."""

from __future__ import annotations

import fcntl
import getpass
import json
import math
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePath
from typing import BinaryIO, Protocol, cast

from hwcheck import text
from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import Host
from hwcheck.results.files import open_plain, read_plain
from hwcheck.results.run_folder import utc_now
from hwcheck.scheduler.matching import match
from hwcheck.scheduler.records import (
    DONE,
    DRAIN,
    DRAINED,
    FAILED,
    OURS,
    REFUSED,
    RESUME,
    UNKNOWN,
    WOULD,
    Amount,
    NodeAction,
    NodeState,
)

LOG = "drains.jsonl"
"""Beside the run folders, which it outlives."""
REASON_CHARACTERS = 200
LOG_BYTES = 2**30
"""Of the log: a line has 600."""
OUTAGE_S = 600.0
"""A controller that is restarted or fails over is back before that."""
POLL_S = 15.0
"""Between two looks at a node that is waited for: each costs the scheduler a list of all nodes."""


class Scheduler(Protocol):
    """What a module for one kind of scheduler has; all raise UsageError."""

    def nodes(self) -> Sequence[NodeState]:
        """Return every node."""

    def ready(self) -> None:
        """See that what drains nodes is there."""

    def drain(self, node: NodeState, reason: str) -> None:
        """Let no further job start on a node."""

    def resume(self, node: NodeState) -> None:
        """Take the drain back."""


@dataclass(frozen=True)
class Drains:
    """Who drains nodes, and why: what the log has of each action, and which of them may be undone.

    ``kind`` is the scheduler; ``purpose`` one word (``rollout``, ``sweep``) that stands in the
    reason: a resume undoes drains of its own purpose only. ``run`` is the folder with the evidence,
    ``log`` the file of JSON lines that actions are appended to.
    """

    kind: str
    purpose: str
    run: str
    log: Path

    @property
    def prefix(self) -> str:
        """Return what the reason of each of these drains begins with."""
        return f"{OURS}: {self.purpose}: "


def by_scheduler(hosts: Sequence[Host]) -> dict[str, list[Host]]:
    """Return the hosts by the scheduler that they are nodes of."""
    kinds = sorted({host.settings.scheduler for host in hosts} - {""})
    return {kind: [host for host in hosts if host.settings.scheduler == kind] for kind in kinds}


def all_states(hosts: Sequence[Host]) -> dict[str, NodeState]:
    """Return what its scheduler says of each host that has one, by its name. Raises UsageError."""
    made: dict[str, NodeState] = {}
    for kind, its in by_scheduler(hosts).items():
        made |= states(kind, its)
    return made


def states(kind: str, hosts: Sequence[Host]) -> dict[str, NodeState]:
    """Return what each host is in its scheduler, by its name. Raises UsageError."""
    return match(kind, hosts, _scheduler(kind).nodes())


def refuse_unusable(drains: Drains, at_most: Amount, *, dry_run: bool) -> None:
    """Raise UsageError where nothing could ever be drained.

    No scheduler, no program of it, a share of its nodes that is none, a log that is not to be
    written.
    """
    scheduler = _scheduler(drains.kind)
    scheduler.ready()
    every = len(scheduler.nodes())
    if not at_most.of(every):
        least = f"a count, or {math.ceil(1000 / every) / 10:g}% or more" if every else "a count"
        raise UsageError(
            f"--max-drained {at_most} of {every} nodes of {drains.kind} is none; say {least}"
        )
    with _locked(drains.log, dry_run=dry_run):
        pass


def drained_for(log: Path) -> set[tuple[str, str]]:
    """Return run and host of each drain that is on record as done. Raises UsageError.

    A line that cannot be read was cut off, and what it began was not done.
    """
    done: set[tuple[str, str]] = set()
    try:
        content = read_plain(log.parent, PurePath(log.name), LOG_BYTES)
    except FileNotFoundError:
        return done
    except OSError as error:
        raise UsageError(f"{log}: cannot be read: {error.strerror}") from None
    for each in content.decode("utf-8", "replace").splitlines():
        with suppress(ValueError, RecursionError, KeyError, TypeError):
            record = json.loads(each)
            key = (record["run"], record["host"])
            if record["action"] == DRAIN and record["outcome"] == DONE:
                done.add(key)
            elif record["action"] == DRAIN:
                done.discard(key)
    return done


def drain(
    drains: Drains,
    hosts: Sequence[Host],
    why: Mapping[str, str],
    at_most: Amount,
    *,
    dry_run: bool,
) -> tuple[NodeAction, ...]:
    """Drain hosts, each for the line that ``why`` has for it, in the order of ``why``.

    A host that hwcheck has drained already stays as it is (done). Refused are hosts that somebody
    else drained, that are down or unknown, and those beyond ``at_most``: nodes of all, and of each
    of the host's partitions, that take no jobs, whoever drained them and why ever they are down.
    With ``dry_run`` nothing is changed and what would be done is ``would``. Raises UsageError
    where the scheduler or the log cannot be used, before anything is changed.
    """
    scheduler = _scheduler(drains.kind)
    with _locked(drains.log, dry_run=dry_run) as log:
        nodes = scheduler.nodes()
        by_host = match(drains.kind, hosts, nodes)
        bound = _Bound(nodes, at_most)
        actions = []
        for host, line in why.items():
            node = by_host[host]
            reason = text.line(drains.prefix + line, REASON_CHARACTERS)
            refusal = "" if node.state == DRAINED else _refusal(node) or bound.refusal(node)
            if node.state == DRAINED:
                actions.append(NodeAction(host, node.node, DRAIN, DONE, node.reason))
            elif refusal:
                actions.append(NodeAction(host, node.node, DRAIN, REFUSED, refusal))
            else:
                bound.add(node)
                action = NodeAction(host, node.node, DRAIN, WOULD if dry_run else DONE, reason)
                actions.append(_act(drains, action, node, log) if log else action)
        return _verified(drains, hosts, actions) if log else tuple(actions)


def resume(
    drains: Drains, hosts: Sequence[Host], names: Collection[str], *, dry_run: bool
) -> tuple[NodeAction, ...]:
    """Give hosts back that were drained for this purpose; all others are refused.

    ``names`` are those of the hosts. Raises UsageError as ``drain`` does.
    """
    scheduler = _scheduler(drains.kind)
    with _locked(drains.log, dry_run=dry_run) as log:
        by_host = match(drains.kind, hosts, scheduler.nodes())
        actions = []
        for host in names:
            node = by_host[host]
            if node.state != DRAINED or not node.reason.startswith(drains.prefix):
                actions.append(
                    NodeAction(host, node.node, RESUME, REFUSED, _not_ours(drains, node))
                )
                continue
            action = NodeAction(host, node.node, RESUME, WOULD if dry_run else DONE, node.reason)
            actions.append(_act(drains, action, node, log) if log else action)
        return _verified(drains, hosts, actions) if log else tuple(actions)


def wait_until_free(
    kind: str,
    hosts: Sequence[Host],
    limit_s: float,
    stop: threading.Event,
    poll_s: float = POLL_S,
) -> dict[str, NodeState]:
    """Wait until no job is on any of these hosts; return those that still have one, by name.

    It ends as soon as ``stop`` is set. A scheduler that cannot be asked is asked again; raises
    UsageError where it stays so for ``OUTAGE_S``, or to the end.
    """
    begun = answered = time.monotonic()
    while True:
        now = time.monotonic()
        left_s = begun + limit_s - now
        try:
            busy = {name: node for name, node in states(kind, hosts).items() if node.at_work}
            if not busy or left_s <= 0 or stop.is_set():
                return busy
            answered = now
        except UsageError:
            if left_s <= 0 or stop.is_set() or now - answered > OUTAGE_S:
                raise
        stop.wait(max(0.0, min(poll_s, left_s)))


def _scheduler(kind: str) -> Scheduler:
    return cast(Scheduler, import_module(f"hwcheck.scheduler.{kind}"))


def _refusal(node: NodeState) -> str:
    """Return why this node must not be drained; empty where it may be."""
    if node.state == UNKNOWN:
        return "no node of the scheduler; hwcheck_scheduler_node names it, or leave the host out"
    return "" if node.takes_jobs else f"it is {node.line()}"


def _not_ours(drains: Drains, node: NodeState) -> str:
    return f"not drained by hwcheck for {drains.purpose}: it is {node.line()}"


class _Bound:
    """How many nodes take no jobs, of all (``""``) and of each partition."""

    def __init__(self, nodes: Sequence[NodeState], at_most: Amount) -> None:
        self._at_most = at_most
        self._all: Counter[str] = Counter()
        self._out: Counter[str] = Counter()
        for node in nodes:
            self._all.update(self._sets(node))
            if not node.takes_jobs:
                self.add(node)

    def refusal(self, node: NodeState) -> str:
        """Return why one more is too many; empty where it is not."""
        for name in self._sets(node):
            most = self._at_most.of(self._all[name])
            if self._out[name] >= most:
                whole = f"the partition {name}" if name else "all"
                return (
                    f"{self._out[name]} of {self._all[name]} nodes of {whole} take no jobs; "
                    f"--max-drained {self._at_most} allows {most}"
                )
        return ""

    def add(self, node: NodeState) -> None:
        self._out.update(self._sets(node))

    @staticmethod
    def _sets(node: NodeState) -> tuple[str, ...]:
        return ("", *node.partitions)


def _act(drains: Drains, action: NodeAction, node: NodeState, log: BinaryIO) -> NodeAction:
    """Write the action down, then do it; where it fails that is a line of its own."""
    scheduler = _scheduler(drains.kind)
    try:
        _append(log, drains, action, node)
    except UsageError as error:
        return _failed(action, str(error))
    try:
        if action.action == DRAIN:
            scheduler.drain(node, action.why)
        else:
            scheduler.resume(node)
    except UsageError as error:
        failed = _failed(action, str(error))
        with suppress(UsageError):  # it is told all the same
            _append(log, drains, failed, node)
        return failed
    return action


def _verified(
    drains: Drains, hosts: Sequence[Host], actions: Sequence[NodeAction]
) -> tuple[NodeAction, ...]:
    """Return the actions as the scheduler has them now: done is what it shows."""
    if not any(action.outcome == DONE for action in actions):
        return tuple(actions)
    try:
        now = states(drains.kind, hosts)
    except UsageError as error:
        return tuple(_failed(each, f"not known: {error}") for each in actions)
    return tuple(
        _failed(each, f"now it is {now[each.host].line()}")
        if (now[each.host].state == DRAINED) != (each.action == DRAIN)
        else each
        for each in actions
    )


def _failed(action: NodeAction, why: str) -> NodeAction:
    if action.outcome != DONE:
        return action
    return NodeAction(action.host, action.node, action.action, FAILED, why)


@contextmanager
def _locked(path: Path, *, dry_run: bool) -> Iterator[BinaryIO | None]:
    """Open the log, for one hwcheck at a time; two would each drain as many as allowed."""
    if dry_run:
        yield None
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        descriptor = open_plain(path.parent, PurePath(path.name), flags)
    except OSError as error:
        raise UsageError(f"{path}: cannot be appended to: {error.strerror}") from None
    with open(descriptor, "ab", buffering=0) as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        yield log


def _append(log: BinaryIO, drains: Drains, action: NodeAction, node: NodeState) -> None:
    record = {
        "time": utc_now(),
        "by": f"{getpass.getuser()}@{socket.gethostname()}",
        "scheduler": drains.kind,
        "purpose": drains.purpose,
        "action": action.action,
        "host": action.host,
        "node": action.node,
        "outcome": action.outcome,
        "why": action.why,
        "run": drains.run,
        "before": {"state": node.state, "raw": node.raw, "jobs": node.jobs, "reason": node.reason},
    }
    line = json.dumps(record).encode() + b"\n"
    try:
        if log.write(line) != len(line):
            raise OSError(0, "the disk is full")
        os.fsync(log.fileno())
    except OSError as error:
        raise UsageError(f"{drains.log}: cannot be appended to: {error.strerror}") from None
