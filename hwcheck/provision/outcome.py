"""What became of the hosts of a run of a playbook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hwcheck.errors import UsageError

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
ROLE_VARS = "hwcheck_role_vars"
"""The statistic (``set_stats``) by which a play tells the role variables that it set itself."""


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


def role_vars(stats: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return, by host, the role variables that the play itself set, as it told them.

    They are no inventory's, and what is asserted afterwards goes by them. Raises UsageError for
    what is no mapping of hosts to variables.
    """
    told = (stats.get("artifact_data") or {}).get(ROLE_VARS, {})
    if not isinstance(told, Mapping) or not all(isinstance(v, Mapping) for v in told.values()):
        raise UsageError(
            f"set_stats {ROLE_VARS}: it is not {{host: {{variable: value}}}}; mend the play"
        )
    return {str(host): dict(variables) for host, variables in told.items()}
