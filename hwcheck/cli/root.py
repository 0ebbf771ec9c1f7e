"""The command ``hwcheck``: its commands, each imported when it is named, and how they are run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import click

from hwcheck import __version__
from hwcheck.cli.command import HELP_FLAGS, Actions, Command, Option, context_of, ended, path_of
from hwcheck.cli.output import emit, say
from hwcheck.cli.values import OneOf
from hwcheck.errors import UsageError
from hwcheck.exit_codes import PASS

COMMANDS = (
    *("validate", "report", "history", "compare", "trend", "query", "checks", "explain"),
    *("state", "provision", "rollout", "sweep", "accept", "train", "site"),
)
"""Each is ``cli`` in a module of its name."""
LIST_FLAGS = ("-l", "--list")
LIST_FORMAT, FORMER_COMPLETE = "--list-format", "--complete"
"""Of Invoke, as former versions had them."""
COMPLETE = "_HWCHECK_COMPLETE"
"""The variable by which a shell asks for completion (click, Shell Completion)."""
SHELLS = ("bash", "zsh", "fish")


class Root(Actions):
    """``hwcheck`` itself; several commands may follow each other on its line."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of the commands."""
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return a command, which is imported with what it needs; no command needs all."""
        return load(cmd_name) if cmd_name in COMMANDS else None

    def with_action(self, words: Sequence[str]) -> list[str]:
        """Return the words; ``--help validate`` and ``--help=validate`` are ``validate --help``.

        Raises UsageError for words after ``--list``, which takes none.
        """
        if not words:
            return []
        first, _, named = words[0].partition("=")
        rest = [*([named] if named else []), *words[1:]]
        if first in HELP_FLAGS:
            return [*rest, "--help"]
        if first in LIST_FLAGS and rest and not rest[0].startswith(("-F", LIST_FORMAT)):
            more = "leave it out, or see --help"
            raise UsageError(f"{first} {rest[0]}: it lists all commands; {more}")
        return [*words]


def load(name: str) -> Command:
    """Return a command by its name."""
    loaded: Command = import_module(f"hwcheck.cli.{name}").cli
    return loaded


def parse(words: Sequence[str]) -> list[click.Context]:
    """Return the contexts of the commands of a command line; none is run.

    Raises UsageError, and click's.
    """
    ctx = hwcheck.make_context("hwcheck", [*words])
    words, contexts = ctx.args, []
    if not words:
        emit(f"{ctx.get_help()}\n")
    while words:
        _, named, rest = hwcheck.resolve_command(ctx, [*words])
        assert isinstance(named, Command)
        length = 1 + named.extent(rest, COMMANDS)
        contexts.append(context_of(ctx, [*words[:length]]))
        words = words[length:]
    return contexts


def call(words: Sequence[str]) -> int:
    """Run the commands of a command line in turn, and return the exit code.

    One that ends with another exit code than 0 is the last.
    """
    if COMPLETE in os.environ:
        return completed(os.environ[COMPLETE])
    if words[:1] == [FORMER_COMPLETE]:
        return completed_line([word for word in words[1:] if word != "--"][1:])
    contexts: list[click.Context] = []
    code = ended(lambda: contexts.extend(parse(words)))
    for position, ctx in enumerate(contexts, 1):
        code = ended(partial(ctx.command.invoke, ctx))
        if code != PASS:
            left = ", ".join(path_of(later) for later in contexts[position:])
            if left:
                say(f"hwcheck: {path_of(ctx)} ended with exit code {code}; not run: {left}")
            break
    return code


def completed(instruction: str) -> int:
    """Answer a shell that completes a command line; return the exit code."""
    from click.shell_completion import shell_complete  # not above: a shell asks for it

    return shell_complete(hwcheck, {}, "hwcheck", COMPLETE, instruction)


def completed_line(words: Sequence[str]) -> int:
    """Answer a script of a former version, which leaves out what does not begin as typed."""
    from click.shell_completion import ShellComplete

    shell = ShellComplete(hwcheck, {}, "hwcheck", COMPLETE)
    *before, last = words or [""]
    items = shell.get_completions(before, "-" if last.startswith("-") else "")
    items += shell.get_completions([*words], "") if last else []
    emit("".join(f"{item.value}\n" for item in items if item.type == "plain"))
    return PASS


def _printing(text: Callable[[click.Context], str]) -> Callable[..., None]:
    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> None:  # noqa: ARG001
        if value and not ctx.resilient_parsing:
            emit(text(ctx))
            ctx.exit()

    return callback


def _listed(ctx: click.Context) -> str:
    if ctx.meta.get(LIST_FORMAT) == "json":
        tasks = [
            {"name": name, "help": load(name).get_short_help_str(1000), "aliases": []}
            for name in sorted(COMMANDS)
        ]
        whole = {"name": None, "help": None, "default": None, "tasks": tasks, "collections": []}
        return json.dumps(whole) + "\n"
    formatter = ctx.make_formatter()
    hwcheck.format_commands(ctx, formatter)
    return formatter.getvalue().lstrip("\n")


def _print_script(ctx: click.Context, param: click.Parameter, value: Any) -> None:  # noqa: ARG001
    if value and not ctx.resilient_parsing:
        from click.shell_completion import get_completion_class

        shell = get_completion_class(value)
        assert shell is not None
        emit(shell(hwcheck, {}, "hwcheck", COMPLETE).source())
        ctx.exit()


_EARLY: dict[str, Any] = {"is_eager": True, "expose_value": False}
hwcheck = Root(
    "hwcheck",
    help="Say which GPU nodes can be trusted, why the others cannot, and which NCCL settings fit.",
    subcommand_metavar="COMMAND [OPTIONS]",
    context_settings={"max_content_width": 100},
    params=[
        Option(
            ["--print-completion-script"],
            type=OneOf(SHELLS),
            callback=_print_script,
            help="print what has a shell complete commands, options and their words",
            **_EARLY,
        ),
        Option(
            LIST_FLAGS,
            is_flag=True,
            callback=_printing(_listed),
            help="list the commands",
            expose_value=False,  # and not eager: -F says how
        ),
        Option(
            ["-F", LIST_FORMAT],
            type=OneOf(("flat", "nested", "json")),
            callback=lambda ctx, _, value: ctx.meta.update({LIST_FORMAT: value}),
            hidden=True,
            **_EARLY,
        ),
        Option(
            ["-V", "--version"],
            is_flag=True,
            callback=_printing(lambda _: f"hwcheck {__version__}\n"),
            help="print the version",
            **_EARLY,
        ),
    ],
)
