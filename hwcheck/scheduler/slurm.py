"""Slurm by its programs: ``sinfo`` for nodes, ``squeue`` for jobs, ``scontrol`` to drain.

Formats that we name ourselves rather than ``--json``, whose shape changes with each version and
whose plugin a distribution may leave out (Debian 12's scontrol has no ``--json``). The fields are
documented in the man pages of 20.11 to 25.05; StateComplete came with 21.08 (Slurm's NEWS), before
which StateLong has one word in place of flags.
"""

from __future__ import annotations

import re
import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

from hwcheck import text
from hwcheck.errors import UsageError
from hwcheck.scheduler.programs import run
from hwcheck.scheduler.records import (
    BUSY,
    DOWN,
    DRAINED,
    DRAINED_BY_OTHER,
    IDLE,
    OURS,
    NodeState,
)

STATE_FIELDS = ("StateComplete", "StateLong")
FIELDS = ("NodeList", "NodeAddr", "NodeHost", "PartitionName", "User", "TimeStamp")
"""Of a node in a partition; its state and its reason, which is free text, follow."""
JOB_STATES = "RUNNING,SUSPENDED,COMPLETING,CONFIGURING,STOPPED"
"""Those in which a job has its nodes. A node whose only job is suspended is idle to sinfo."""

NODE_NAME = re.compile(r"(?!all$)[a-z0-9_][a-z0-9_.-]{0,254}\Z", re.IGNORECASE)
"""scontrol takes ranges, and ALL, in the place of one."""
RANGE = re.compile(r"([0-9]+)-([0-9]+)")
MOST_NODES = 65_536
"""As many as a job's node list may have here; more than Slurm takes in one range."""

# Base states and flags of StateComplete, and the words of StateLong without the sign at their end
# (sinfo(1), NODE STATE CODES, 20.11 to 25.05).
AT_WORK = {"allocated", "mixed", "completing", "draining", "failing"}
IS_DRAINED = {"drain", "drained", "draining"}
WITHDRAWN = {
    **dict.fromkeys(("fail", "failing"), "is marked as failing"),
    **dict.fromkeys(("maint", "maintenance"), "is reserved for maintenance"),
    **dict.fromkeys(("blocked",), "is kept free for a job that has it alone"),
}
"""What else somebody takes a node out of service with, and without a reason on record."""
WANTED = {"planned": "planned for a job", "reserved": "reserved"}
"""Why a node that idles may not do so for long."""
IS_UP = {"allocated", "mixed", "completing", "idle"}
IS_UP |= IS_DRAINED | set(WITHDRAWN) | set(WANTED)
IS_DOWN = {
    *("down", "error", "future", "inval", "invalid", "invalid_reg", "unknown", "not_responding"),
    *("powered_down", "powering_down", "powering_up", "power_down", "power_up", "power_drain"),
    *("reboot", "reboot_issued", "reboot_requested"),
}
ENDINGS = {"*": "not_responding", "~": "powered_down", "#": "powering_up", "%": "powering_down"}
ENDINGS |= {"$": "maint", "^": "reboot_issued", "@": "", "!": "", "-": "planned"}


def nodes() -> tuple[NodeState, ...]:
    """Return every node that is in a partition. Raises UsageError."""
    jobs = _jobs()
    partitions = defaultdict(list)
    records = {}
    for node, address, hostname, partition, who, since, state, reason in _listing():
        partitions[node].append(partition)
        records[node] = (state, who, since, reason, (node, address, hostname))
    return tuple(
        _node(name, records[name], jobs.get(name, ()), partitions[name]) for name in records
    )


def ready() -> None:
    """See that ``scontrol`` is there. Raises UsageError."""
    run(["scontrol", "--version"])


def drain(node: NodeState, reason: str) -> None:
    """Let no further job start on a node. Raises UsageError."""
    _update(node.node, "state=drain", f"reason={reason}")


def resume(node: NodeState) -> None:
    """Take the drain back. Raises UsageError.

    Not by UNDRAIN, after which a node that was rebooted meanwhile would be left as down.
    """
    _update(node.node, "state=resume")


def _update(name: str, *words: str) -> None:
    code, stdout, stderr = run(["scontrol", "update", f"nodename={name}", *words])
    if code != 0:
        raise UsageError(f"scontrol: {_first_line(stderr, stdout)}")


def _listing() -> Iterator[list[str]]:
    """Yield ``FIELDS``, state and reason of each node in each partition."""
    for state_field in STATE_FIELDS:
        mark = _mark()
        fields = [*FIELDS, state_field, "Reason"]
        shape = ",".join(f"{field}:{mark}" for field in fields)
        code, stdout, stderr = run(["sinfo", "--all", "--Node", "--noheader", f"--Format={shape}"])
        values = stdout.split(mark)
        if code == 0 and not stdout.strip() and stderr.strip():
            continue  # it does not have this field, which is no error to it
        if code != 0:
            raise UsageError(f"sinfo: {_first_line(stderr, stdout)}")
        end = values.pop()
        if end.strip() or len(values) % len(fields):
            raise UsageError(f"sinfo: an answer that cannot be read: {text.line(stdout, 80)!r}")
        for start in range(0, len(values), len(fields)):
            record = [value.strip() for value in values[start : start + len(fields)]]
            if not NODE_NAME.match(record[0]):
                raise UsageError(f"sinfo: {record[0][:80]!r} is no node's name")
            yield record
        return
    raise UsageError(f"sinfo: {_first_line(stderr, stdout)}")


def _jobs() -> dict[str, tuple[str, ...]]:
    """Return the ids of the jobs on each node that has one."""
    mark = _mark()
    words = ["--all", "--noheader", f"--states={JOB_STATES}", f"--format={mark}%N {mark}%i {mark}"]
    code, stdout, stderr = run(["squeue", *words])
    if code != 0:
        raise UsageError(f"squeue: {_first_line(stderr, stdout)}")
    begin, *values = stdout.split(mark)
    if begin.strip() or len(values) % 3 or any(value.strip() for value in values[2::3]):
        raise UsageError(f"squeue: an answer that cannot be read: {text.line(stdout, 80)!r}")
    by_node = defaultdict(list)
    for where, job in zip(values[::3], values[1::3], strict=True):
        for node in _expand(where.strip()):
            by_node[node].append(text.line(job, 40))
    return {node: tuple(sorted(set(listed))) for node, listed in by_node.items()}


def _expand(listed: str) -> list[str]:
    """Return the nodes of ``gpu[01-04,07]``. Raises UsageError."""
    product = 1
    for first, last in RANGE.findall(listed):
        product *= max(1, int(last[:9]) - int(first[:9]) + 1)
    try:
        if product > MOST_NODES:
            raise ValueError
        return list(NodeSet(listed, resolver=RESOLVER_NOGROUP)) if listed else []
    except (NodeSetException, ValueError):
        raise UsageError(f"squeue: {listed[:80]!r} is no list of nodes") from None


def _node(
    name: str,
    record: tuple[str, str, str, str, tuple[str, ...]],
    jobs: tuple[str, ...],
    partitions: Sequence[str],
) -> NodeState:
    raw, who, since, reason, names = record
    words = _words(raw)
    withdrawn = [WITHDRAWN[word] for word in sorted(words & set(WITHDRAWN))]
    if words & IS_DRAINED:
        state = DRAINED if reason.startswith(OURS) else DRAINED_BY_OTHER
    elif withdrawn:
        state, who, since = DRAINED_BY_OTHER, "somebody else", ""
        reason = reason if reason != "none" else withdrawn[0]
    elif words & IS_DOWN or not words & IS_UP:
        state = DOWN
        reason = reason if reason != "none" else f"Slurm's word for it is {raw[:60]!r}"
    else:
        state = BUSY if words & AT_WORK or jobs else IDLE
        who = since = reason = ""
    return NodeState(
        node=name,
        state=state,
        at_work=bool(words & AT_WORK or jobs),
        wanted=next((WANTED[word] for word in WANTED if word in words), ""),
        jobs=jobs,
        who="" if who == "Unknown" else text.line(who, 80),
        reason=text.line(reason),
        since="" if since == "Unknown" else text.line(since, 40),
        partitions=tuple(text.line(each, 80) for each in partitions),
        names=names,
        raw=text.line(raw, 80),
    )


def _words(raw: str) -> set[str]:
    """Return what a state says: base state and flags, or one word and what its last sign means."""
    sign = raw[-1:] if raw[-1:] in ENDINGS else ""
    return {*raw.lower().removesuffix(sign).split("+"), ENDINGS.get(sign, "")}


def _mark() -> str:
    """Return a separator that no reason, set by whoever may, can have guessed."""
    return f"|{secrets.token_hex(8)}|"


def _first_line(*outputs: str) -> str:
    lines = [line for output in outputs for line in output.splitlines() if line.strip()]
    return text.line(lines[-1]) if lines else "it failed and did not say why"
