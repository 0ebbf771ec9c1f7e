"""One fan-out, as the tests need it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hwcheck.connect.connector import Connector
from hwcheck.connect.deadlines import Deadlines
from hwcheck.connect.payload import Payload
from hwcheck.contract.wire import Request
from hwcheck.inventory.inventory import Host
from hwcheck.results.run_folder import HostPlan, HostRecord, RunFolder, RunMeta, read_run
from hwcheck.run.fan_out import NOBODY, VisitEvent, fan_out
from tests.lab import stand_in

QUICK = Deadlines(
    connect_s=2, banner_s=2, authentication_s=5, start_s=10, push_s=10, run_s=25, silence_s=12
)


def visit_all(
    hosts: Sequence[Host],
    out: Path,
    *,
    expect: Mapping[str, Mapping[str, Any]] | None = None,
    checks: tuple[str, ...] = ("first", "second"),
    payload: Payload | None = None,
    deadlines: Deadlines = QUICK,
    progress: Callable[[VisitEvent], None] = lambda event: None,
    stop: threading.Event | None = None,
    lifeline_s: float = 30.0,
    forks: int = 32,
    given_up: Mapping[str, str] = NOBODY,
    **connector_options: Any,
) -> dict[str, HostRecord]:
    """Visit the hosts and return what the run folder holds, by host; ``out/<id>`` is the run."""
    connector = Connector(deadlines, stop or threading.Event(), **connector_options)
    connector.prepare(hosts)
    plan = tuple(HostPlan(host.name, host.address) for host in hosts)
    folder = RunFolder.create(out, RunMeta("", "", checks, plan))
    requests = {
        host.name: Request(
            "", checks, expect=(expect or {}).get(host.name, {}), lifeline_s=lifeline_s
        )
        for host in hosts
    }
    fan_out(
        hosts,
        requests,
        payload or stand_in.payload(),
        folder,
        connector,
        forks=forks,
        progress=progress,
        given_up=given_up,
    )
    return {record.host: record for record in read_run(folder.path).records}


def log_of(out: Path, host: str) -> str:
    """Return what a host wrote beside its answer in the only run under ``out``."""
    (run,) = out.iterdir()
    log = run / "nodes" / f"{host}.log"
    return log.read_text() if log.exists() else ""
