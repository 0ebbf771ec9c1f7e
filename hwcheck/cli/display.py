"""What a run says while it measures: on stderr, as every command has it."""

from __future__ import annotations

from hwcheck.cli.output import say
from hwcheck.cli.progress import Progress
from hwcheck.run.measure import Display


def display(*, verbose: bool) -> Display:
    """Return what measuring is handed; only with ``verbose`` are there details."""

    def visits(hosts: int, at_once: int) -> Progress:
        return Progress(hosts, forks=at_once, verbose=verbose)

    return Display(say_ours, say if verbose else _nothing, visits)


def say_ours(text: str) -> None:
    """Write a line to stderr that says whose it is."""
    say(f"hwcheck: {text}")


def _nothing(text: str) -> None:
    del text
