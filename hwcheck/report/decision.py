"""What becomes of the hosts of a run, in one line and in groups.

``Drain node[02-03]; 59 may go into service; 2 unreachable.`` It is the same in every report: whom
to drain, who may work, of whom nothing is known and why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hwcheck.advise.visits import alike
from hwcheck.checks import ON_DEMAND
from hwcheck.contract.check import Check
from hwcheck.fold import fold
from hwcheck.judge.records import HostVerdict, Judgement
from hwcheck.report.words import gpu_names, has_exercise
from hwcheck.results.multi_host import FABRIC
from hwcheck.results.run_folder import HostRecord, Run
from hwcheck.text import count, line

NAMES_CHARACTERS = 60
"""Longer names of hosts stand in the list below the line, which gives their number."""
MOST_REASONS = 8


@dataclass(frozen=True)
class DecisionKind:
    """What becomes of a host: the sign and the word of its group, and how the line puts it."""

    outcome: str
    word: str
    phrase: str


KINDS = {
    "drain": DecisionKind("fail", "drain", "drain {names}"),
    "service": DecisionKind("pass", "may go into service", "{amount} may go into service"),
    "service_warned": DecisionKind(
        "warn", "may go into service, with warnings", "{amount} may, with warnings"
    ),
    "asked": DecisionKind("pass", "passed what was asked", "{amount} passed what was asked"),
    "asked_warned": DecisionKind(
        "warn", "passed what was asked, with warnings", "{amount} did, with warnings"
    ),
    "unproven": DecisionKind("inconclusive", "not proven", "not proven: {names}"),
    "unreachable": DecisionKind("inconclusive", "unreachable", "{amount} unreachable"),
    "not_visited": DecisionKind("inconclusive", "not visited", "{amount} not visited"),
}
"""In the order in which a run says it. ``asked``: not all was asked that is asked by default, or
the host has no GPU, so nobody can say that it may go into service."""
ALONE = {
    "service_warned": "{amount} may go into service, with warnings",
    "asked_warned": "{amount} passed what was asked, with warnings",
}
"""How the line puts it where nothing before it says what they may, or did."""


@dataclass(frozen=True)
class HostGroup:
    """Hosts of which the same becomes; ``reasons`` are why nothing is known, with folded names."""

    kind: str
    hosts: tuple[str, ...]
    reasons: tuple[tuple[str, str], ...] = ()

    @property
    def outcome(self) -> str:
        """The outcome whose sign and color it has."""
        return KINDS[self.kind].outcome

    @property
    def word(self) -> str:
        """What becomes of them."""
        return KINDS[self.kind].word

    @property
    def names(self) -> str:
        """The hosts, folded."""
        return fold(self.hosts)


def decide(run: Run, judgement: Judgement, checks: Mapping[str, Check]) -> tuple[HostGroup, ...]:
    """Return what becomes of every host: each is in one group, in the order of ``KINDS``."""
    records = {record.host: record for record in run.records}
    whole = _asks_all(run.meta.checks, checks)
    hosts: dict[str, list[str]] = {}
    for verdict in judgement.hosts:
        kind = _kind(verdict, records[verdict.host], whole=whole)
        hosts.setdefault(kind, []).append(verdict.host)
    return tuple(
        HostGroup(
            kind, tuple(hosts[kind]), _reasons(run, hosts[kind]) if kind == "unreachable" else ()
        )
        for kind in KINDS
        if kind in hosts
    )


def decision(groups: Sequence[HostGroup], fabric: Sequence[str] = ()) -> str:
    """Return what becomes of the hosts in one line, and of the ``fabric`` between them.

    ``fabric`` are those lines of a judgement.
    """
    parts, kinds = [], {group.kind for group in groups}
    for group in groups:
        phrase = KINDS[group.kind].phrase
        if group.kind in ALONE and group.kind.removesuffix("_warned") not in kinds:
            phrase = ALONE[group.kind]
        amount = len(group.hosts)
        short = len(group.names) <= NAMES_CHARACTERS
        names = group.names if short else count(amount, "host")
        parts.append(phrase.format(amount=amount, names=names))
    if fabric:
        parts.append(f"mend {_between(fabric)}")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _between(fabric: Sequence[str]) -> str:
    """Return whose fabric it is: ``the fabric between node[01-04] and node[05-08]``."""
    places = dict.fromkeys(text[text.find(FABRIC) :].partition(": ")[0] for text in fabric)
    if len(places) > 1 or any(len(place) > 2 * NAMES_CHARACTERS for place in places):
        return f"{FABRIC} groups of hosts"
    return line(next(iter(places)), 2 * NAMES_CHARACTERS)


def _asks_all(asked: Sequence[str], checks: Mapping[str, Check]) -> bool:
    """Whether all was asked that is asked by default: every check, and a collective at least."""
    usual = [check for name, check in checks.items() if name not in ON_DEMAND]
    return {check.id for check in usual if not check.legs} <= set(asked) and any(
        check.id in asked for check in usual if check.legs
    )


def _kind(verdict: HostVerdict, record: HostRecord, *, whole: bool) -> str:
    if verdict.outcome == "fail":
        return "drain"
    if verdict.outcome == "inconclusive":
        return record.state if record.state in KINDS else "unproven"
    kind = "service" if whole and gpu_names(record) and not has_exercise(record) else "asked"
    return f"{kind}_warned" if verdict.outcome == "warn" else kind


def _reasons(run: Run, hosts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return why hosts gave nothing, those of one reason but for names and numbers together."""
    wanted = set(hosts)
    by_kind: dict[tuple[str, str], list[HostRecord]] = {}
    for plan, record in zip(run.meta.hosts, run.records, strict=True):
        if record.host in wanted:
            kind = (record.phase, alike(record.reason.text, (record.host, plan.address)))
            by_kind.setdefault(kind, []).append(record)
    order = sorted(by_kind.values(), key=lambda records: -len(records))
    texts = [
        (_why(records), fold(record.host for record in records)) for records in order[:MOST_REASONS]
    ]
    left = [record.host for records in order[MOST_REASONS:] for record in records]
    return (*texts, *([("for other reasons", fold(left))] if left else []))


def _why(records: Sequence[HostRecord]) -> str:
    first = records[0]
    like = ", and alike" if any(record.reason != first.reason for record in records) else ""
    where = "" if first.reason.text.startswith(first.phase) else f"{first.phase}: "
    return line(f"{where}{first.reason}", 200) + like
