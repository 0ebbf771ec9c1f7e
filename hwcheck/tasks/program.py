"""The ``hwcheck`` command: the same tasks as ``fab``, with no fabfile."""

from __future__ import annotations

import sys

from fabric import Config, Executor
from fabric.main import Fab
from invoke.exceptions import ParseError

from hwcheck import __version__
from hwcheck.tasks import namespace


class Program(Fab):  # type: ignore[misc]
    """Fabric's program, with exit code 2 for a command line that cannot be parsed."""

    def parse_tasks(self) -> None:
        """Parse what follows the core flags."""
        try:
            super().parse_tasks()
        except ParseError as error:
            sys.stderr.write(f"hwcheck: {error}\n")
            sys.exit(2)


program = Program(
    name="hwcheck",
    binary="hwcheck",
    version=__version__,
    namespace=namespace,
    executor_class=Executor,
    config_class=Config,
)


def main() -> None:
    """Run the command line."""
    program.run()
