"""Errors that an operator can mend; those of hosts are collected and told at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hwcheck.fold import fold

MOST_LINES = 20
"""More are counted: whoever has so many mistakes mends a pattern, not a line."""


class UsageError(Exception):
    """One line: what is wrong, where, what to do. The command ends with exit code 2."""


class HostError(UsageError):
    """What is wrong with one host. ``where`` is the inventory or ansible.cfg, or empty."""

    def __init__(self, where: str, host: str, problem: str) -> None:
        super().__init__(f"{where}: {host}: {problem}" if where else f"{host}: {problem}")
        self.where = where
        self.host = host
        self.problem = problem


class ManyHostsError(UsageError):
    """What is wrong with several hosts, a line each; the same of several hosts is one line."""

    def __init__(self, errors: Sequence[HostError], hint: str = "") -> None:
        by_problem: dict[tuple[str, str], list[str]] = {}
        for error in errors:
            by_problem.setdefault((error.where, error.problem), []).append(error.host)
        lines = [
            str(HostError(where, fold(hosts), problem))
            for (where, problem), hosts in by_problem.items()
        ]
        more = len(lines) - MOST_LINES
        lines[MOST_LINES:] = [f"and {more} more"] if more > 0 else []
        super().__init__("\n".join([*lines, *([hint] if hint else [])]))
        self.errors = tuple(errors)


class Complaints:
    """Collects the errors of hosts."""

    def __init__(self) -> None:
        self.errors: list[HostError] = []

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Keep an error of a host that is raised within, and go on behind it."""
        try:
            yield
        except HostError as error:
            self.errors.append(error)
        except ManyHostsError as several:
            self.errors += several.errors

    def refuse(self, hint: str = "") -> None:
        """Raise what was collected, if anything was: HostError for one, otherwise ManyHostsError.

        ``hint`` says what to do about some of them, in a line of its own.
        """
        if len(self.errors) == 1:
            raise UsageError(f"{self.errors[0]}; {hint}") if hint else self.errors[0]
        if self.errors:
            raise ManyHostsError(self.errors, hint)
