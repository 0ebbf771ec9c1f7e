"""The stages of a rollout that drain a batch in its scheduler, and resume it when it is well."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from click.exceptions import Exit

from hwcheck.cli.command import option, together
from hwcheck.cli.interrupts import Interrupts
from hwcheck.cli.output import say
from hwcheck.cli.values import Duration, OneOf, Text
from hwcheck.errors import UsageError
from hwcheck.exit_codes import INTERRUPTED, NOT_MEASURED, PASS
from hwcheck.inventory.expectations import SCHEDULERS
from hwcheck.inventory.inventory import Host
from hwcheck.provision.draining import Draining
from hwcheck.provision.rollout import Batch
from hwcheck.scheduler.actions import LOG
from hwcheck.scheduler.records import DONE, FAILED, Amount, NodeAction

MAX_DRAINED, TIMEOUT = "25%", "24h"
OF_INVENTORY = "hwcheck_scheduler"
"""What ``--drain`` says without a value."""
drain_flags = together(
    option(
        "--drain",
        is_flag=False,
        flag_value=OF_INVENTORY,
        type=OneOf(SCHEDULERS, bare=OF_INVENTORY),
        metavar="[SCHEDULER]",
        help="slurm or kubernetes: drain each batch there, wait for its jobs, resume it when it is "
        "well (without a value: in what hwcheck_scheduler names)",
    ),
    option(
        "--max-drained",
        type=Text("amount", Amount.parse),
        metavar="AMOUNT",
        default=MAX_DRAINED,
        help="nodes that may be out of service, of all and of each partition: a count or a share "
        f"(default: {MAX_DRAINED})",
    ),
    option(
        "--drain-timeout",
        type=Duration(),
        default=TIMEOUT,
        help=f"how long to wait for the jobs of a batch to end (default: {TIMEOUT})",
    ),
)


def drain(draining: Draining, part: Batch) -> int:
    """Let no further job start on a batch. Raises UsageError where nothing was changed."""
    actions = draining.drain(part)
    _say_what_failed(actions)
    return PASS if all(action.outcome == DONE for action in actions) else NOT_MEASURED


def wait(draining: Draining, part: Batch) -> int:
    """Wait until no job is on a batch. Raises Exit where it is interrupted."""
    stop = threading.Event()
    with Interrupts(stop):
        busy = draining.wait(part, stop)
    if stop.is_set():
        raise Exit(INTERRUPTED)
    for name, node in busy.items():
        say(f"hwcheck: {name}: {node.line()}: given up after {draining.limit_s:g} s")
    return NOT_MEASURED if busy else PASS


def resume(draining: Draining, part: Batch) -> int:
    """Give a batch back."""
    actions = draining.resume(part)
    _say_what_failed(actions)
    return NOT_MEASURED if any(action.outcome == FAILED for action in actions) else PASS


def say_what_is_left(draining: Draining) -> None:
    """Say which hosts stay drained, and how they come back."""
    if draining.left:
        names = ", ".join(draining.left)
        what_to_do = "the next rollout resumes those that are well, or do so by hand"
        say(f"hwcheck: left drained in {draining.kind}: {names}; {what_to_do}")


def _say_what_failed(actions: Sequence[NodeAction]) -> None:
    for action in actions:
        if action.outcome != DONE:
            say(f"hwcheck: {action.line()}")


def read_draining(
    drain: str | None, max_drained: Amount, timeout_s: float, hosts: Sequence[Host], out: Path
) -> Draining | None:
    """Return what the flags ask for; None where nothing is drained. Raises UsageError."""
    if drain is None:
        return None
    kinds = {host.settings.scheduler for host in hosts} if drain == OF_INVENTORY else {drain}
    if kinds == {""} or len(kinds) > 1:
        problem = "is not set" if kinds == {""} else "is not the same for all hosts"
        raise UsageError(
            f"--drain: hwcheck_scheduler {problem}; or say --drain {' or '.join(SCHEDULERS)}"
        )
    return Draining(kinds.pop(), hosts, out / LOG, max_drained, timeout_s)
