"""What a run covered: what was asked, what was measured, what was left out and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hwcheck import exit_codes
from hwcheck.fold import fold
from hwcheck.judge.records import HostVerdict, Judgement, worst
from hwcheck.text import count, line

SHOWN = 6


@dataclass(frozen=True)
class Gap:
    """Checks that some hosts gave no samples of, with one reason.

    Without ``applies`` the hosts have no such hardware: that is no lack. Without ``judged``
    ``checks`` are metrics (``check.metric``) that were measured and that the site wants ignored,
    and ``reason`` is its source: no lack either.
    """

    checks: tuple[str, ...]
    hosts: tuple[str, ...]
    reason: str
    applies: bool
    judged: bool = True

    def __str__(self) -> str:
        """Return it in words: ``gpu_count, xid on node[01-02]: reason``."""
        more = f" and {len(self.checks) - SHOWN} more" if len(self.checks) > SHOWN else ""
        what = ", ".join(line(check, 60) for check in self.checks[:SHOWN]) + more
        return f"{what} on {fold(self.hosts)}: {line(self.reason, 160)}"


def gaps(judgement: Judgement) -> tuple[Gap, ...]:
    """Return what was not measured or not judged, equal reasons folded.

    First comes what applies, then what most hosts lack.
    """
    by_reason: dict[tuple[bool, bool, str], dict[str, list[str]]] = {}
    for host in judgement.hosts:
        open_checks = dict(host.unmeasured)
        for check, reason in host.skipped:
            checks_by_host = by_reason.setdefault((check in open_checks, True, line(reason)), {})
            checks_by_host.setdefault(host.host, []).append(check)
        for metric, source in host.not_judged:
            metrics_by_host = by_reason.setdefault((False, False, line(source)), {})
            metrics_by_host.setdefault(host.host, []).append(metric)
    folded = []
    for (applies, judged, reason), by_host in by_reason.items():
        by_checks: dict[tuple[str, ...], list[str]] = {}
        for name, checks in by_host.items():
            by_checks.setdefault(tuple(checks), []).append(name)
        folded += [
            Gap(checks, tuple(hosts), reason, applies, judged)
            for checks, hosts in by_checks.items()
        ]
    return tuple(sorted(folded, key=lambda gap: (not gap.applies, -len(gap.hosts))))


def require(judgement: Judgement, percent: float) -> Judgement:
    """Return the judgement of a run of which so much had to be measured, on every host.

    Where it was not, a run that did not fail could not be measured (exit code 3), and
    ``shortfall`` says in one line what was not covered. Hosts are not averaged: one that gave
    nothing is not made up for by a thousand others.
    """
    short = [host for host in judgement.hosts if not _is_covered(host, percent)]
    if not short:
        return replace(judgement, required_percent=percent)
    outcome = worst((judgement.outcome, "inconclusive"))
    return replace(
        judgement,
        outcome=outcome,
        exit_code=exit_codes.BY_OUTCOME[outcome],
        required_percent=percent,
        shortfall=_shortfall(judgement, short, percent),
    )


def _is_covered(host: HostVerdict, percent: float) -> bool:
    """Whether enough of what applies was measured; where nothing applies, nothing was."""
    return host.asked > 0 and 100 * host.measured >= percent * host.asked


def _shortfall(judgement: Judgement, short: Sequence[HostVerdict], percent: float) -> str:
    names = {host.host for host in short}
    lacking = replace(judgement, hosts=tuple(short))
    named = [str(gap) for gap in gaps(lacking) if gap.applies]
    nothing = [host.host for host in short if host.asked == 0]
    if nothing:
        named.append(f"no check applies to {fold(nothing)}")
    explained = {name for gap in gaps(lacking) if gap.applies for name in gap.hosts} | set(nothing)
    if names - explained:
        named.append(f"no part in the runs over several hosts by {fold(names - explained)}")
    more = f"; and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    return (
        f"below the required coverage of {percent:g} % on {count(len(short), 'host')}: not "
        f"measured: {'; '.join(named[:SHOWN])}{more}"
    )


def percent_of(hosts: Iterable[HostVerdict]) -> float | None:
    """Return how much of what applies was measured, in percent; None where nothing applies.

    It is rounded down: only what is whole is 100.
    """
    verdicts = list(hosts)
    asked = sum(host.asked for host in verdicts)
    return int(1000 * sum(host.measured for host in verdicts) / asked) / 10 if asked else None
