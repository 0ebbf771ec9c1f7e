"""The man page, from the text that ``hwcheck COMMAND --help`` prints: ``make man`` writes it.

The language is that of man(7). The wheel puts the page into ``share/man/man1`` of the environment.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from invoke import Argument

from hwcheck import __version__
from hwcheck.exit_codes import FAILED, INTERRUPTED, NOT_MEASURED, PASS, USAGE
from hwcheck.tasks.command_line import COMMANDS, commands

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
    collection = commands()
    for name in COMMANDS:
        task = collection[name]
        yield f".SS hwcheck {name}"
        for paragraph in inspect.cleandoc(task.__doc__ or "").split("\n\n"):
            yield from (".PP", _escaped(" ".join(paragraph.split())))
        for argument in sorted(task.get_arguments(), key=lambda each: each.name):
            yield from (".TP", _names(argument), _escaped(argument.help or ""))
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_CODES.items():
        yield from (".TP", f".B {code}", _escaped(meaning))
    yield from (".PP", "Of several, the gravest counts: 130, 2, 1, 3, 0.", ".SH FILES")
    for file, meaning in FILES.items():
        yield from (".TP", f".I {_escaped(file)}", _escaped(meaning))
    yield from (".SH SEE ALSO", ".BR ssh_config (5),", ".BR ansible (1),", ".BR nvidia-smi (1)")


def _names(argument: Argument) -> str:
    """Return an option's names in bold, the short one first, with the word that it takes."""
    names = sorted((re.sub(r"_", "-", each) for each in argument.names), key=len)
    flags = [f"-{name}" if len(name) == 1 else f"--{name}" for name in names]
    value = r"\fR \fISTRING\fR" if argument.takes_value else r"\fR"
    return ", ".join(rf"\fB{_escaped(flag)}" + value for flag in flags)


def _escaped(text: str) -> str:
    r"""Return text of which no part is a request: ``.`` and ``'`` begin one, ``\`` an escape."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text[:1] in {".", "'"} else text


if __name__ == "__main__":
    FILE.write_text(page())
