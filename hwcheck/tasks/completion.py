"""What the shell completes: commands, their options, and the words that an option takes.

Invoke prints the script for the shell (``hwcheck --print-completion-script bash``), which asks
``hwcheck --complete``; where nothing is printed the shell completes the names of files.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence

from invoke import Collection

from hwcheck.node import checks
from hwcheck.node.training.strategies import NAMES
from hwcheck.node.wire import COLLECTIVES, DTYPES, LEG_NAMES, LOAD_DTYPES
from hwcheck.render.history import FORMATS
from hwcheck.results.multi_host import SCOPES
from hwcheck.run.options import ENGINES, LAUNCHERS
from hwcheck.run.plan import PROFILES
from hwcheck.shipped import ROOTS
from hwcheck.sweep.levels import LEVELS
from hwcheck.tasks import accept, site, sweep, train

LISTS = (
    *("--only", "--skip", "--names", "--collectives", "--legs", "--scope", "--roles", "--tags"),
    "--strategies",
)
"""Options that take several words with commas between."""


def _roles() -> list[str]:
    return sorted({path.name for root in ROOTS for path in (root / "roles").glob("*/")})


VALUES: Mapping[str, Callable[[], Sequence[str]]] = {
    "--only": lambda: list(checks.load()),
    "--skip": lambda: list(checks.load()),
    "--names": lambda: [*checks.load(), "all"],
    "--collectives": lambda: [*COLLECTIVES, "all"],
    "--legs": lambda: LEG_NAMES,
    "--scope": lambda: ["node", *SCOPES],
    "--profile": lambda: list(PROFILES),
    "--engine": lambda: ENGINES,
    "--datatype": lambda: DTYPES,
    "-d": lambda: DTYPES,
    "--load-dtype": lambda: LOAD_DTYPES,
    "--roles": _roles,
    "--tags": _roles,
    "--level": lambda: list(LEVELS),
    "--strategies": lambda: NAMES,
    "--launcher": lambda: LAUNCHERS,
    "--dtype": lambda: train.DTYPES,
    "--p2p": lambda: list(train.P2P),
    "--tf32": lambda: train.SWITCH,
    "--format": lambda: FORMATS,
}
"""The words that an option takes."""


ACTIONS: Mapping[str, Sequence[str]] = {
    "accept": accept.ACTIONS,
    "site": site.ACTIONS,
    "sweep": sweep.ACTIONS,
    "train": train.ACTIONS,
}
"""The words that follow a command."""


def candidates(text: str, commands: Collection) -> list[str]:
    """Return what may stand at the end of a command line, which begins with the program's name.

    The shell leaves out what does not begin as the last word does.
    """
    try:
        _, *words = shlex.split(text)
    except ValueError:  # a quote that is not closed yet, or nothing at all
        return []
    last = words[-1] if words else ""
    before = words[-2] if len(words) > 1 else ""
    for option, typed in ((last, ""), (before, last)):
        if option in VALUES:
            earlier = typed[: typed.rfind(",") + 1] if option in LISTS else ""
            return [earlier + value for value in VALUES[option]()]
    command = next((word for word in words if word in commands.task_names), "")
    if not command:
        return sorted(commands.task_names)
    if command in (last, before) and command in ACTIONS and not last.startswith("-"):
        return list(ACTIONS[command])
    if command == "checks" and "-" not in {last[:1], before[:1]}:
        return [*VALUES["--names"]()]
    if not last.startswith("-"):
        return []
    flags = commands[command].get_arguments()
    names = {name for flag in flags for name in flag.names}
    return sorted(f"{'--' if len(name) > 1 else '-'}{name.replace('_', '-')}" for name in names)
