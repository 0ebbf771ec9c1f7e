"""What became of the hosts of a run of a playbook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

OK, FAILED, UNREACHABLE, UNTOUCHED = "ok", "failed", "unreachable", "untouched"
COUNTS = {
    "ok": "ok",
    "changed": "changed",
    "failed": "failures",
    "unreachable": "dark",
    "skipped": "skipped",
    "rescued": "rescued",
    "ignored": "ignored",
}
"""Ours, and ansible-runner's names for them."""


@dataclass(frozen=True)
class HostOutcome:
    """A host: ``outcome`` is ok, failed, unreachable or untouched (no task ran there), and why.

    ``counts`` has tasks by what became of them, as Ansible's recap has.
    """

    host: str
    outcome: str
    reason: str
    counts: Mapping[str, int]

    def summary(self) -> str:
        """Return one line: ``node01: ok (12 ok, 3 changed)``."""
        said = ", ".join(f"{count} {name}" for name, count in self.counts.items() if count)
        why = f": {self.reason}" if self.reason else ""
        return f"{self.host}: {self.outcome} ({said or 'no task ran'}){why}"


def host_outcomes(
    hosts: Sequence[str], stats: Mapping[str, Any], reasons: Mapping[str, str]
) -> tuple[HostOutcome, ...]:
    """Judge the hosts by Ansible's own statistics; ``reasons`` is what was said last of a host."""
    found = []
    for host in hosts:
        counts = {name: int(stats.get(theirs, {}).get(host, 0)) for name, theirs in COUNTS.items()}
        outcome = UNTOUCHED
        if counts["failed"]:
            outcome = FAILED
        elif counts["unreachable"]:
            outcome = UNREACHABLE
        elif any(counts.values()):
            outcome = OK
        reason = reasons.get(host, "") if outcome in (FAILED, UNREACHABLE) else ""
        found.append(HostOutcome(host, outcome, reason, counts))
    return tuple(found)


def exit_code(hosts: Sequence[HostOutcome], *, complete: bool) -> int:
    """Return 1 where a host failed, 3 where one could not be tried, otherwise 0.

    ``complete``: Ansible came to its end. Where it did not, an untouched host was not tried; where
    it did, there was nothing to do there.
    """
    outcomes = {host.outcome for host in hosts}
    if FAILED in outcomes:
        return 1
    return 3 if UNREACHABLE in outcomes or not complete else 0
