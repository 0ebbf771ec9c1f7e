"""A second visit to hosts with a figure that lies within its spread of a border."""

from __future__ import annotations

from collections.abc import Mapping

from hwcheck.connect.connector import Connector
from hwcheck.connect.payload import Payload
from hwcheck.judge.second_visit import legs_on_a_border
from hwcheck.node.reasons import Reason
from hwcheck.results.run_folder import RunFolder, read_run
from hwcheck.run.fan_out import NOBODY, fan_out
from hwcheck.run.plan import Plan, of_legs
from hwcheck.tasks.output import say
from hwcheck.tasks.progress import Progress
from hwcheck.text import count


def make_second_visits(
    plan: Plan,
    payload: Payload,
    folder: RunFolder,
    connector: Connector,
    *,
    forks: int,
    verbose: bool,
    given_up: Mapping[str, Reason] = NOBODY,
) -> None:
    """Measure again what a saved run could not say on which side of a border it is.

    Only those legs, on those hosts, once, and not on hosts that are ``given_up``
    (``fan_out``). The connector has been prepared with the hosts. Raises UsageError and DiskError
    as reading and writing a run folder do.
    """
    of_all = legs_on_a_border(read_run(folder.path))
    legs = {host: of_host for host, of_host in of_all.items() if host not in given_up}
    if not legs or connector.supervisor.stop.is_set():
        return
    say(f"hwcheck: measuring again what lies on a border on {count(len(legs), 'host')}")
    hosts = tuple(host for host in plan.hosts if host.name in legs)
    requests = {host.name: of_legs(plan.requests[host.name], legs[host.name]) for host in hosts}
    answers = folder.second_visits()
    with Progress(len(hosts), forks=forks, verbose=verbose) as progress:
        fan_out(
            *(hosts, requests, payload, answers, connector),
            forks=forks,
            progress=progress,
            given_up=given_up,
        )
