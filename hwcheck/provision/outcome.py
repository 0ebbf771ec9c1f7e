"""What became of the hosts of a run of a playbook."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hwcheck import exit_codes
from hwcheck.errors import UsageError

OK, FAILED, UNREACHABLE, UNTOUCHED = "ok", "failed", "unreachable", "untouched"
BROKEN_OFF = "broken off"
COUNTS = {
    "ok": "ok",
    "changed": "changed",
    "failed": "failures",
    "unreachable": "dark",
    "skipped": "skipped",
    "rescued": "rescued",
    "ignored": "ignored",
}
"""Our names of the counts, and those of ansible-runner."""
ROLE_VARS = "hwcheck_role_vars"
"""The statistic (``set_stats``) in which a play reports the role variables that it sets."""
EXIT_CODES = {
    OK: exit_codes.PASS,
    FAILED: exit_codes.FAILED,
    UNREACHABLE: exit_codes.NOT_MEASURED,
    BROKEN_OFF: exit_codes.NOT_MEASURED,
    UNTOUCHED: exit_codes.PASS,
}


@dataclass(frozen=True)
class HostOutcome:
    """A host: ``outcome`` is ok, failed, unreachable or untouched (no task ran there), and why.

    It is broken off where tasks ran and Ansible ended before it could count them.
    ``counts`` has tasks by what became of them, as Ansible's recap has.
    """

    host: str
    outcome: str
    reason: str
    counts: Mapping[str, int]

    def summary(self) -> str:
        """Return one line: ``node01: ok (12 ok, 3 changed)``."""
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items() if count)
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.host}: {self.outcome} ({counts or 'no task ran'}){reason}"


def host_outcomes(
    hosts: Sequence[str],
    stats: Mapping[str, Any],
    reasons: Mapping[str, str],
    at_work: Collection[str] = (),
) -> tuple[HostOutcome, ...]:
    """Judge the hosts by Ansible's own statistics.

    ``reasons`` has the last error of a host, ``at_work`` the hosts on which a task came to its end.
    """
    outcomes = []
    for host in hosts:
        counts = {name: int(stats.get(key, {}).get(host, 0)) for name, key in COUNTS.items()}
        outcome = UNTOUCHED
        if counts["failed"]:
            outcome = FAILED
        elif counts["unreachable"]:
            outcome = UNREACHABLE
        elif any(counts.values()):
            outcome = OK
        elif host in at_work:
            outcome = BROKEN_OFF
        reason = reasons.get(host, "") if outcome not in (OK, UNTOUCHED) else ""
        outcomes.append(HostOutcome(host, outcome, reason, counts))
    return tuple(outcomes)


def exit_code(hosts: Sequence[HostOutcome], *, complete: bool) -> int:
    """Return 1 where a host failed, 3 where one could not be tried, otherwise 0.

    ``complete``: Ansible came to its end. Where it did not, an untouched host was not tried; where
    it did, there was nothing to do there.
    """
    codes = [EXIT_CODES[host.outcome] for host in hosts]
    return exit_codes.combine(codes if complete else [*codes, exit_codes.NOT_MEASURED])


def role_vars(stats: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return, by host, the role variables that the play itself set and reported.

    They are not the inventory's, and the assertions afterwards go by them. Raises UsageError for
    what is no mapping of hosts to variables.
    """
    reported = (stats.get("artifact_data") or {}).get(ROLE_VARS, {})
    if not isinstance(reported, Mapping) or not all(
        isinstance(variables, Mapping) for variables in reported.values()
    ):
        raise UsageError(
            f"set_stats {ROLE_VARS}: it is not {{host: {{variable: value}}}}; mend the play"
        )
    return {str(host): dict(variables) for host, variables in reported.items()}
