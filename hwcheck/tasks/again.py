"""A second visit to hosts with a figure that lies within its spread of a border."""

from __future__ import annotations

from dataclasses import replace

from hwcheck.connect.connector import Connector
from hwcheck.connect.payload import Payload
from hwcheck.judge.borders import Border, borders
from hwcheck.node.wire import Request
from hwcheck.results.run_folder import RunFolder, read_run
from hwcheck.run.fan_out import fan_out
from hwcheck.run.plan import Plan
from hwcheck.tasks.output import say
from hwcheck.tasks.progress import Progress
from hwcheck.text import count


def measure_again(
    plan: Plan,
    payload: Payload,
    folder: RunFolder,
    connector: Connector,
    *,
    forks: int,
    verbose: bool,
) -> None:
    """Measure again what a saved run could not say on which side of a border it is.

    Only those legs, on those hosts, once; what comes of it lies in ``again`` in the run folder. The
    connector has been prepared with the hosts. Raises UsageError and DiskError as reading and
    writing a run folder do.
    """
    found = borders(read_run(folder.path))
    if not found or connector.supervisor.stop.is_set():
        return
    say(f"hwcheck: measuring again what lies on a border on {count(len(found), 'host')}")
    hosts = tuple(host for host in plan.hosts if host.name in found)
    requests = {host.name: _request(plan.requests[host.name], found[host.name]) for host in hosts}
    second = folder.second()
    with Progress(len(hosts), verbose=verbose) as progress:
        fan_out(hosts, requests, payload, second, connector, forks=forks, progress=progress)


def _request(first: Request, border: Border) -> Request:
    legs = sorted({leg for legs in border.values() for leg in legs})
    checks = tuple(check for check in first.checks if check in border)
    return replace(first, checks=checks, timing=replace(first.timing, legs=tuple(legs)))
