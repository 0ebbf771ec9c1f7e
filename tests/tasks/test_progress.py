"""How far a run or a playbook is: plain lines in a pipe, a live line on a terminal."""

import io

import pytest
from rich.console import Console

from hwcheck.provision.events import PlayEvent
from hwcheck.run.fan_out import VisitEvent
from hwcheck.tasks.progress import PlayProgress, Progress

EVENTS = [
    VisitEvent("node01", "started"),
    VisitEvent("node01", "progress", "all_reduce [bold]64 MiB\x1b[31m"),
    VisitEvent("node02", "started"),
    VisitEvent("node02", "finished", "connect: refused", "unreachable"),
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


PLAY_EVENTS = (
    PlayEvent("", "task", role="nccl", task="Write"),
    PlayEvent("", "ok", role="nccl", task="Write", host="n1"),
    PlayEvent("", "changed", role="nccl", task="Write", host="n2", item="a"),
    PlayEvent("", "diff", role="nccl", task="Write", host="n2", text="-a\n+[b]"),
    PlayEvent("", "failed", task="Try", host="n3", text="too old"),
)


@pytest.mark.parametrize(("verbose", "first"), [(False, []), (True, ["n1: ok: nccl: Write"])])
def test_lines_of_a_playbook(verbose: bool, first: list[str]) -> None:
    paper = io.StringIO()
    with PlayProgress(verbose=verbose, console=Console(file=paper, width=200)) as progress:
        for event in PLAY_EVENTS:
            progress(event)
    assert paper.getvalue().splitlines() == [
        *first,
        "n2: changed: nccl: Write (a)",
        "-a",
        "+[b]",
        "n3: failed: Try: too old",
    ]


def test_the_live_line_of_a_playbook_has_its_task() -> None:
    paper = io.StringIO()
    console = Console(file=paper, width=200, force_terminal=True)
    with PlayProgress(console=console) as progress:
        for event in PLAY_EVENTS:
            progress(event)
        assert progress._line().plain == "nccl: Write; 1 changed, 1 failed"
