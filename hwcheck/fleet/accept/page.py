"""An acceptance as its people see it: the table of hosts by stages, and the record's page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rich.console import Group, RenderableType
from rich.text import Text

from hwcheck.advise.catalogue import Catalogue
from hwcheck.contract.check import Check
from hwcheck.fleet.accept.criteria import Criteria, Requirement
from hwcheck.fleet.accept.estimate import StageEstimate
from hwcheck.fleet.accept.evidence import (
    MET,
    NOT_APPLICABLE,
    NOT_MEASURED,
    NOT_MET,
    OTHER,
    STATES,
    WAIVED,
    Evidence,
    InstalledPart,
    LimitUsed,
    StageResult,
    worst,
)
from hwcheck.fleet.accept.progress import WAITING, HostProgress, exit_code, kind_of
from hwcheck.fleet.accept.stages import STAGES, STATE
from hwcheck.fold import fold
from hwcheck.report.history import table
from hwcheck.report.report import environment
from hwcheck.report.wrap import Wrapped
from hwcheck.text import count, length, line

STYLES = {
    NOT_MET: "bold red",
    NOT_MEASURED: "magenta",
    WAIVED: "yellow",
    MET: "green",
    NOT_APPLICABLE: "dim",
    WAITING: "dim",
}
CLASSES = {
    NOT_MET: "fail",
    NOT_MEASURED: "inconclusive",
    WAIVED: "warn",
    MET: "pass",
    NOT_APPLICABLE: "quiet",
    WAITING: "quiet",
}
REFRESH_S = 10
BAD = (NOT_MET, NOT_MEASURED)


@dataclass(frozen=True)
class RequirementRow:
    """One requirement over all hosts: the hosts by state, and what shows it on some of them."""

    id: str
    text: str
    source: str
    stage: str
    checks: str
    same_as: str
    state: str
    hosts: Mapping[str, str]
    shown: Sequence[tuple[str, str, str]]


def verdict(hosts: Mapping[str, HostProgress], criteria: Criteria) -> str:
    """Return in one line how the acceptance stands."""
    accepted = [name for name, host in hosts.items() if host.accepted]
    blocked = [name for name, host in hosts.items() if host.blocked]
    left = [name for name, host in hosts.items() if host.next]
    needed = criteria.hosts_needed(len(hosts))
    done = len(accepted) >= needed
    parts = ["an exercise, no acceptance"] if criteria.exercise else []
    parts += [
        "accepted" if done else "not accepted" if len(hosts) - len(blocked) < needed else "open",
        f"{len(accepted)} of {count(len(hosts), 'host')} meet every requirement, {needed} must",
    ]
    parts += [f"not met by {fold(blocked)}"] if blocked else []
    parts += [f"stages left on {fold(left)}"] if left else []
    return "; ".join(parts)


def status(
    hosts: Mapping[str, HostProgress],
    criteria: Criteria,
    left: Sequence[StageEstimate],
    checks: Mapping[str, Check],
    running: str = "",
) -> RenderableType:
    """Return the table of hosts by stages, what failed, and how long what is left takes.

    ``running`` says which stage is under way, and whose call that is.
    """
    lines = table("Host", *criteria.stages, whole=("Host",))
    for name, host in hosts.items():
        lines.add_row(line(name, 80), *(_cell(host, stage) for stage in criteria.stages))
    parts: list[RenderableType] = [Wrapped(verdict(hosts, criteria))]
    parts += [Wrapped(f"Running: {running}")] if running else []
    parts.append(lines)
    for row in rows(criteria, hosts):
        if row.state in BAD:
            for state, folded, text in row.shown:
                if state in BAD:
                    parts.append(Wrapped(f"{row.id} {state} on {folded}: {text}", indent=3))
                    to_do = remedy(checks, state, row.stage, text)
                    parts += [Wrapped(f"to do: {to_do}", indent=6)] if to_do else []
    if left:
        total = sum(each.seconds for each in left)
        parts.append(Wrapped(f"Left: {length(total)}: " + "; ".join(map(_in_words, left))))
    return Group(*parts)


def remedy(checks: Mapping[str, Check], state: str, stage: str, text: str) -> str:
    """Return what to do about evidence: what the check that it names knows of its failures."""
    if state != NOT_MET:
        return ""
    if stage == STATE:
        return "hwcheck provision, which makes a host what the roles' variables say"
    check = checks.get(text.partition(":")[0])
    return check.remedy.fix if check else ""


def _cell(host: HostProgress, stage: str) -> Text:
    state = host.stages[stage].state
    next_one = host.next == stage
    return Text("next" if next_one and state == WAITING else state, style=STYLES[state])


def _in_words(each: StageEstimate) -> str:
    return f"{each.stage} {length(each.seconds)} ({count(each.hosts, 'host')}, {each.by})"


def explanation(
    criteria: Criteria,
    hosts: Sequence[str],
    expected: Sequence[StageEstimate],
    left: Sequence[StageEstimate] = (),
) -> RenderableType:
    """Return what an acceptance does, how long it takes and by what; ``left`` is of one begun."""
    total = sum(each.seconds for each in expected)
    parts: list[RenderableType] = [
        Wrapped(
            f"{criteria.name}: {count(len(hosts), 'host')} ({fold(hosts)}), by "
            f"{criteria.source}; about {length(total)}"
        )
    ]
    if left:
        seconds = sum(each.seconds for each in left)
        parts.append(Wrapped(f"Left: {length(seconds)}: " + "; ".join(map(_in_words, left))))
    by_stage = {each.stage: each for each in expected}
    for name in criteria.stages:
        times = f", {count(criteria.repeats, 'time')}" if name == "collectives" else ""
        takes = (
            f": {length(by_stage[name].seconds)}, {by_stage[name].by}" if name in by_stage else ""
        )
        parts.append(Wrapped((f"{name}", "bold"), f" {STAGES[name].doc}{times}{takes}"))
        for requirement in criteria.of_stage(name):
            shown = ", ".join(_names(requirement)) or "the run over hosts"
            parts.append(
                Wrapped(
                    f"{requirement.id}: {requirement.text} ({requirement.source}; {shown})",
                    indent=3,
                )
            )
    for each in criteria.not_shown:
        parts.append(Wrapped(f"not measured: {each.id}: {each.text}: {each.why}", indent=3))
    parts.append(
        Wrapped(
            "It needs: nodes without jobs (a node at work is not loaded), torch in each node's "
            "environment for collectives and load, at least two hosts for pairs, rails and all."
        )
    )
    return Group(*parts)


def _names(requirement: Requirement) -> list[str]:
    return list(dict.fromkeys([*requirement.checks, *(f.check for f in requirement.figures)]))


def rows(criteria: Criteria, hosts: Mapping[str, HostProgress]) -> list[RequirementRow]:
    """Return every requirement with what shows it, in the order of the criteria."""
    by_id: dict[tuple[str, str], list[Evidence]] = {}
    for host in hosts.values():
        for of_stage in host.stages.values():
            for each in of_stage.evidence:
                by_id.setdefault((of_stage.stage, each.requirement), []).append(each)
    made = []
    for stage in criteria.stages:
        requirements = {each.id: each for each in criteria.of_stage(stage)}
        ids = [*requirements, *(i for s, i in by_id if s == stage and i not in requirements)]
        for name in ids:
            of_hosts = by_id.get((stage, name), [])
            states = {
                host: worst(each.state for each in of_hosts if each.host == host)
                if any(each.host == host for each in of_hosts)
                else WAITING
                for host in hosts
            }
            requirement = requirements.get(name) or _unnamed(name, stage)
            made.append(
                RequirementRow(
                    id=name,
                    text=requirement.text,
                    source=requirement.source,
                    stage=stage,
                    checks=", ".join(_names(requirement)),
                    same_as=", ".join(requirement.same_as),
                    state=_worst(states.values()),
                    hosts=_folded(states),
                    shown=_shown(of_hosts, states),
                )
            )
    return made


def _unnamed(name: str, stage: str) -> Requirement:
    if name == OTHER:
        return Requirement(OTHER, "every other check of the stage passes", "hwcheck", stage)
    return Requirement(
        name, "the GPUs are of the model that the criteria are for", "hwcheck", stage
    )


def _worst(states: Iterable[str]) -> str:
    order = (NOT_MET, NOT_MEASURED, WAITING, WAIVED, MET, NOT_APPLICABLE)
    return min(states, key=order.index)


def _folded(states: Mapping[str, str]) -> dict[str, str]:
    order = (*STATES, WAITING)
    return {
        state: fold(host for host, its in states.items() if its == state)
        for state in order
        if state in states.values()
    }


def _shown(of_hosts: Sequence[Evidence], states: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return what shows a requirement: equal words of several hosts once, the worst first."""
    groups: dict[tuple[str, str], list[str]] = {}
    for each in of_hosts:
        if each.state == states[each.host]:
            hosts = groups.setdefault((each.state, each.text), [])
            if each.host not in hosts:
                hosts.append(each.host)
    ordered = sorted(groups, key=lambda key: STATES.index(key[0]))
    return [(state, fold(groups[state, text]), text) for state, text in ordered]


def acceptance_page(
    title: Mapping[str, str],
    criteria: Criteria,
    hosts: Mapping[str, HostProgress],
    results: Sequence[StageResult],
    catalogue: Catalogue,
    left: Sequence[StageEstimate] = (),
    *,
    running: str = "",
    signature: bool = False,
) -> str:
    """Return the page; while a stage is ``running`` a browser loads it again.

    With ``signature`` there is room for signatures.
    """
    parts: dict[str, dict[str, InstalledPart]] = {}
    software: dict[str, dict[str, str]] = {}
    for result in results:
        for name, host in result.hosts.items():
            former = parts.get(name, {})
            if host.parts:
                parts[name] = {
                    subject: _whole(part, former.get(subject))
                    for subject, part in {**_lasting(former), **host.parts}.items()
                }
            software.setdefault(name, {}).update(host.software)
    template = environment("html", catalogue.templates).get_template("acceptance.html.j2")
    return template.render(
        title=title,
        criteria=criteria,
        verdict=verdict(hosts, criteria),
        exit_code=exit_code(hosts, criteria),
        hosts=hosts,
        rows=[_for_record(row) if signature else row for row in rows(criteria, hosts)],
        stages={name: STAGES[name] for name in criteria.stages},
        stage_classes=CLASSES,
        waiting=WAITING,
        remedy=partial(remedy, catalogue.checks),
        parts=parts,
        limits=_limits(criteria, results),
        software=_by_versions(software),
        results=results,
        left=[_in_words(each) for each in left],
        total=length(sum(each.seconds for each in left)) if left else "",
        running=running,
        refresh_s=REFRESH_S,
        signature=signature,
    )


def _for_record(row: RequirementRow) -> RequirementRow:
    """Return a row as it is signed: what was not reached is not measured."""
    return replace(row, state=NOT_MEASURED) if row.state == WAITING else row


def _limits(
    criteria: Criteria, results: Sequence[StageResult]
) -> list[tuple[list[str], LimitUsed]]:
    """Return each limit once, with the stages that held figures against it, in their order."""
    stages: dict[LimitUsed, dict[str, None]] = {}
    for stage in criteria.stages:
        for result in results:
            for limit in result.limits if result.stage == stage else ():
                stages.setdefault(limit, {})[stage] = None
    return [(list(of_it), limit) for limit, of_it in stages.items()]


def _by_versions(software: Mapping[str, Mapping[str, str]]) -> list[tuple[str, dict[str, str]]]:
    """Return hosts that have the same versions as one line each: their folded names, versions."""
    hosts: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, versions in software.items():
        if versions:
            hosts.setdefault(tuple(versions.items()), []).append(name)
    return [(fold(names), dict(versions)) for versions, names in hosts.items()]


def _lasting(parts: Mapping[str, InstalledPart]) -> dict[str, InstalledPart]:
    """Return the parts that a visit without an inventory says nothing of: all but GPUs."""
    return {subject: part for subject, part in parts.items() if kind_of(subject) != "gpu"}


def _whole(part: InstalledPart, former: InstalledPart | None) -> InstalledPart:
    """Return a part with what an earlier visit knew of the same one."""
    if former is None or former.identity != part.identity:
        return part
    return replace(
        part,
        **{
            name: getattr(part, name) or getattr(former, name)
            for name in ("model", "number", "serial", "firmware", "place")
        },
    )
