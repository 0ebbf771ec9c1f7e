"""What became of the assertions, host by host, and the exit code that follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from hwcheck import __version__, exit_codes
from hwcheck.results.run_folder import utc_now

FORMAT = 1
PASS, FAIL, INCONCLUSIVE, NOT_APPLICABLE = "pass", "fail", "inconclusive", "not applicable"
NO_REPORT = "its worker ended before it"


@dataclass(frozen=True)
class Assertion:
    """One assertion; ``outcome`` is pass, fail, inconclusive or not applicable, and why."""

    role: str
    variable: str
    element: str
    test: str
    outcome: str
    reason: str = ""
    duration_s: float = 0.0


@dataclass(frozen=True)
class HostState:
    """All assertions of a host. ``outcome`` is pass, fail or inconclusive, and why."""

    host: str
    outcome: str
    reason: str
    assertions: tuple[Assertion, ...]

    @classmethod
    def of(cls, host: str, assertions: Sequence[Assertion]) -> HostState:
        """Judge a host: one that was asserted nothing is inconclusive, never a pass."""
        counts = Counter(each.outcome for each in assertions)
        for outcome in (FAIL, INCONCLUSIVE):
            if counts[outcome]:
                first = next(each for each in assertions if each.outcome == outcome)
                return cls(host, outcome, first.reason, tuple(assertions))
        if counts[PASS]:
            return cls(host, PASS, "", tuple(assertions))
        reason = "no assertion applies to it"
        return cls(host, INCONCLUSIVE, reason, tuple(assertions))

    def summary(self) -> str:
        """Return one line: ``node01: fail (57 pass, 1 fail)``."""
        counts = Counter(each.outcome for each in self.assertions)
        order = (PASS, FAIL, INCONCLUSIVE, NOT_APPLICABLE)
        counts_text = ", ".join(
            f"{counts[outcome]} {outcome}" for outcome in order if counts[outcome]
        )
        return f"{self.host}: {self.outcome} ({counts_text or self.reason})"


@dataclass(frozen=True)
class StateRecord:
    """One run of assertions, as ``state.json`` has it. Times are UTC, ISO 8601."""

    inventory: str
    roles: tuple[str, ...]
    started: str
    outcome: str
    exit_code: int
    hosts: tuple[HostState, ...]
    finished: str = field(default_factory=utc_now)
    version: str = __version__
    format: int = FORMAT


def record(
    inventory: str, roles: tuple[str, ...], started: str, hosts: Sequence[HostState]
) -> StateRecord:
    """Judge the run: fail where a host fails, inconclusive where one is."""
    outcomes = {host.outcome for host in hosts}
    outcome = next((each for each in (FAIL, INCONCLUSIVE) if each in outcomes), PASS)
    return StateRecord(
        inventory, roles, started, outcome, exit_codes.BY_OUTCOME[outcome], tuple(hosts)
    )
