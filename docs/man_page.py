"""The man page, from the text that ``hwcheck COMMAND --help`` prints: ``make man`` writes it.

The language is that of man(7). The wheel puts the page into ``share/man/man1`` of the environment.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from hwcheck import __version__
from hwcheck.cli.command import Actions, Command, Option
from hwcheck.cli.root import COMMANDS, hwcheck, load
from hwcheck.exit_codes import FAILED, INTERRUPTED, NOT_MEASURED, PASS, USAGE

FILE = Path(__file__).parent / "hwcheck.1"

EXIT_CODES = {
    PASS: "Everything passed, or no more than a warning.",
    FAILED: "Something failed.",
    USAGE: "The command line or the inventory cannot be used; nothing was changed.",
    NOT_MEASURED: "Something could not be measured.",
    INTERRUPTED: "Ctrl-C.",
}
FILES = {
    "runs/": "A folder for each run: records, report, logs; runs/latest is the newest.",
    "~/.cache/hwcheck": "On a node: the payload. What nobody used for 30 days is removed.",
    "ansible.cfg": "inventory, remote_user, private_key_file, ssh_args and become count as for "
    "ansible.",
    "~/.ssh/config, known_hosts": "As for ssh; host keys are always verified.",
}


def page() -> str:
    """Return the page, one request or line of text on a line."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield rf".\" Made by make man from the texts of --help. {__version__}"
    yield f'.TH HWCHECK 1 "" "hwcheck {__version__}" "User Commands"'
    yield from (".SH NAME", r"hwcheck \- which GPU nodes can be trusted, why the others cannot, ")
    yield "and which NCCL settings fit this cluster"
    yield from (".SH SYNOPSIS", ".B hwcheck", r"\fICOMMAND\fR [\fIOPTIONS\fR]")
    yield from (".SH COMMANDS",)
    root = click.Context(hwcheck, info_name="hwcheck")
    for name in COMMANDS:
        command = load(name)
        yield from _section(click.Context(command, root, name))
        for action in command.commands.values() if isinstance(command, Actions) else ():
            yield from _section(
                click.Context(action, click.Context(command, root, name), action.name)
            )
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_CODES.items():
        yield from (".TP", f".B {code}", _escaped(meaning))
    yield from (".PP", "Of several, the gravest counts: 130, 2, 1, 3, 0.", ".SH FILES")
    for file, meaning in FILES.items():
        yield from (".TP", f".I {_escaped(file)}", _escaped(meaning))
    yield from (".SH SEE ALSO", ".BR ssh_config (5),", ".BR ansible (1),", ".BR nvidia-smi (1)")


def _section(ctx: click.Context) -> Iterator[str]:
    """Yield a command or an action, with what it takes and its examples."""
    command = ctx.command
    yield f".SS {ctx.command_path}"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield from (".PP", _escaped(" ".join(paragraph.split())))
    yield from (".PP", _escaped(" ".join([ctx.command_path, *command.collect_usage_pieces(ctx)])))
    for param in command.params:
        if param.expose_value:
            yield from (".TP", _names(param, ctx), _escaped(getattr(param, "help", "") or ""))
    for example in command.examples if isinstance(command, Command) else ():
        yield from (".PP", rf"\fB{_escaped(example)}\fR")


def _names(param: click.Parameter, ctx: click.Context) -> str:
    """Return an option's names in bold, the short one first, with the word that it takes."""
    value = rf"\fI{_escaped(param.make_metavar(ctx))}\fR"
    if not isinstance(param, Option):
        return value
    flags = sorted(param.opts, key=len)
    after = rf"\fR {value}" if param.takes_value else r"\fR"
    return ", ".join(rf"\fB{_escaped(flag)}" + after for flag in flags)


def _escaped(text: str) -> str:
    r"""Return text of which no part is a request: ``.`` and ``'`` begin one, ``\`` an escape."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text[:1] in {".", "'"} else text


if __name__ == "__main__":
    FILE.write_text(page())
