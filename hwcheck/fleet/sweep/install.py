"""``sweep install``, ``remove`` and ``status``: what starts the sweeps, and whether it does."""

from __future__ import annotations

import os
import pwd
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from hwcheck.errors import UsageError
from hwcheck.exit_codes import FAILED, PASS
from hwcheck.fleet.sweep import units
from hwcheck.fleet.sweep.levels import HOUR_S, Level, read_levels
from hwcheck.fleet.sweep.overdue import is_overdue, level_statuses, status_lines
from hwcheck.fleet.sweep.plans import shortfall
from hwcheck.fleet.sweep.request import SweepRequest, plans_now
from hwcheck.fleet.sweep.schedule import MOST_RANDOM_S, ScheduledSweep
from hwcheck.fleet.sweep.state import holder, now_utc, read_state
from hwcheck.inventory.source import locate
from hwcheck.text import line
from hwcheck.times import length_text

AT = "02:30"
RANDOM_S = 30 * 60.0
AFTER_BUDGET_S = 2 * HOUR_S
"""What judging and reports may take beside the budget, before systemd ends a sweep."""
KEPT = ("ANSIBLE_CONFIG", "ANSIBLE_VAULT_PASSWORD_FILE", "KUBECONFIG", "SLURM_CONF")
"""Variables, each a path, that a sweep needs as the one who installs it does."""


def install(
    request: SweepRequest,
    flags: Mapping[str, object],
    *,
    at: str,
    randomize_s: float | None,
    user: str,
    dry_run: bool,
    say: Callable[[str], None],
) -> str:
    """Have the clock start a sweep with these flags; return what was done, or would be.

    ``say`` is called with a line of what else there is to know.

    Raises UsageError.
    """
    where = units.place()
    if user:
        _refuse_user(user)
    if (randomize_s or 0.0) > MOST_RANDOM_S:
        raise UsageError(f"--randomize: at most {length_text(MOST_RANDOM_S)}")
    by_clock = all(level.load for level in request.levels)
    if not by_clock and (at or randomize_s):
        level = request.levels[0]
        raise UsageError(f"--at: {level.name} is swept every {length_text(level.every_s)}")
    for plan in plans_now(request):
        text = shortfall(plan.level, plan.due, len(request.names), request.budget_s)
        if text:
            raise UsageError(text)
    source = locate(request.cluster.source)
    inventory = str(source.path.resolve()) if source.path else source.text
    folders = [
        request.runs.resolve(),
        *(request.runs_of(level).resolve() for level in request.levels),
    ]
    if request.notify and request.notify.metrics:
        folders.append(request.notify.metrics.parent)
    words = [str(_program()), "sweep", "run", "--hosts", inventory]
    words += ["--out", str(request.runs.resolve())]
    for name, value in flags.items():
        if value is True:
            words.append(f"--{name}")
        elif isinstance(value, list):
            words += [word for each in value for word in (f"--{name}", str(each))]
        elif value:
            shown = Path(str(value)).resolve() if name == "site" else value
            words += [f"--{name}", str(shown)]
    job = ScheduledSweep(
        name=_name(request),
        source=inventory,
        words=tuple(words),
        folder=str(Path.cwd()),
        writable=tuple(map(str, dict.fromkeys(folders))),
        at=(at or AT) if by_clock else "",
        randomize_s=int(RANDOM_S if randomize_s is None else randomize_s) if by_clock else 0,
        every_s=int(min(level.every_s for level in request.levels)),
        timeout_s=int(request.budget_s + AFTER_BUDGET_S),
        user=user,
        local=any(host.connection == "local" for host in request.cluster.hosts),
        environment=tuple((name, os.environ[name]) for name in KEPT if os.environ.get(name)),
    )
    for path in () if dry_run else job.writable:
        _make(Path(path), user)
    lines = units.install(job, where, dry_run=dry_run)
    if where.systemctl[1:] == ("--user",):
        say("it runs while you are logged in; `loginctl enable-linger` has it run always")
    return "".join(f"{each}\n" for each in lines)


def remove(request: SweepRequest, level: str, *, dry_run: bool, say: Callable[[str], None]) -> str:
    """Undo ``install``; return what was taken away, or would be. Raises UsageError.

    ``say`` is called with a line of what else there is to know.
    """
    files = units.remove(_name(request), units.place(), dry_run=dry_run)
    for other in () if level else _installed_beside_jobs(request):
        say(f"the sweep of {other.name} stays; --level {other.name} removes it")
    if not files:
        what = level or "a night"
        return f"no sweep of {what} is installed for {line(request.cluster.source, 200)}\n"
    done = "would be removed" if dry_run else "removed"
    return "".join(f"{file}: {done}\n" for file in files)


def status(request: SweepRequest, level: str, say: Callable[[str], None]) -> tuple[str, int]:
    """Return how old the last sweeps are, and the exit code: 1 where one is missing.

    Without a ``level`` those of a night, and those beside jobs where this machine starts them.
    ``say`` is called with a line of what else there is to know.
    """
    state, problem = read_state(request.runs, request.key)
    if problem:
        say(problem)
    held_by = holder(request.runs, request.key)
    levels = request.levels if level else request.levels + _installed_beside_jobs(request)
    statuses = level_statuses(levels, state, now_utc(), held_by)
    lines = status_lines(statuses, state, held_by)
    return "".join(f"{each}\n" for each in lines), FAILED if is_overdue(statuses) else PASS


def _installed_beside_jobs(request: SweepRequest) -> tuple[Level, ...]:
    """Return the levels beside jobs that this machine starts for the inventory."""
    levels = tuple(each for each in read_levels(request.cluster).values() if not each.load)
    try:
        files = units.place().files(_name(replace(request, levels=levels))) if levels else ()
    except UsageError:  # nothing can be installed here
        files = ()
    return levels if any(file.exists() for file in files) else ()


def _name(request: SweepRequest) -> str:
    """Return the name of the units: one for the night, one for the level beside jobs."""
    beside_jobs = not all(level.load for level in request.levels)
    return f"hwcheck-sweep-{request.key}" + ("-minutes" if beside_jobs else "")


def _program() -> Path:
    beside = Path(sys.executable).parent / "hwcheck"
    program = str(beside) if beside.exists() else shutil.which("hwcheck")
    if program is None:
        raise UsageError("the program hwcheck is not beside this Python, nor in PATH")
    return Path(program)


def _refuse_user(user: str) -> None:
    if os.geteuid() != 0:
        raise UsageError("--run-as: only root can have a sweep run as another user")
    try:
        pwd.getpwnam(user)
    except KeyError:
        raise UsageError(f"--run-as {line(user, 40)}: there is no such user here") from None


def _make(path: Path, user: str) -> None:
    try:
        if not path.exists():
            path.mkdir(parents=True)
            if user:
                shutil.chown(path, user)
    except OSError as error:
        raise UsageError(f"cannot make {path}: {error.strerror}; name another with --out") from None
