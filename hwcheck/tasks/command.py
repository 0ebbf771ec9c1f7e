"""What every task shares: how its flags look, how it refuses, and how its errors end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import fabric
from fabric.connection import Connection
from invoke import Exit

from hwcheck.errors import UsageError

SHORT_FLAGS = {"limit": "l", "forks": "f", "verbose": "v"}
"""As Ansible spells them. Invoke would give every flag a letter, ``-h`` for ``--hosts`` first."""


class Command(fabric.Task):  # type: ignore[misc]
    """A task of ours: a UsageError ends it with one line and exit code 2."""

    def arg_opts(self, name: str, default: Any, taken_names: set[str]) -> dict[str, Any]:
        """Give only the flags of ``SHORT_FLAGS`` a letter."""
        options: dict[str, Any] = super().arg_opts(name, default, taken_names)
        short = [SHORT_FLAGS[name]] if name in SHORT_FLAGS else []
        options["names"] = options["names"][:1] + short
        return options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task. Fabric's own ``-H`` would run it once per host: refuse it."""
        if args and isinstance(args[0], Connection):
            raise Exit(
                f"hwcheck: -H runs {self.name} once per host; put the hosts after the task: "
                f"{self.name} --hosts INVENTORY, or --hosts node1,node2",
                code=2,
            )
        if args and args[0].config.get("connect_kwargs"):
            sys.stderr.write(
                "hwcheck: Fabric's own connection options (-i, -t, connect_kwargs) are not used; "
                "the inventory and the ssh configuration say how to connect\n"
            )
        try:
            return super().__call__(*args, **kwargs)
        except UsageError as error:
            raise Exit(f"hwcheck: {error}", code=2) from None


def command(**options: Any) -> Callable[[Callable[..., None]], Command]:
    """Make a function a task of ours; ``options`` are Fabric's."""
    decorate: Callable[[Callable[..., None]], Command] = fabric.task(klass=Command, **options)
    return decorate


def whole(flag: str, text: str, least: int) -> int:
    """Return the whole number that a flag was given. Raises UsageError.

    Invoke's own conversion answers a word with a traceback.
    """
    if not text.isdecimal() or int(text) < least:
        raise UsageError(f"{flag} {text}: it takes a whole number from {least}")
    return int(text)
