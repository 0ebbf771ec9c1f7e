"""What is shown while a playbook runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from hwcheck.provision.events import Happening
from hwcheck.tasks.play_progress import PlayProgress

EVENTS = (
    Happening("", "task", role="nccl", task="Write"),
    Happening("", "ok", role="nccl", task="Write", host="n1"),
    Happening("", "changed", role="nccl", task="Write", host="n2", item="a"),
    Happening("", "diff", role="nccl", task="Write", host="n2", text="-a\n+[b]"),
    Happening("", "failed", task="Try", host="n3", text="too old"),
)


@pytest.mark.parametrize(("verbose", "first"), [(False, []), (True, ["n1: ok: nccl: Write"])])
def test_lines_that_stay(verbose: bool, first: list[str]) -> None:
    paper = io.StringIO()
    with PlayProgress(verbose=verbose, console=Console(file=paper, width=200)) as progress:
        for event in EVENTS:
            progress(event)
    assert paper.getvalue().splitlines() == [
        *first,
        "n2: changed: nccl: Write (a)",
        "-a",
        "+[b]",
        "n3: failed: Try: too old",
    ]


def test_the_live_line_says_where_it_is() -> None:
    paper = io.StringIO()
    console = Console(file=paper, width=200, force_terminal=True)
    with PlayProgress(console=console) as progress:
        for event in EVENTS:
            progress(event)
        assert progress._line().plain == "nccl: Write; 1 changed, 1 failed"
