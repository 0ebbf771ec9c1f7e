"""One run of a playbook with its record: ``provision.json`` and ``provision/events.jsonl``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hwcheck import __version__
from hwcheck.node.wire import to_json
from hwcheck.provision.events import Happening
from hwcheck.provision.outcome import HostOutcome
from hwcheck.provision.playbook import Play, RoleVars
from hwcheck.provision.request import Request
from hwcheck.results.files import writing_to
from hwcheck.results.folders import write_record
from hwcheck.results.run_folder import utc_now

FORMAT = 1
RAN = ("ok", "changed", "failed", "ignored")


@dataclass(frozen=True)
class ProvisionRecord:
    """What was asked of Ansible and what became of it. Times are UTC, ISO 8601.

    ``roles`` are those of which a task ran, in order; ``role_vars`` are variables of theirs that
    the play set itself and told, by host.
    """

    playbook: str
    inventory: str
    limit: str
    tags: str
    check: bool
    started: str
    exit_code: int
    roles: tuple[str, ...]
    hosts: tuple[HostOutcome, ...]
    role_vars: RoleVars = field(default_factory=dict)
    finished: str = field(default_factory=utc_now)
    version: str = __version__
    format: int = FORMAT


def provision(
    request: Request, folder: Path, stop: threading.Event, heard: Callable[[Happening], None]
) -> ProvisionRecord:
    """Run the playbook and record it in a run folder. ``heard`` gets every event.

    Raises UsageError where Ansible refuses the playbook, and DiskError.
    """
    started = utc_now()
    roles: dict[str, None] = {}
    with _kept(folder) as keep:

        def take(found: Happening) -> None:
            if found.role and found.kind in RAN:
                roles.setdefault(found.role)
            keep(found)
            heard(found)

        hosts, told, exit_code = Play(request, stop, take).run()
    record = ProvisionRecord(
        playbook=str(request.playbook),
        inventory=request.cluster.source,
        limit=",".join(request.only) or request.limit or "",
        tags=request.tags or "",
        check=request.check,
        started=started,
        exit_code=exit_code,
        roles=tuple(roles),
        hosts=hosts,
        role_vars=told,
    )
    write_record(folder / "provision.json", record)
    return record


@contextmanager
def _kept(folder: Path) -> Iterator[Callable[[Happening], None]]:
    """Give what writes one event as a line of JSON, at once: a run that is killed has said it."""
    with writing_to(folder):
        (folder / "provision").mkdir()
        stream = (folder / "provision" / "events.jsonl").open("w", encoding="utf-8")
    with stream:

        def keep(found: Happening) -> None:
            with writing_to(folder):
                stream.write(to_json(found) + "\n")
                stream.flush()

        yield keep
