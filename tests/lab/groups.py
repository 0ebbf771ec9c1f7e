"""A group over the hosts of a lab, as ``validate --scope`` makes it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hwcheck.connect import payload
from hwcheck.connect.connector import Connector
from hwcheck.connect.deadlines import Deadlines
from hwcheck.contract.model_shape import MODELS
from hwcheck.contract.wire import Request
from hwcheck.inventory.inventory import Host
from hwcheck.results.multi_host import MultiHostRecord
from hwcheck.results.options import TrainingOptions
from hwcheck.run.multi_host.orders import GLOO, Sizing
from hwcheck.run.multi_host.participants import Participants
from hwcheck.run.multi_host.scope_runner import ScopeRunner

RATE, FIFTH = "200mbit", "40mbit"
QUICK = replace(GLOO, start_s=10.0, floor_gbps=0.001)
SILENCE_S = 8.0
TINY = TrainingOptions(
    MODELS["tiny"],
    legs=("default",),
    repeats=1,
    parity_steps=2,
    micro_batch=1,
    dtype="fp32",
    tf32=False,
)
"""A training benchmark that hosts without a GPU get through in seconds."""


def python_with_torch(hosts: Sequence[Host]) -> list[Host]:
    """Let every host use the interpreter that runs the tests."""
    return [replace(host, python=sys.executable) for host in hosts]


def opened(
    hosts: Sequence[Host],
    folder: Path,
    torch_python: Mapping[str, str] | None = None,
    work: str = "collectives",
) -> Participants:
    """Return a group of these hosts, to be entered; their logs go to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    connector = Connector(replace(Deadlines(), silence_s=SILENCE_S), threading.Event())
    connector.prepare(hosts)
    requests = {
        host.name: Request("", (), torch_python=(torch_python or {}).get(host.name, ""))
        for host in hosts
    }

    def log(name: str, text: str) -> None:
        with (folder / f"{name}.log").open("a") as stream:
            stream.write(text)

    return Participants(hosts, requests, payload.build(), connector, log, work)


def run_multi_host(
    hosts: Sequence[Host],
    folder: Path,
    scopes: Sequence[str],
    *,
    sizing: Sizing = QUICK,
    torch_python: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda text: None,
    entered: Callable[[Participants], None] = lambda members: None,
) -> MultiHostRecord:
    """Run the scopes; ``entered`` is called when every host is ready or lost."""
    with opened(hosts, folder, torch_python) as members:
        entered(members)
        return ScopeRunner(members, scopes, folder, say, sizing).run()
