"""How far a run or a playbook is: plain lines in a pipe, a live line on a terminal."""

import io

import pytest
from rich.console import Console

from hwcheck.cli.progress import PlayProgress, Progress
from hwcheck.provision.events import PlayEvent
from hwcheck.run.fan_out import VisitEvent

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
    assert lines[-1] == "[1/2] node02: unreachable after 0.0 s: connect: refused"
    started = ["node01: started", "node01: all_reduce [bold]64 MiB", "node02: started"]
    assert lines[:-1] == (started if verbose else [])


def test_without_a_terminal_a_long_visit_is_heard_of_now_and_then() -> None:
    out, now = io.StringIO(), [0.0]
    console = Console(file=out, width=200)
    with Progress(1, console=console, clock=lambda: now[0]) as progress:
        for seconds, text in ((0, "a"), (29, "b"), (31, "c"), (32, "d"), (62, "d"), (70, "e")):
            now[0] = seconds
            progress(VisitEvent("n1", "progress", text))
    assert out.getvalue().splitlines() == ["n1: c (31 s)", "n1: e (70 s)"]


@pytest.mark.parametrize("term", ["dumb", None])
def test_what_is_no_terminal_gets_no_cursor_codes(
    term: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TERM", raising=False)
    out = io.StringIO()
    environment = {"TERM": term} if term else {}
    console = Console(file=out, force_terminal=term is not None, _environ=environment)
    with Progress(2, console=console) as progress:
        for event in EVENTS:
            progress(event)
    assert "\x1b" not in out.getvalue()
    assert "node02: unreachable" in out.getvalue()


def test_a_terminal_shows_each_host_the_longest_first_and_what_is_left() -> None:
    out, now = io.StringIO(), [0.0]
    console = Console(file=out, force_terminal=True, width=120)
    with Progress(40, forks=10, console=console, clock=lambda: now[0]) as progress:
        for event in EVENTS[:3]:
            progress(event)
        assert "left" not in progress._line().plain, "nothing is done"
        now[0] = 60.0
        progress(EVENTS[3])
        for number in range(3, 14):
            now[0] += 1
            progress(VisitEvent(f"node{number:02}", "progress", "load"))
        shown = progress._line().plain.splitlines()
    first = "1 of 40 hosts done, 12 under way, 1 without a full answer, about 4 min left"
    assert shown[0] == first
    assert shown[1] == "  node01  71 s  all_reduce [bold]64 MiB"
    assert [row.split()[0] for row in shown[2:9]] == [f"node{n:02}" for n in range(3, 10)]
    assert shown[9] == "  and 4 more"
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
