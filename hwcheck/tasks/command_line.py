"""What ``hwcheck`` parses and runs: the same tasks as ``fab``, with no fabfile."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from fabric import Config
from fabric.main import Fab
from invoke import Exit
from invoke.exceptions import ParseError

from hwcheck import __version__
from hwcheck.errors import UsageError
from hwcheck.tasks.command import one_of
from hwcheck.tasks.executor import Executor, refuse_core_flags
from hwcheck.tasks.namespace import namespace
from hwcheck.tasks.output import emit, say, unprinted

LIST_FORMATS = ("flat", "nested", "json")


class _Config(Config):  # type: ignore[misc]
    """Fabric's configuration without the ssh files.

    ``connect.ssh_config`` reads these, where they are wanted, with what they include.
    """

    def load_ssh_config(self) -> None:
        """Load nothing."""


class Program(Fab):  # type: ignore[misc]
    """Fabric's program, with exit code 2 for a command line that cannot be parsed.

    Invoke ends a Ctrl-C with its own 1 and no word: here it goes on to whoever called.
    """

    def run(self, argv: list[str] | None = None, exit: bool = True) -> None:  # noqa: A002
        """Run a command line. Raises KeyboardInterrupt, and SystemExit with its exit code."""
        try:
            super().run(argv, exit)
        except SystemExit as ended:
            if isinstance(ended.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise

    def create_config(self) -> None:
        """Load the configuration files of Invoke and Fabric."""
        try:
            super().create_config()
        except OSError as error:  # ~/.fabric.yaml of a HOME that is another user's
            say(f"hwcheck: {error.filename}: {error.strerror}")
            sys.exit(2)

    def parse_core(self, argv: list[str] | None) -> None:
        """Parse the flags before the first task."""
        with _refusing():
            super().parse_core(argv)

    def parse_tasks(self) -> None:
        """Parse what follows the core flags."""
        with _refusing():
            super().parse_tasks()

    def parse_cleanup(self) -> None:
        """Do what ends the program early, such as ``--help TASK``."""
        with _refusing():
            one_of("-F", self.args["list-format"].value, LIST_FORMATS)
            super().parse_cleanup()

    def update_config(self) -> None:
        """Load what the core flags name."""
        with _refusing():
            refuse_core_flags(self.args, self.core.remainder)
            super().update_config()


program = Program(
    name="hwcheck",
    binary="hwcheck",
    version=__version__,
    namespace=namespace,
    executor_class=Executor,
    config_class=_Config,
)


@contextmanager
def _refusing() -> Iterator[None]:
    """End with one line and exit code 2 what cannot be understood, or not be printed."""
    try:
        with _printing():
            yield
    except (ParseError, UsageError) as error:
        say(f"hwcheck: {error}")
    except ValueError as error:  # -t soon
        say(f"hwcheck: a core flag wants a number: {error}")
    else:
        return
    sys.exit(2)


@contextmanager
def _printing() -> Iterator[None]:
    """See to it that what Invoke prints before it ends (--list, --help) is out, or cannot be."""
    try:
        yield
    except Exit as ended:
        if ended.message:  # --list of a collection that is not there
            raise UsageError(ended.message) from None
        emit("")
        raise
    except OSError as error:
        unprinted(error)
        raise Exit from None
