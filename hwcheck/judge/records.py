"""The records that judging produces. Pure data: no host, no file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from hwcheck.contract.reasons import NONE, Reason, remark
from hwcheck.contract.wire import Value
from hwcheck.results.site_limits import ABSENT
from hwcheck.results.waivers import Waiver

OUTCOMES = ("fail", "inconclusive", "warn", "pass")
"""Worst first: a host's outcome is the first that any of its findings has; listings follow it."""

MULTI_HOST = "group"
"""What findings of the runs over several hosts are listed under; no check has this name."""

TRAINING = "training"
"""What findings of a training benchmark are listed under; no check has this name either."""

BESIDE_CHECKS = (MULTI_HOST, TRAINING)
"""Each counts as one check of a host that took part."""


def worst(outcomes: Iterable[str]) -> str:
    """Return the worst of some outcomes; pass when there are none."""
    return min(set(outcomes), key=OUTCOMES.index, default="pass")


class Finding(NamedTuple):
    """A judged sample, or the reason why there is none. A tuple: a large run has millions.

    ``value`` and ``limit`` are empty where nothing was measured (``inconclusive``). ``limit`` is
    the limit in words with its reference figure; ``source`` and ``confidence`` say where it comes
    from. ``reason`` is why nothing was measured, or what a failure means in the node's words.
    ``wanted`` is what the value had to equal, where it is held against one, or ``NoMajority``;
    ``fail_at`` and ``warn_at`` are the borders of a number, in its unit. ``waived`` is why the site
    bears it and until when: then it does not count (``counted``). ``figures`` are what was measured
    of what was wanted, and by how much it is off, of a finding that is no pass: ``8 of 16 lanes``,
    ``41 of 470 GB/s, 9 %`` (``judge.figures``). ``basis`` is one of ``BASES``: what the limit rests
    on, where that decides something.
    """

    host: str
    check: str
    outcome: str
    metric: str = ""
    subject: str = "node"
    value: Value | None = None
    unit: str = ""
    limit: str = ""
    source: str = ""
    confidence: str = ""
    reason: Reason = NONE
    wanted: Value | None = None
    fail_at: float | None = None
    warn_at: float | None = None
    waived: str = ""
    figures: str = ""
    basis: str = ""

    @property
    def is_held_against_one(self) -> bool:
        """Whether there is one value that it had to equal."""
        return self.wanted is not None and not isinstance(self.wanted, NoMajority)


OWN_PAST, PEERS, NEIGHBORS = "own_past", "peers", "neighbors"
PCIE, SHARP = "pcie", "nvlink_sharp"
BASES = (OWN_PAST, PEERS, NEIGHBORS, PCIE, SHARP)
"""What a limit rests on: the subject's former runs, like hosts, the other GPUs of the node, and of
a bandwidth that links foretell those that bound it: PCIe or host memory, NVLink SHARP. Empty: what
is declared, published or known of the metric, which decides nothing."""

UNLIKE = "warn unless like its neighbors:"
"""So begins the limit of a warning that a GPU is unlike the others of its node."""


class NoMajority(str):
    """What hosts give where most are not alike, in words; ``values`` are the most common of it."""

    values: tuple[Value, ...]

    def __new__(cls, text: str, values: tuple[Value, ...]) -> NoMajority:
        """Make one."""
        made = super().__new__(cls, text)
        made.values = values
        return made


def unmeasured(host: str, check: str, reason: Reason, subject: str = "node") -> Finding:
    """Return the finding that something could not be measured."""
    return Finding(host, check, "inconclusive", subject=subject, reason=reason)


def absent(
    host: str,
    check: str,
    subject: str,
    *,
    limit: str,
    source: str,
    reason: str,
    basis: str = "",
) -> Finding:
    """Return the warning that something is not there which others like it have."""
    return Finding(
        host=host,
        check=check,
        outcome="warn",
        metric=ABSENT,
        subject=subject,
        value=True,
        limit=limit,
        source=source,
        confidence="derived",
        reason=remark(reason),
        basis=basis,
    )


def counted(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that decide: all but those that the site bears for a time."""
    return [finding for finding in findings if not finding.waived]


@dataclass(frozen=True)
class WaiverUse:
    """What became of a waiver in a run.

    ``state`` is ``holds`` where findings of ``hosts`` are under it, ``ended`` where there are such
    and its last day is over, so that they count, and ``removable`` where none of ``hosts``, which
    have it, has anything to waive.
    """

    waiver: Waiver
    state: str
    hosts: tuple[str, ...]


def complaints(findings: Iterable[Finding]) -> dict[str, set[str]]:
    """Return the subjects that did not pass, by check."""
    subjects: dict[str, set[str]] = {}
    for finding in findings:
        if finding.outcome != "pass":
            subjects.setdefault(finding.check, set()).add(finding.subject)
    return subjects


@dataclass(frozen=True)
class HostVerdict:
    """One host: its worst outcome and what was covered.

    ``asked`` counts the applicable checks that were asked for, ``measured`` those that gave
    samples; the runs over several hosts count as one. ``skipped`` maps the checks without samples
    to the reason (not applicable, busy, could not measure, lost), ``unmeasured`` those of them that
    apply. ``not_judged`` maps metrics (``check.metric``) that the site wants ignored to its source.
    ``reason`` says in one line why the outcome is not ``pass``. ``waived`` counts what the
    site bears for a time, by check and subject: the outcome is that of the rest.
    """

    host: str
    outcome: str
    state: str
    reason: str
    asked: int
    measured: int
    not_applicable: int
    skipped: tuple[tuple[str, str], ...] = ()
    unmeasured: tuple[tuple[str, str], ...] = ()
    not_judged: tuple[tuple[str, str], ...] = ()
    waived: int = 0


@dataclass(frozen=True)
class Judgement:
    """A judged run. ``exit_code`` is 0, 1 or 3 as in the README; hosts are in inventory order.

    ``required_percent`` is how much had to be measured, None where nobody said; ``shortfall``
    says in one line what was not. ``fabric`` are lines on what connects groups of hosts and is
    bad: the run fails by them, and no host does. ``waivers`` are those of the inventory that are in
    use, over or of no use, as far as the run tells.
    """

    outcome: str
    exit_code: int
    hosts: tuple[HostVerdict, ...]
    findings: tuple[Finding, ...]
    required_percent: float | None = None
    shortfall: str = ""
    waivers: tuple[WaiverUse, ...] = ()
    fabric: tuple[str, ...] = ()

    @cached_property
    def by_host(self) -> Mapping[str, Sequence[Finding]]:
        """The findings of each host that has any."""
        by_host: dict[str, list[Finding]] = {}
        for host, findings in groupby(self.findings, key=attrgetter("host")):
            by_host.setdefault(host, []).extend(findings)
        return by_host

    @cached_property
    def not_passed(self) -> Sequence[Finding]:
        """The findings that did not pass: a few in a thousand, where hosts are well."""
        return [finding for finding in self.findings if finding.outcome != "pass"]

    @property
    def asked(self) -> int:
        """Applicable checks asked for, over all hosts."""
        return sum(host.asked for host in self.hosts)

    @property
    def measured(self) -> int:
        """Checks that gave samples, over all hosts."""
        return sum(host.measured for host in self.hosts)
