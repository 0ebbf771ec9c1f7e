"""One sweep from its state to the next: what is known when it begins, and what is kept. Pure."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hwcheck.exit_codes import NOT_MEASURED, PASS, combine
from hwcheck.fleet.sweep.availability import AWAY, States
from hwcheck.fleet.sweep.candidates import VisitHistory
from hwcheck.fleet.sweep.levels import Level
from hwcheck.fleet.sweep.state import Finished, SweepState, UnderWay, as_text, parsed
from hwcheck.fleet.sweep.visits import PastVisit
from hwcheck.fold import fold
from hwcheck.results.run_folder import HostRecord
from hwcheck.scheduler.records import UNKNOWN, NodeState
from hwcheck.text import count, line
from hwcheck.times import length_text


def under_way(
    state: SweepState, key: str, now: datetime, budget_s: float, *, beside_jobs: bool = False
) -> tuple[UnderWay, str]:
    """Return the sweep that goes on or begins now, and what there is to say of the one before.

    One that was cut off goes on until its budget ends. A clock that was set back, or far forward,
    ends it: nobody can say how much of its budget is left. A night does not go on with a sweep
    beside jobs, whose budget is of minutes, nor such a sweep with a night, which waits for its own.
    """
    left = state.under_way
    stamp = as_text(now).replace("-", "").replace(":", "")
    new = UnderWay(
        f"{key}.{stamp}-{secrets.token_hex(3)}",
        as_text(now),
        as_text(now + timedelta(seconds=budget_s)),
        beside_jobs,
    )
    if left is None or left.beside_jobs != beside_jobs:
        return new, ""
    if parsed(left.began) > now:
        return new, f"the clock was set back: the sweep that began at {left.began} is over"
    if parsed(left.ends) <= now:
        return new, f"the sweep that began at {left.began} was cut off; its budget is over"
    return left, f"goes on with the sweep that began at {left.began}, until {left.ends}"


def visit_history(
    state: SweepState, hosts: Iterable[str], visits: Iterable[PastVisit], states: States
) -> VisitHistory:
    """Return what is known of the hosts; ``states`` is what the scheduler says of them now."""
    of_host: dict[str, list[PastVisit]] = {host: [] for host in hosts}
    for visit in visits:
        if visit.host in of_host:
            of_host[visit.host].append(visit)
    return VisitHistory(
        of_host,
        waiting={host: parsed(at) for host, at in state.waiting.items()},
        first_seen={host: parsed(at) for host, at in state.first_seen.items()},
        back={
            host: f"it was {why} before"
            for host, why in state.away.items()
            if host in of_host and states.get(host, NodeState()).state not in (*AWAY, UNKNOWN)
        },
    )


def visits_in(sweep: str, level: Level, visits: Iterable[PastVisit]) -> list[PastVisit]:
    """Return the visits of a sweep at a level.

    But for visits that were cut off, or given up for a job.
    """
    return [
        visit
        for visit in visits
        if visit.sweep == sweep
        and visit.level == level.name
        and not visit.cut_off
        and not visit.given_up
    ]


def with_hosts(state: SweepState, hosts: Sequence[str], now: datetime) -> tuple[SweepState, str]:
    """Return the state with the hosts of the inventory and no others, and which are gone."""
    gone = [host for host in state.first_seen if host not in set(hosts)]
    at = as_text(now)
    state = replace(
        state,
        first_seen={host: min(state.first_seen.get(host, at), at) for host in hosts},
        waiting={host: since for host, since in state.waiting.items() if host not in gone},
        away={host: why for host, why in state.away.items() if host not in gone},
        undrained={host: why for host, why in state.undrained.items() if host not in gone},
    )
    return state, f"no longer in the inventory: {named(gone)}" if gone else ""


@dataclass(frozen=True)
class LevelResult:
    """What became of a level in a sweep.

    ``due`` are its hosts, ``visits`` those that were visited, ``refused`` those of them that said
    themselves that somebody is at work on them, ``kept_out`` those that the scheduler had at work,
    drained or down, and ``late`` those that were not measured for too long, with how long that is
    in seconds. ``late_links`` maps hosts to which of their links were not.
    """

    level: Level
    due: tuple[str, ...]
    visits: tuple[PastVisit, ...] = ()
    refused: tuple[str, ...] = ()
    kept_out: States = field(default_factory=dict)
    exit_code: int = 0
    late: Mapping[str, float] = field(default_factory=dict)
    late_links: Mapping[str, str] = field(default_factory=dict)

    @property
    def busy(self) -> tuple[str, ...]:
        """Hosts on which somebody was at work, by the scheduler's word or the node's own."""
        return (
            *(h for h, state in self.kept_out.items() if state.state not in AWAY),
            *self.refused,
        )

    @property
    def measured(self) -> tuple[str, ...]:
        """Hosts that were measured at the level."""
        return tuple(each.host for each in self.visits if each.measured_at(self.level.name))

    def text(self) -> str:
        """Say it in one line."""
        left = len(self.due) - len(self.visits) - len(self.kept_out)
        unmeasured = [
            visit.host for visit in self.visits if visit.host not in {*self.measured, *self.refused}
        ]
        parts = [f"{count(len(self.due), 'host')} due, {len(self.measured)} measured"]
        for what, hosts in (
            ("at work", self.busy),
            *(
                (kind, [h for h, each in self.kept_out.items() if each.state == kind])
                for kind in AWAY
            ),
            ("not measured", unmeasured),
        ):
            parts += [f"{what}: {named(hosts)}"] if hosts else []
        parts += [f"{left} left for the next sweep"] if left > 0 else []
        return f"{self.level.name}: {'; '.join(parts)}"


def ended(
    part: LevelResult,
    past: VisitHistory,
    hosts: Iterable[str],
    done: Collection[str],
    now: datetime,
    *,
    blind: bool,
) -> LevelResult:
    """Return a part with the hosts that are late, and an exit code that says what is not known.

    ``done`` are hosts that the sweep has measured before; ``blind``: a scheduler did not answer.
    """
    late = {
        host: past.age_s(host, part.level, now)
        for host in hosts
        if host not in {*part.measured, *done} and past.is_late(host, part.level, now)
    }
    unknown = late or part.late_links or (blind and len(part.visits) < len(part.due))
    code = combine([part.exit_code, NOT_MEASURED if unknown else PASS])
    return replace(part, exit_code=code, late=late)


def late_text(part: LevelResult) -> str:
    """Say in one line which hosts were not measured for too long, by why they were not this time.

    Empty where there is none.
    """
    reasons: dict[str, list[str]] = {}
    states = {visit.host: visit.state for visit in part.visits}
    for host in part.late:
        why = states.get(host, "no time left")
        if host in part.busy:
            why = "at work when it was its turn"
        elif host in part.kept_out:
            why = part.kept_out[host].state
        reasons.setdefault(why, []).append(host)
    listed = "; ".join(f"{named(hosts)} ({why})" for why, hosts in reasons.items())
    limit = length_text(part.level.at_latest_s)
    return f"{part.level.name}: not measured for more than {limit}: {listed}" if listed else ""


def busy_hosts(records: Iterable[HostRecord]) -> tuple[str, ...]:
    """Return the hosts that were not loaded since somebody was at work on them, or about to be."""
    return tuple(
        record.host
        for record in records
        if record.given_up
        or (record.report and any(result.state == "busy" for result in record.report.results))
    )


def after(state: SweepState, parts: Sequence[LevelResult], now: datetime) -> SweepState:
    """Return the state after a sweep that came to its end."""
    at = as_text(now)
    finished = dict(state.finished)
    waiting, away = dict(state.waiting), dict(state.away)
    for part in parts:
        measured = len(part.measured)
        finished[part.level.name] = Finished(
            *(at, len(part.due), measured, part.exit_code, tuple(part.late)),
            late_links=tuple(part.late_links),
        )
        if not part.level.load:
            continue
        for host in part.measured:
            away.pop(host, None)
            waiting.pop(host, None)
        for host in part.busy:
            waiting.setdefault(host, at)
        away |= {h: kept.state for h, kept in part.kept_out.items() if kept.state in AWAY}
    return replace(state, under_way=None, finished=finished, waiting=waiting, away=away)


def named(hosts: Sequence[str]) -> str:
    """Return hosts folded, for one line."""
    return line(fold(sorted(hosts)), 200)
