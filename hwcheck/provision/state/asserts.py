"""How an assertion says which variable of its role it is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., None])

NOTHING_WANTED = (None, "", "unmanaged", "none", -1)
"""What a role's variables are set to where the role leaves something alone."""


@dataclass(frozen=True)
class Asserts:
    """Which variable a test asserts, whether each of its elements is a test of its own, and when.

    ``when`` is asked with all variables of the role for the host.
    """

    variable: str
    each: bool
    when: Callable[[Mapping[str, Any]], bool]


def asserts(
    variable: str,
    *,
    each: bool = False,
    when: Callable[[Mapping[str, Any]], bool] = lambda role: True,  # noqa: ARG005
) -> Callable[[Function], Function]:
    """Make a function a test of this variable, for every host on which the role is to manage it.

    The test takes ``host`` (testinfra's), ``wanted`` (the value, or one element of it: an item of a
    list, or a pair of a mapping) and ``role`` (all variables of the role). What is wrong goes into
    the message of an ``assert``; any other error counts as not measured.
    """

    def mark(function: Function) -> Function:
        function.__dict__["asserts"] = Asserts(variable, each, when)
        return function

    return mark


class NotMeasuredError(Exception):
    """The node does not say what an assertion needs."""


def ask(host: Any, command: str, *arguments: str) -> str:
    """Return what a command says on the node. Raises NotMeasuredError where it fails."""
    done = host.run(command, *arguments)
    if done.failed:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.rc}"]
        raise NotMeasuredError(f"{command.split()[0]}: {reason[0]}")
    return str(done.stdout).strip()
