"""The stages of a rollout that drain a batch in its scheduler, and resume it when it is well."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from invoke import Exit

from hwcheck.errors import UsageError
from hwcheck.exit_codes import INTERRUPTED, NOT_MEASURED, PASS
from hwcheck.inventory.expectations import SCHEDULERS
from hwcheck.inventory.inventory import Host
from hwcheck.provision.rollout import Batch
from hwcheck.scheduler.actions import LOG, Drains, drain, resume, wait_until_free
from hwcheck.scheduler.records import DONE, FAILED, REFUSED, Action, Amount
from hwcheck.tasks.flags import one_of, seconds
from hwcheck.tasks.interrupts import Interrupts
from hwcheck.tasks.output import say

MAX_DRAINED, TIMEOUT = "25%", "24h"
DRAIN_HELP = {
    "drain": "slurm or kubernetes: drain each batch there, wait for its jobs, resume it when it is "
    "well (without a value: in what hwcheck_scheduler names)",
    "max-drained": "nodes that may be out of service, of all and of each partition: a count or a "
    f"share (default: {MAX_DRAINED})",
    "drain-timeout": f"how long to wait for the jobs of a batch to end (default: {TIMEOUT})",
}


class Draining:
    """The scheduler of a rollout's hosts; ``left`` are those that it has drained by now.

    ``log`` is what each action is appended to, ``run`` the rollout's folder, which stands in the
    reason.
    """

    def __init__(
        self, kind: str, hosts: Sequence[Host], log: Path, at_most: Amount, limit_s: float
    ) -> None:
        self.kind = kind
        self.left: tuple[str, ...] = ()
        self._hosts = {host.name: host for host in hosts}
        self._drains = Drains(kind, "rollout", "", log)
        self._at_most = at_most
        self._limit_s = limit_s

    def begin(self, run: str) -> None:
        """Name the folder of the rollout."""
        self._drains = replace(self._drains, run=run)

    def refuse(self, plan: Sequence[Batch]) -> None:
        """Raise UsageError where a host must not be drained, or a batch is too large."""
        self._refuse([name for part in plan for name in part.hosts], Amount(share=1.0))
        self._refuse(max((part.hosts for part in plan), key=len), self._at_most)

    def drain(self, part: Batch) -> int:
        """Let no further job start on a batch. Raises UsageError where nothing was changed."""
        self._refuse(part.hosts, self._at_most)
        actions = self._drain(part.hosts, self._at_most, dry_run=False)
        # One that failed may be drained all the same, as where the scheduler went away meanwhile.
        self.left += tuple(action.host for action in actions if action.outcome != REFUSED)
        for action in actions:
            if action.outcome != DONE:
                say(f"hwcheck: {action.line()}")
        return PASS if all(action.outcome == DONE for action in actions) else NOT_MEASURED

    def wait(self, part: Batch) -> int:
        """Wait until no job is on a batch. Raises Exit where it is interrupted."""
        stop = threading.Event()
        hosts = [self._hosts[name] for name in part.hosts]
        with Interrupts(stop):
            busy = wait_until_free(self.kind, hosts, self._limit_s, stop)
        if stop.is_set():
            raise Exit(code=INTERRUPTED)
        for name, node in busy.items():
            say(f"hwcheck: {name}: {node.line()}: given up after {self._limit_s:g} s")
        return NOT_MEASURED if busy else PASS

    def resume(self, part: Batch) -> int:
        """Give a batch back."""
        hosts = tuple(self._hosts.values())
        actions = resume(self._drains, hosts, part.hosts, dry_run=False)
        given_back = {action.host for action in actions if action.outcome == DONE}
        self.left = tuple(host for host in self.left if host not in given_back)
        for action in actions:
            if action.outcome != DONE:
                say(f"hwcheck: {action.line()}")
        return NOT_MEASURED if any(action.outcome == FAILED for action in actions) else PASS

    def say_what_is_left(self) -> None:
        """Say which hosts stay drained, and how they come back."""
        if self.left:
            names = ", ".join(self.left)
            what_to_do = "the next rollout resumes those that are well, or do so by hand"
            say(f"hwcheck: left drained in {self.kind}: {names}; {what_to_do}")

    def _refuse(self, names: Sequence[str], at_most: Amount) -> None:
        actions = self._drain(names, at_most, dry_run=True)
        refused = [action for action in actions if action.outcome == REFUSED]
        if refused:
            more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            raise UsageError(f"{refused[0].line()}{more}")

    def _drain(self, names: Sequence[str], at_most: Amount, *, dry_run: bool) -> tuple[Action, ...]:
        why = dict.fromkeys(names, self._drains.run)
        hosts = tuple(self._hosts.values())
        return drain(self._drains, hosts, why, at_most, dry_run=dry_run)


def read_draining(
    drain: str | bool | None, max_drained: str, timeout: str, hosts: Sequence[Host], out: Path
) -> Draining | None:
    """Return what the flags ask for; None where nothing is drained. Raises UsageError.

    Invoke has True for a flag without its value.
    """
    if drain is None:
        return None
    kinds = {host.settings.scheduler for host in hosts} if drain is True else {str(drain)}
    if kinds == {""} or len(kinds) > 1:
        problem = "is not set" if kinds == {""} else "is not the same for all hosts"
        raise UsageError(
            f"--drain: hwcheck_scheduler {problem}; or say --drain {' or '.join(SCHEDULERS)}"
        )
    kind = one_of("--drain", kinds.pop(), SCHEDULERS)
    try:
        at_most = Amount.parse(max_drained)
    except ValueError as error:
        raise UsageError(f"--max-drained {error}") from None
    limit_s = seconds("--drain-timeout", timeout)
    return Draining(kind, hosts, out / LOG, at_most, limit_s)
