"""What became of GPUs and names between two runs of a host: swapped, moved, renamed.

A host is a name; a machine is told by the GPUs in it. One that was installed anew has the same
GPUs, and its history goes on; a host without a GPU has nothing to be told by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from hwcheck.history.views import History
from hwcheck.text import line

if TYPE_CHECKING:
    from hwcheck.results.run_folder import Run

SWAPPED = "swapped"
MOVED = "moved"
GONE = "gone"
ADDED = "added"
RENAMED = "renamed"
REPLACED = "another machine under this name"
ALWAYS = (datetime.min, datetime.max)  # noqa: DTZ901 - the history's times are UTC, without a zone


@dataclass(frozen=True)
class Event:
    """Something that a host's run shows against the host's run before.

    ``kind`` is one of the words above; ``subject`` the slot (``gpu3``) or ``node``. ``before`` and
    ``after`` are GPUs by their ``gpu`` id or, of a renamed host, its names.
    """

    host: str
    run: str
    started: datetime
    kind: str
    subject: str
    before: str
    after: str

    def text(self) -> str:
        """Say it in one line."""
        day = f"{self.started:%Y-%m-%d}"
        change = f"{line(self.before, 80) or 'none'} -> {line(self.after, 80) or 'none'}"
        about = "" if self.subject == "node" else f"{line(self.subject, 40)} "
        return f"{day} {about}{self.kind}: {change}"


@dataclass(frozen=True)
class Stay:
    """Runs of a host in a row with the same GPUs: the first, when it began, and when the last did.

    ``gpus`` has slot and GPU by where it sits; ``is_new`` is false of what the oldest run shows.
    """

    host: str
    run: str
    started: datetime
    ended: datetime
    is_new: bool
    gpus: Mapping[str, tuple[str, str]]

    @property
    def ids(self) -> set[str]:
        """The GPUs, wherever they sit."""
        return {gpu for _, gpu in self.gpus.values()}


class Name(NamedTuple):
    """What a host of now was called in the runs from ``since`` to before ``until`` (UTC)."""

    host: str
    called: str
    since: datetime
    until: datetime


NAMED = """
renamed AS (
  SELECT unnest($1) AS now, unnest($2) AS called, unnest($3) AS since, unnest($4) AS until
), named AS (
  SELECT hosts.* REPLACE (coalesce(now, host) AS host), host AS called
  FROM hosts LEFT JOIN renamed ON host = called AND started >= since AND started < until
)
"""
"""``hosts`` by the names that they have now, as ``named``; the first four parameters are those of
``renamed``."""


def renamed(every_stay: Iterable[Stay]) -> list[list[Any]]:
    """Return the first four parameters of ``NAMED``: names that hosts had, and when."""
    names = [name for of_host in former_names(every_stay).values() for name in of_host]
    former = [name for name in names if name.called != name.host]
    return [list(column) for column in zip(*former, strict=True)] or [[], [], [], []]


def stays(history: History) -> list[Stay]:
    """Return the stays of all hosts, host by host in their order."""
    rows = history.rows(
        """
        WITH reported AS (SELECT host, run, started, boards FROM hosts WHERE state = 'reported'),
        changing AS (
          SELECT host FROM reported GROUP BY host HAVING count(DISTINCT coalesce(boards, '')) > 1
        ), steps AS (
          SELECT *, boards IS DISTINCT FROM lag(boards) OVER w AS begins
          FROM reported SEMI JOIN changing USING (host)
          WINDOW w AS (PARTITION BY host ORDER BY started, run)
        ), counted AS (
          SELECT *, count(*) FILTER (begins) OVER (PARTITION BY host ORDER BY started, run) AS stay
          FROM steps
          UNION ALL BY NAME SELECT *, 0 AS stay FROM reported ANTI JOIN changing USING (host)
        )
        SELECT host, arg_min(run, started), min(started), max(started)
        FROM counted GROUP BY host, stay ORDER BY host, 3
        """
    )
    if not rows:
        return []
    oldest = min(started for _, _, started, _ in rows)
    gpus = gpus_of(history, [(host, run) for host, run, _, _ in rows])
    return [
        Stay(host, run, started, ended, started > oldest, places(gpus.get((host, run))))
        for host, run, started, ended in rows
    ]


def events(
    history: History, hosts: Sequence[str] = (), since: datetime | None = None
) -> list[Event]:
    """Return the events of these hosts (none named: of all), host by host in their order."""
    return [
        event
        for event in events_of(stays(history))
        if (not hosts or event.host in hosts) and (since is None or event.started >= since)
    ]


def former_names(every_stay: Iterable[Stay]) -> dict[str, list[Name]]:
    """Return the names of each host that was renamed, the newest first, and when it had them.

    And of each host that has a name which another had before.
    """
    renamed: dict[str, list[Event]] = {}
    for event in events_of(every_stay):
        if event.kind == RENAMED:
            renamed.setdefault(event.host, []).append(event)
    names: dict[str, list[Name]] = {}
    for host in renamed:
        called, until = host, ALWAYS[1]
        while True:
            earlier = [each for each in renamed.get(called, ()) if each.started < until]
            since = earlier[-1].started if earlier else ALWAYS[0]
            names.setdefault(host, []).append(Name(host, called, since, until))
            if not earlier:
                break
            called, until = earlier[-1].before, since
    for name in [name for of_host in names.values() for name in of_host]:
        if name.called not in names:  # whoever is called so now was not before
            names[name.called] = [Name(name.called, name.called, name.until, ALWAYS[1])]
    return names


def names_of(history: History, run: Run) -> list[Name]:
    """Return what each host of a run, which is not in the history, was called in it and when."""
    try:
        started = datetime.fromisoformat(run.meta.started.removesuffix("Z")).replace(tzinfo=None)
    except ValueError:  # nobody knows what was before it
        return []
    now = []
    for record in run.records:
        gpus = [
            {"slot": f"gpu{gpu.index}", "pci_address": gpu.pci_address, "gpu": gpu.id}
            for gpu in (record.report.gpus if record.report else ())
        ]
        if gpus:
            stay = (record.host, run.meta.id, started, started)
            now.append(Stay(*stay, is_new=True, gpus=places(gpus)))
    renamed = former_names([*stays(history), *now])
    return [
        name
        for record in run.records
        for name in renamed.get(record.host, [Name(record.host, record.host, *ALWAYS)])
    ]


def gpus_of(
    history: History, of: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], list[dict[str, str]]]:
    """Return the GPUs of hosts in runs, by both."""
    wanted = sorted(set(of))
    if not wanted:
        return {}
    rows = history.rows(
        "SELECT host, run, gpus FROM hosts "
        "SEMI JOIN (SELECT unnest($1) AS host, unnest($2) AS run) USING (host, run) "
        "WHERE list_contains($3, run)",  # files of other runs are not opened
        [*map(list, zip(*wanted, strict=True)), sorted({run for _, run in wanted})],
    )
    return {(host, run): gpus for host, run, gpus in rows}


def places(gpus: Iterable[Mapping[str, str]] | None) -> dict[str, tuple[str, str]]:
    """Return slot and GPU by where it sits: its PCI address, since a lost GPU shifts the slots."""
    return {
        gpu["pci_address"] or gpu["slot"]: (gpu["slot"], gpu["gpu"])
        for gpu in gpus or ()
        if gpu["gpu"]
    }


def events_of(every_stay: Iterable[Stay]) -> Iterator[Event]:
    """Yield what became of GPUs and names where a stay of a host begins."""
    by_host: dict[str, list[Stay]] = {}
    seen: dict[str, list[Stay]] = {}
    for stay in every_stay:
        by_host.setdefault(stay.host, []).append(stay)
        for gpu in stay.ids:
            seen.setdefault(gpu, []).append(stay)
    for of_host in by_host.values():
        for before, stay in zip([None, *of_host], of_host, strict=False):
            if stay.is_new:
                yield from _of_stay(before, stay, seen)


def _of_stay(
    before: Stay | None, stay: Stay, seen: Mapping[str, Sequence[Stay]]
) -> Iterator[Event]:
    was_here, is_here = before.ids if before else set(), stay.ids

    def event(kind: str, subject: str, was: str, now: str) -> Event:
        return Event(stay.host, stay.run, stay.started, kind, subject, was, now)

    def host_before(gpu: str) -> str:
        """Return the host that the GPU was last seen in before this stay; empty for this one."""
        earlier = [each for each in seen.get(gpu, ()) if each.started < stay.started]
        last = max(earlier, key=lambda each: min(each.ended, stay.started), default=stay)
        return last.host if last.host != stay.host else ""

    former, most = Counter(map(host_before, is_here)).most_common(1)[0] if is_here else ("", 0)
    a_machine = most > len(is_here) / 2 and (before is None or most > 1)
    if former and a_machine and not was_here & is_here:
        yield event(RENAMED, "node", former, stay.host)
        return
    if before is None:
        return
    if was_here and is_here and not was_here & is_here and len(was_here) > 1:
        yield event(REPLACED, "node", " ".join(sorted(was_here)), " ".join(sorted(is_here)))
        return
    for place in sorted({*before.gpus, *stay.gpus}):
        slot, was = before.gpus.get(place, ("", ""))
        slot, now = stay.gpus.get(place, (slot, ""))
        if was == now:
            continue
        if not now:
            if was not in is_here:
                yield event(GONE, slot, was, "")
        elif now in was_here:
            yield event(MOVED, slot, f"{now} in another slot", now)
        elif host_before(now):
            yield event(MOVED, slot, f"{now} in {host_before(now)}", now)
        elif was:
            yield event(SWAPPED, slot, was, now)
        else:
            yield event(ADDED, slot, "", now)
