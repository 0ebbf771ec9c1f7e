"""Findings that the site bears for a time: marked, and what became of each waiver. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hwcheck.judge.host_case import HostCase
from hwcheck.judge.records import Finding, WaiverUse
from hwcheck.results.waivers import Waiver

BORNE = ("fail", "warn")
"""What can be waived. What could not be measured is not known, so nobody can bear it."""
LOOKED_AT = ("done", "not_applicable")
"""States of an answer in which a check would have complained."""


@dataclass(frozen=True)
class _OnHost:
    """A waiver on one host: whether a finding is under it, and whether one could have been."""

    waiver: Waiver
    host: str
    used: bool
    looked_at: bool


def waive(
    hosts: Sequence[HostCase], findings: Sequence[list[Finding]]
) -> tuple[list[list[Finding]], tuple[WaiverUse, ...]]:
    """Return the findings of each host, those under a waiver marked, and what became of each.

    A waiver holds by the day on which the run began.
    """
    marked, uses = [], list[_OnHost]()
    for host, of_host in zip(hosts, findings, strict=True):
        waivers = host.plan.waivers
        if not waivers:  # as on most hosts, and a large run has millions of findings
            marked.append(of_host)
            continue
        marked.append([_marked(each, waivers, host.started) for each in of_host])
        uses += [
            _OnHost(
                waiver,
                host.name,
                used=any(_is_under(each, waiver) for each in of_host),
                looked_at=_was_looked_at(host, waiver.check),
            )
            for waiver in dict.fromkeys(waivers)
        ]
    started = hosts[0].started if hosts else ""
    return marked, tuple(_folded(uses, started))


def _marked(finding: Finding, waivers: Iterable[Waiver], started: str) -> Finding:
    if finding.outcome not in BORNE:
        return finding
    for waiver in waivers:
        if _is_under(finding, waiver) and waiver.holds_at(started):
            return finding._replace(waived=waiver.why)
    return finding


def _is_under(finding: Finding, waiver: Waiver) -> bool:
    return finding.outcome in BORNE and waiver.is_about(finding.check, finding.subject)


def _was_looked_at(host: HostCase, check: str) -> bool:
    """Whether the check would have found something: it was measured, or does not apply."""
    answer = host.answers.get(check)
    return check in host.checks and answer is not None and answer.state in LOOKED_AT


def _folded(uses: Iterable[_OnHost], started: str) -> Iterator[WaiverUse]:
    """Yield each waiver once: one of a group is removable where no host of the run has use of it.

    Of one whose check was not asked, or not answered, nothing is known and nothing said.
    """
    by_waiver: dict[Waiver, list[_OnHost]] = {}
    for use in uses:
        by_waiver.setdefault(use.waiver, []).append(use)
    for waiver, of_hosts in by_waiver.items():
        used = tuple(use.host for use in of_hosts if use.used)
        if used:
            yield WaiverUse(waiver, "holds" if waiver.holds_at(started) else "ended", used)
        elif all(use.looked_at for use in of_hosts):
            yield WaiverUse(waiver, "removable", tuple(use.host for use in of_hosts))
