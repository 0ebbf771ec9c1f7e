"""What became of GPUs and names between two runs of a host: swapped, moved, renamed.

A host is a name; a machine is told by the GPUs in it. One that was installed anew has the same
GPUs, and its history goes on; a host without a GPU has nothing to be told by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from hwcheck.history.views import History
from hwcheck.text import line

SWAPPED = "swapped"
MOVED = "moved"
GONE = "gone"
ADDED = "added"
RENAMED = "renamed"
REPLACED = "another machine under this name"


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
class _Step:
    """A run of a host whose GPUs are others than in its run before; that has no GPUs at first."""

    host: str
    run: str
    started: datetime
    first: bool
    before: Mapping[str, tuple[str, str]]
    after: Mapping[str, tuple[str, str]]


def events(
    history: History, hosts: Sequence[str] = (), since: datetime | None = None
) -> list[Event]:
    """Return the events of these hosts (none named: of all), host by host in their order."""
    changed = history.rows(
        """
        WITH steps AS (
          SELECT host, run, started, boards, row_number() OVER w AS night,
            lag(run) OVER w AS before, lag(boards) OVER w AS boards_before
          FROM hosts WHERE state = 'reported' AND (len($1) = 0 OR list_contains($1, host))
          WINDOW w AS (PARTITION BY host ORDER BY started, run)
        )
        SELECT host, run, started, before FROM steps
        WHERE boards IS DISTINCT FROM boards_before
          AND ($2::TIMESTAMP IS NULL OR started >= $2)
          AND (night > 1 OR started > (SELECT min(started) FROM hosts))
        ORDER BY host, started, run
        """,
        [list(hosts), since],
    )
    gpus = gpus_of(history, [(host, run) for host, *runs in changed for run in (runs[0], runs[2])])
    steps = [
        _Step(
            *(host, run, started, before is None),
            before=_places(gpus.get((host, before))),
            after=_places(gpus.get((host, run))),
        )
        for host, run, started, before in changed
    ]
    came = {gpu for step in steps for gpu in _ids(step.after) - _ids(step.before)}
    elsewhere: dict[str, list[tuple[str, datetime]]] = {}
    if came:
        for gpu, host, last in history.rows(
            "SELECT gpu, host, started FROM gpus WHERE list_contains($1, gpu) ORDER BY started",
            [sorted(came)],
        ):
            elsewhere.setdefault(gpu, []).append((host, last))
    return [event for step in steps for event in _of_step(step, elsewhere)]


def gpus_of(
    history: History, of: Iterable[tuple[str, str | None]]
) -> dict[tuple[str, str | None], list[dict[str, str]]]:
    """Return the GPUs of hosts in runs, by both."""
    wanted = {(host, run) for host, run in of if run is not None}
    if not wanted:
        return {}
    rows = history.rows(
        "SELECT host, run, gpus FROM hosts "
        "WHERE list_contains($1, run) AND list_contains($2, host)",
        [sorted({run for _, run in wanted}), sorted({host for host, _ in wanted})],
    )
    return {(host, run): gpus for host, run, gpus in rows if (host, run) in wanted}


def _places(gpus: Sequence[Mapping[str, str]] | None) -> dict[str, tuple[str, str]]:
    """Return slot and GPU by where it sits: its PCI address, since a lost GPU shifts the slots."""
    return {
        gpu["pci_address"] or gpu["slot"]: (gpu["slot"], gpu["gpu"])
        for gpu in gpus or ()
        if gpu["gpu"]
    }


def _ids(places: Mapping[str, tuple[str, str]]) -> set[str]:
    return {gpu for _, gpu in places.values()}


def _of_step(
    step: _Step, elsewhere: Mapping[str, Sequence[tuple[str, datetime]]]
) -> Iterator[Event]:
    before, after = _ids(step.before), _ids(step.after)

    def event(kind: str, subject: str, was: str, now: str) -> Event:
        return Event(step.host, step.run, step.started, kind, subject, was, now)

    def host_before(gpu: str) -> str:
        """Return the host that the GPU was last seen in before this run, this one left out."""
        seen = [host for host, when in elsewhere.get(gpu, ()) if when < step.started]
        return seen[-1] if seen and seen[-1] != step.host else ""

    former = {host_before(gpu) for gpu in after}
    if after and not before & after and len(former) == 1 and former != {""}:
        yield event(RENAMED, "node", former.pop(), step.host)
        return
    if step.first:
        return
    if before and after and not before & after and len(before) > 1:
        yield event(REPLACED, "node", " ".join(sorted(before)), " ".join(sorted(after)))
        return
    for place in sorted({*step.before, *step.after}):
        slot, was = step.before.get(place, ("", ""))
        slot, now = step.after.get(place, (slot, ""))
        if was == now:
            continue
        if not now:
            if was not in after:
                yield event(GONE, slot, was, "")
        elif now in before:
            yield event(MOVED, slot, f"{now} in another slot", now)
        elif host_before(now):
            yield event(MOVED, slot, f"{now} in {host_before(now)}", now)
        elif was:
            yield event(SWAPPED, slot, was, now)
        else:
            yield event(ADDED, slot, "", now)
