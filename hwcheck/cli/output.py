"""What the commands write. A reader that went away (``| head -1``) is no error; a full disk is."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Literal, TextIO, cast

from hwcheck.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType


def emit(text: str, afterwards: str = "") -> None:
    """Write to stdout, to its end.

    Raises UsageError, with ``afterwards`` as what to do, when stdout is a file on a full disk, or
    closed.
    """
    refuse_closed_stdout()
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except OSError as error:
        unprinted(error, afterwards)


def refuse_closed_stdout() -> None:
    """Raise UsageError when the caller closed stdout: nobody would hear the verdict."""
    if sys.stdout is None:
        raise UsageError("stdout is closed (>&-); lead it to a file, or to /dev/null")


def unprinted(error: OSError, afterwards: str = "") -> None:
    """Give stdout up. Raises UsageError unless it was its reader who went away."""
    mute(sys.stdout)
    if not isinstance(error, BrokenPipeError):
        raise UsageError(f"cannot write to stdout: {error.strerror}{afterwards}") from None


def say(text: str) -> None:
    """Write one line to stderr; when nobody can read it, there is nobody to tell."""
    if sys.stderr is None:  # the caller closed it (2>&-)
        return
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        mute(sys.stderr)


def complain(error: UsageError) -> None:
    """Write what is wrong to stderr, each of its lines as one of ours."""
    for text in str(error).splitlines():
        say(f"hwcheck: {text}")


def rendered(what: RenderableType) -> str:
    """Return what Rich would print on stdout: as wide as the terminal, in color where it has any.

    Nothing is cropped: the terminal itself breaks a word that is too long for it. Printing is left
    to ``emit``: Rich ends the program when the reader goes away.
    """
    from rich.console import Console  # not above: --version and --help have no table

    stdout, paper = Console(), io.StringIO()
    Console(
        file=paper,
        width=stdout.width,
        force_terminal=stdout.is_terminal,
        color_system=cast("Literal['standard'] | None", stdout.color_system),
    ).print(what, crop=False)
    return paper.getvalue()


def mute(stream: TextIO) -> None:
    """Lead a stream to nowhere, so that what is still in its buffer fails no more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
