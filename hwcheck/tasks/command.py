"""What every command shares: how its flags look, what it refuses, and how its errors end."""

from __future__ import annotations

import functools
import inspect
import signal
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from invoke import Argument, Config, Exit, Task, task

from hwcheck.errors import UsageError
from hwcheck.exit_codes import INTERRUPTED, NOT_MEASURED, PASS, USAGE
from hwcheck.tasks.flags import REACHING_HELP, read_connection
from hwcheck.tasks.output import complain, refuse_closed_stdout, say

SHORT_FLAGS = {
    "hosts": "i",
    "limit": "l",
    "forks": "f",
    "verbose": "v",
    "extra_vars": "e",
    "user": "u",
    "ask_pass": "k",
    "become": "b",
    "ask_become_pass": "K",
    "iters": "n",
    "warmup_iters": "w",
    "datatype": "d",
    "output": "o",
}
"""As Ansible spells them, and nccl-tests where Ansible has not the same letter for something else.

Invoke would give every flag a letter, ``-h`` for ``--hosts`` first.
"""


class Once(Argument):  # type: ignore[misc]
    """A flag that refuses to stand twice; Invoke takes the second value for the name of a task."""

    def __repr__(self) -> str:
        return f"--{self.names[0].replace('_', '-')}"

    def set_value(self, value: Any, cast: bool = True) -> None:
        """Take the value. Raises Exit where there is one already."""
        if self.takes_value and self.raw_value is not None:
            say(f"hwcheck: {self} is given twice: {self.raw_value}, {value}; give it once")
            raise Exit(code=USAGE)
        super().set_value(value, cast)
        if self.takes_value:
            self.kind = list  # for the parser a flag that takes more values, so they come here


class Command(Task):  # type: ignore[misc]
    """A task of ours: a UsageError ends it with one line and exit code 2, a fault with 3."""

    def arg_opts(self, name: str, default: Any, taken_names: set[str]) -> dict[str, Any]:
        """Give only the flags of ``SHORT_FLAGS`` a letter."""
        options: dict[str, Any] = super().arg_opts(name, default, taken_names)
        options["names"] = (*options["names"][:1], *SHORT_FLAGS.get(name, ""))
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
        """Run the task."""
        try:
            refuse_closed_stdout()
            return super().__call__(*args, **kwargs)
        except UsageError as error:
            complain(error)
            raise Exit(code=USAGE) from None
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # from here on one more is no traceback
            say("hwcheck: interrupted")
            raise Exit(code=INTERRUPTED) from None
        except Exit:
            raise
        except Exception:  # Python would end with 1, which says that a host failed
            traceback.print_exc()
            say("hwcheck: a fault of hwcheck itself, please report it")
            raise Exit(code=NOT_MEASURED) from None

    def hosts_flag_hint(self, hosts: str) -> str:
        """Return what to do without Fabric's own ``-H``, which would run the task for each host."""
        first = hosts.partition(",")[0]
        if "hosts" not in self.argspec(self.body).parameters:
            return f"-H is Fabric's own and {self.name} visits no host; leave -H {first} out"
        return (
            f"-H is Fabric's own and would run {self.name} once per host; say "
            f"{self.name} --hosts INVENTORY, or {self.name} --hosts node1,node2"
        )


def command(
    klass: type[Command] = Command, **options: Any
) -> Callable[[Callable[..., None]], Command]:
    """Make a function a task of ours; ``options`` are Invoke's."""
    decorate: Callable[[Callable[..., None]], Command] = task(klass=klass, **options)
    return decorate


def reaching_command(
    help: Mapping[str, str],  # noqa: A002 - Invoke's name
    iterable: Sequence[str] = (),
    **options: Any,
) -> Callable[[Callable[..., None]], Command]:
    """Make a function a command that reaches hosts: it gets Ansible's flags of the connection.

    The function takes ``extra_vars`` and, as ``connection``, what the other flags say.
    """

    def decorate(body: Callable[..., None]) -> Command:
        wrapped = _with_connection(body)
        flags = inspect.signature(wrapped).parameters
        of_flags = {
            name: text for name, text in REACHING_HELP.items() if name.replace("-", "_") in flags
        }
        make = command(help={**of_flags, **help}, iterable=["extra_vars", *iterable], **options)
        return make(wrapped)

    return decorate


CONNECTION: Mapping[str, Any] = {
    "user": "",
    "ask_pass": False,
    "become": False,
    "become_user": "",
    "ask_become_pass": False,
}
"""Flags that become one argument, each with its default."""


def _with_connection(body: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(body)
    flags = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
        for name, default in CONNECTION.items()
    ]
    of_body = [each for name, each in signature.parameters.items() if name != "connection"]

    @functools.wraps(body)
    def with_connection(*args: Any, **kwargs: Any) -> None:
        given = {name: kwargs.pop(name, default) for name, default in CONNECTION.items()}
        if "connection" not in kwargs:  # another command has it already
            kwargs["connection"] = read_connection(**given)
            _say_what_is_not_used(args[0].config)
        body(*args, **kwargs)

    with_connection.__signature__ = signature.replace(parameters=[*of_body, *flags])  # type: ignore[attr-defined]
    return with_connection


def _say_what_is_not_used(config: Config) -> None:
    """Say that Fabric's options of a connection have no effect, of ``fab`` or of its own files."""
    # Not above: to import Fabric takes a tenth of a second.
    from hwcheck.connect.ssh_config import fabric_config

    if config.get("connect_kwargs") or fabric_config().get("connect_kwargs"):
        say(
            "hwcheck: Fabric's own connection options (-t, connect_kwargs) are not used; "
            "the inventory and the ssh configuration say how to connect"
        )


def end(exit_code: int) -> None:
    """End a task: with 0 the next one of the command line follows, otherwise none does."""
    if exit_code != PASS:
        raise Exit(code=exit_code)
