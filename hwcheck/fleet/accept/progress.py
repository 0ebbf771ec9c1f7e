"""How far each host is: which stages stand, which is next, what keeps it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hwcheck import exit_codes
from hwcheck.fleet.accept.criteria import Criteria
from hwcheck.fleet.accept.evidence import GOOD, NOT_MEASURED, Evidence, StageResult, worst
from hwcheck.fleet.accept.stages import STAGES, Stage

WAITING = "waiting"
"""The state of a stage that a host has not reached, or has to repeat."""

Identities = Mapping[str, Mapping[str, str]]
"""What tells parts from all others, by kind and subject."""


@dataclass(frozen=True)
class StageOfHost:
    """A stage of a host: ``state`` of the evidence, or WAITING and ``why``.

    ``runs`` is how many of it stand where the criteria want more.
    """

    stage: str
    state: str
    evidence: tuple[Evidence, ...] = ()
    why: str = ""
    runs: int = 0


@dataclass(frozen=True)
class HostProgress:
    """``next`` is the stage to run now, empty where all is done or ``blocked`` says what failed."""

    host: str
    stages: Mapping[str, StageOfHost]
    next: str = ""
    blocked: str = ""

    @property
    def accepted(self) -> bool:
        """Whether every stage stands and shows what is required."""
        return not self.next and not self.blocked


def progress(
    criteria: Criteria, hosts: Sequence[str], results: Sequence[StageResult]
) -> dict[str, HostProgress]:
    """Return how far each host is; ``results`` are all runs so far, the oldest first.

    A run over several hosts stands as long as every host that is ready for one took part.
    """
    single = [name for name in criteria.stages if not STAGES[name].over_hosts]
    over_hosts = [name for name in criteria.stages if STAGES[name].over_hosts]
    alone = {
        host: _of_host(criteria, HostProgress(host, {}), single, results, ()) for host in hosts
    }
    ready = [host for host in hosts if alone[host].accepted]
    return {
        host: _of_host(criteria, before, over_hosts, results, ready)
        for host, before in alone.items()
    }


def exit_code(hosts: Mapping[str, HostProgress], criteria: Criteria) -> int:
    """Return 0 where as many hosts as the criteria want are accepted, 1 where that cannot be."""
    accepted = sum(host.accepted for host in hosts.values())
    failed = sum(bool(host.blocked) for host in hosts.values())
    if accepted >= criteria.hosts_needed(len(hosts)):
        return exit_codes.PASS
    if len(hosts) - failed < criteria.hosts_needed(len(hosts)):
        return exit_codes.FAILED
    return exit_codes.NOT_MEASURED


def due(
    stage: Stage, hosts: Mapping[str, HostProgress], failed_before: Mapping[str, str]
) -> list[str]:
    """Return the hosts that get a stage now.

    Those whose next one it is, those that failed it in a former call (``failed_before``: host to
    stage) and may have been repaired since, and all where every call repeats it.
    """
    return [
        name
        for name, host in hosts.items()
        if host.next == stage.name
        or (host.blocked == stage.name and failed_before.get(name) == stage.name)
        or not stage.void_by
    ]


def _of_host(
    criteria: Criteria,
    before: HostProgress,
    names: Sequence[str],
    results: Sequence[StageResult],
    ready: Sequence[str],
) -> HostProgress:
    """Return how a host gets through these stages, each of which opens the next."""
    host = before.host
    stages, following, blocked = dict(before.stages), before.next, before.blocked
    of_host = [result for result in results if host in result.hosts]
    for name in names:
        if following or blocked:
            stages[name] = StageOfHost(name, WAITING)
            continue
        stages[name] = stage = _stage(criteria, name, host, of_host, ready)
        if stage.state in (WAITING, NOT_MEASURED):
            following = name
        elif stage.state not in GOOD:
            blocked = name
    return HostProgress(host, stages, following, blocked)


def _stage(
    criteria: Criteria,
    name: str,
    host: str,
    results: Sequence[StageResult],
    ready: Sequence[str],
) -> StageOfHost:
    """Return a stage of a host by its last runs, as many as the criteria want.

    A run that measured it counts, also beside one that was cut off, unless that was the last.
    """
    wanted = criteria.repeats if name == "collectives" else 1
    at_the_time = list(_parts_so_far(results, host))
    standing: list[StageResult] = []
    why = ""
    for result, then in zip(results, at_the_time, strict=True):
        if result.stage != name:
            continue
        exchanged = _exchanged(then, at_the_time[-1], STAGES[name].void_by)
        absent = sorted(set(ready) - set(result.hosts)) if STAGES[name].over_hosts else []
        if exchanged:
            why = f"exchanged since: {', '.join(exchanged)}"
        elif absent:
            why = f"ready since: {', '.join(absent[:4])}"
        else:
            standing.append(result)
    measured = [each for each in standing if each.hosts[host].state != NOT_MEASURED]
    last = (measured if measured and measured[-1] is standing[-1] else standing)[-wanted:]
    evidence = tuple(each for result in last for each in result.hosts[host].evidence)
    if not last:
        return StageOfHost(name, WAITING, why=why)
    state = worst(each.state for each in evidence)
    if len(last) < wanted and state in GOOD:
        why = f"{len(last)} of {wanted} runs"
        return StageOfHost(name, WAITING, evidence, why, len(last))
    return StageOfHost(name, state, evidence)


def _parts_so_far(results: Sequence[StageResult], host: str) -> Iterator[Identities]:
    """Yield, for each run, what is known of the host's parts by then, by kind and subject.

    A run that says nothing of a kind leaves what was known of it.
    """
    now: Identities = {}
    for result in results:
        visit_parts: dict[str, dict[str, str]] = {}
        for subject, part in result.hosts[host].parts.items():
            if part.identity:
                visit_parts.setdefault(kind_of(subject), {})[subject] = part.identity
        now = {**now, **visit_parts}
        yield now


def kind_of(subject: str) -> str:
    """Return the kind of a part: ``gpu`` of ``gpu3``, ``memory`` of ``memory DIMM_A1``."""
    return subject.partition(" ")[0].rstrip("0123456789")


def _exchanged(then: Identities, now: Identities, kinds: Sequence[str]) -> list[str]:
    """Return the parts of these kinds that are others now; of both what is known counts."""
    return sorted(
        subject
        for kind in kinds
        if then.get(kind) and now.get(kind)
        for subject in {*then[kind], *now[kind]}
        if then[kind].get(subject) != now[kind].get(subject)
    )
