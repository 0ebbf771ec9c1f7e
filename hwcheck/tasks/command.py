"""What every task shares: how its flags look, how it refuses, and how its errors end."""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection
from typing import Any

import fabric
from fabric.connection import Connection
from invoke import Argument, Exit

from hwcheck.errors import UsageError
from hwcheck.tasks.output import refuse_closed_stdout, say
from hwcheck.tasks.program import INTERRUPTED

SHORT_FLAGS = {
    "limit": "l",
    "forks": "f",
    "verbose": "v",
    "extra_vars": "e",
    "minbytes": "b",
    "maxbytes": "e",
    "stepfactor": "f",
    "iters": "n",
    "warmup_iters": "w",
    "datatype": "d",
}
"""As Ansible and nccl-tests spell them. Both have -f: nccl-tests' where there is a stepfactor.

Invoke would give every flag a letter, ``-h`` for ``--hosts`` first.
"""


class Once(Argument):  # type: ignore[misc]
    """A flag that says so when it stands twice; Invoke's own takes the second value for a task."""

    def __repr__(self) -> str:
        return f"--{self.names[0].replace('_', '-')}"

    def set_value(self, value: Any, cast: bool = True) -> None:
        """Take the value. Raises Exit when there is one already."""
        if self.takes_value and self.raw_value is not None:
            say(f"hwcheck: {self} is given twice: {self.raw_value}, {value}; give it once")
            raise Exit(code=2)
        super().set_value(value, cast)
        if self.takes_value:
            self.kind = list  # for the parser a flag that takes more values, so they come here


class Command(fabric.Task):  # type: ignore[misc]
    """A task of ours: a UsageError ends it with one line and exit code 2."""

    def arg_opts(self, name: str, default: Any, taken_names: set[str]) -> dict[str, Any]:
        """Give only the flags of ``SHORT_FLAGS`` a letter."""
        options: dict[str, Any] = super().arg_opts(name, default, taken_names)
        short = SHORT_FLAGS.get(name, "")
        if name == "forks" and "stepfactor" in self.argspec(self.body).parameters:
            short = ""
        options["names"] = (*options["names"][:1], *short)
        return options

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:
        """Return the flags, none of which may stand twice but for those that take a list."""
        return [
            flag
            if flag.kind is list
            else Once(
                names=flag.names,
                kind=flag.kind,
                default=flag.default,
                help=flag.help,
                positional=flag.positional,
                optional=flag.optional,
                incrementable=flag.incrementable,
                attr_name=flag.attr_name,
            )
            for flag in super().get_arguments(ignore_unknown_help)
        ]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task. Fabric's own ``-H`` would run it once per host: refuse it."""
        if args and isinstance(args[0], Connection):
            say(f"hwcheck: {self._instead_of_core_hosts(args[0].original_host)}")
            raise Exit(code=2)
        if args and args[0].config.get("connect_kwargs"):
            say(
                "hwcheck: Fabric's own connection options (-i, -t, connect_kwargs) are not used; "
                "the inventory and the ssh configuration say how to connect"
            )
        try:
            refuse_closed_stdout()
            return super().__call__(*args, **kwargs)
        except UsageError as error:
            say(f"hwcheck: {error}")
            raise Exit(code=2) from None
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # from here on one more is no traceback
            say("hwcheck: interrupted")
            raise Exit(code=INTERRUPTED) from None

    def _instead_of_core_hosts(self, first: str) -> str:
        if "hosts" not in self.argspec(self.body).parameters:
            return f"-H is Fabric's own and {self.name} visits no host; leave -H {first} out"
        return (
            f"-H is Fabric's own and would run {self.name} once per host; say "
            f"{self.name} --hosts INVENTORY, or {self.name} --hosts node1,node2"
        )


def command(**options: Any) -> Callable[[Callable[..., None]], Command]:
    """Make a function a task of ours; ``options`` are Fabric's."""
    decorate: Callable[[Callable[..., None]], Command] = fabric.task(klass=Command, **options)
    return decorate


def end(exit_code: int) -> None:
    """End a task: with 0 the next one of the command line follows, otherwise none does."""
    if exit_code:
        raise Exit(code=exit_code)


UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(flag: str, text: str) -> float:
    """Return the seconds of a duration: ``90``, ``90s``, ``45m``, ``8h``. Raises UsageError."""
    number, unit = text.rstrip("smh"), text.lstrip("0123456789.")
    try:
        length_s = float(number) * UNITS_S[unit]
    except (ValueError, KeyError):
        length_s = 0.0
    if not 1.0 <= length_s < float("inf"):
        raise UsageError(f"{flag} {text}: it takes seconds, or 45m or 8h")
    return length_s


MOST_DIGITS = 9
"""More than any count or number of seconds here has, and far from where Python refuses."""


def one_of(flag: str, word: str, known: Collection[str]) -> str:
    """Return the word that a flag was given. Raises UsageError where it is none of those known."""
    if word not in known:
        raise UsageError(f"{flag} {word}: it is one of {', '.join(known)}")
    return word


def whole(flag: str, text: str, least: int) -> int:
    """Return the whole number that a flag was given. Raises UsageError.

    Invoke's own conversion answers a word with a traceback.
    """
    if not text.isdecimal() or len(text) > MOST_DIGITS or int(text) < least:
        most = f", of at most {MOST_DIGITS} digits" if len(text) > MOST_DIGITS else ""
        raise UsageError(f"{flag} {text[:40]}: it takes a whole number from {least}{most}")
    return int(text)
