"""A rollout's batches in their scheduler: drained before they are touched, resumed when well."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import Host
from hwcheck.provision.rollout import Batch
from hwcheck.scheduler.actions import Drains, drain, resume, wait_until_free
from hwcheck.scheduler.records import DONE, REFUSED, Amount, NodeAction, NodeState


class Draining:
    """The scheduler of a rollout's hosts; ``left`` are those that it has drained by now.

    ``log`` is what each action is appended to, ``run`` the rollout's folder, which stands in the
    reason.
    """

    def __init__(
        self, kind: str, hosts: Sequence[Host], log: Path, at_most: Amount, limit_s: float
    ) -> None:
        self.kind = kind
        self.limit_s = limit_s
        self.left: tuple[str, ...] = ()
        self._hosts = tuple(hosts)
        self._drains = Drains(kind, "rollout", "", log)
        self._at_most = at_most

    def begin(self, run: str) -> None:
        """Name the folder of the rollout."""
        self._drains = replace(self._drains, run=run)

    def refuse(self, plan: Sequence[Batch]) -> None:
        """Raise UsageError where a host must not be drained, or a batch is too large."""
        self._refuse([name for part in plan for name in part.hosts], Amount(share=1.0))
        self._refuse(max((part.hosts for part in plan), key=len), self._at_most)

    def drain(self, part: Batch) -> tuple[NodeAction, ...]:
        """Let no further job start on a batch. Raises UsageError where nothing was changed."""
        self._refuse(part.hosts, self._at_most)
        actions = self._drain(part.hosts, self._at_most, dry_run=False)
        # One that failed may be drained all the same, as where the scheduler went away meanwhile.
        self.left += tuple(action.host for action in actions if action.outcome != REFUSED)
        return actions

    def wait(self, part: Batch, stop: threading.Event) -> dict[str, NodeState]:
        """Wait until no job is on a batch, or ``stop``; return the hosts that still have one."""
        hosts = [host for host in self._hosts if host.name in part.hosts]
        return wait_until_free(self.kind, hosts, self.limit_s, stop)

    def resume(self, part: Batch) -> tuple[NodeAction, ...]:
        """Give a batch back. Raises UsageError where nothing was changed."""
        actions = resume(self._drains, self._hosts, part.hosts, dry_run=False)
        given_back = {action.host for action in actions if action.outcome == DONE}
        self.left = tuple(host for host in self.left if host not in given_back)
        return actions

    def _refuse(self, names: Sequence[str], at_most: Amount) -> None:
        actions = self._drain(names, at_most, dry_run=True)
        refused = [action for action in actions if action.outcome == REFUSED]
        if refused:
            more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            raise UsageError(f"{refused[0].line()}{more}")

    def _drain(
        self, names: Sequence[str], at_most: Amount, *, dry_run: bool
    ) -> tuple[NodeAction, ...]:
        why = dict.fromkeys(names, self._drains.run)
        return drain(self._drains, self._hosts, why, at_most, dry_run=dry_run)
