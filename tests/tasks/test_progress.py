"""How far a run is: plain lines in a pipe, a live line on a terminal."""

import io

import pytest
from rich.console import Console

from hwcheck.run.fan_out import Event
from hwcheck.tasks.progress import Progress

EVENTS = [
    Event("node01", "started"),
    Event("node01", "progress", "all_reduce [bold]64 MiB\x1b[31m"),
    Event("node02", "started"),
    Event("node02", "finished", "connect: refused", "unreachable"),
]


@pytest.mark.parametrize("verbose", [False, True])
def test_plain_lines(verbose: bool) -> None:
    out = io.StringIO()
    with Progress(2, verbose=verbose, console=Console(file=out, width=40)) as progress:
        for event in EVENTS:
            progress(event)
    lines = out.getvalue().splitlines()
    assert lines[-1] == "node02: unreachable after 0.0 s: connect: refused"
    started = ["node01: started", "node01: all_reduce [bold]64 MiB", "node02: started"]
    assert lines[:-1] == (started if verbose else [])


def test_a_terminal_shows_what_runs_longest() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120)
    with Progress(2, console=console) as progress:
        for event in EVENTS:
            progress(event)
        shown = progress._line().plain
    assert shown.startswith("1 of 2 hosts done, 1 without a full answer; node01 0 s all_reduce")
    assert "\x1b[31m" not in out.getvalue()
