"""``fab sweep``: what runs every night: the hosts that are due, within a time, few at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from invoke import Context

from hwcheck.connect.connector import connection_check
from hwcheck.errors import UsageError
from hwcheck.inventory.defaults import NO_FLAGS, ConnectionFlags
from hwcheck.node.check import Check
from hwcheck.node.wire import COLLECTIVES
from hwcheck.notify import config
from hwcheck.scheduler.records import Amount
from hwcheck.sweep.draining import read_drain_failed, refuse, release
from hwcheck.sweep.install import install, remove, status
from hwcheck.sweep.levels import LEVELS, Level, chosen_levels, length_s, read_levels
from hwcheck.sweep.request import SweepRequest, preview
from hwcheck.sweep.schedule import time_of_day
from hwcheck.tasks.command import end, reaching_command
from hwcheck.tasks.dataset import RUNS
from hwcheck.tasks.flags import USUAL, one_of, out_folder, read_cluster, select
from hwcheck.tasks.output import emit, say
from hwcheck.tasks.site_option import SITE_HELP, all_checks, site_files, with_site
from hwcheck.tasks.sweep_run import run

ACTIONS = ("run", "release", "status", "install", "remove")

if TYPE_CHECKING:
    from hwcheck.site.additions import Additions

V = TypeVar("V")


@reaching_command(
    positional=["action"],
    help={
        "action": "run: measure the hosts that are due; release: give back what sweeps drained and "
        "what measured well since; install: have it run every night; status: "
        "how old the last sweeps are (exit code 1 where one is missing); remove: undo install",
        "level": f"{', '.join(LEVELS)} (default: what is due of all but the first)",
        "budget": "time that the sweep may take (2h; default: as the levels say)",
        "max-unavailable": "hosts that are measured at once, a count or a share (10%)",
        "drained": "also measure nodes that somebody else drained in the scheduler",
        "dry-run": "say who would be measured, in which order and why (release, install, remove: "
        "what would be done); nothing is written",
        "drain-failed": "drain the hosts that fail in their scheduler (dry-run: only say which)",
        "max-drained": "nodes that may be out of service, of all and of each partition: a count or "
        "a share (default: 10%)",
        "notify": "file that says who is told what changed (docs/telling-people.md)",
        "at": "with install: when it begins (default 02:30)",
        "randomize": "with install: so much later at most, each night anew (default 30m)",
        "run-as": "with install, as root: the user of this machine that it runs as",
        "out": "folder of the run folders (default: runs)",
        **SITE_HELP,
        "verbose": "say what every host is doing",
    },
    optional=["drain_failed"],
)
@with_site
def sweep(
    ctx: Context,  # noqa: ARG001 - invoke hands every task its context
    action: str,
    hosts: str | None = None,
    limit: str | None = None,
    level: str = "",
    budget: str = "",
    max_unavailable: str = "",
    drained: bool = False,
    drain_failed: str | None = None,
    max_drained: str = "",
    dry_run: bool = False,
    notify: str = "",
    at: str = "",
    randomize: str = "",
    run_as: str = "",
    out: str = RUNS,
    accept_new_host_keys: bool = False,
    site: str | None = None,
    verbose: bool = False,
    extra_vars: Sequence[str] | None = None,
    connection: ConnectionFlags = NO_FLAGS,
    *,
    additions: Additions | None,
) -> None:
    """Measure the hosts that are due, within a time, few at once; what a timer runs every night."""
    one_of("sweep", action, ACTIONS)
    of_run: dict[str, object] = {
        "budget": budget,
        "max-unavailable": max_unavailable,
    }
    notify = str(Path(notify).resolve()) if notify else ""
    of_run |= {"notify": notify, "drained": drained, "accept-new-host-keys": accept_new_host_keys}
    of_run |= {"drain-failed": drain_failed, "max-drained": max_drained}
    of_install = {"at": at, "randomize": randomize, "run-as": run_as}
    _refuse(action, of_run, ("run", "install"))
    _refuse(action, {"limit": limit}, ("run", "install", "release"))
    _refuse(action, {"verbose": verbose}, ("run",))
    _refuse(action, {"dry-run": dry_run}, ("run", "release", "install", "remove"))
    _refuse(action, of_install, ("install",))
    runs = out_folder(out)
    at_once = _parsed("--max-unavailable", Amount.parse, max_unavailable)
    budget_s = _parsed("--budget", length_s, budget)
    checks = all_checks(additions)
    reach = connection_check(accept_new_host_keys=accept_new_host_keys)
    cluster = read_cluster(
        hosts,
        limit,
        extra_vars or (),
        connection,
        checks=checks,
        reach=reach if action == "run" else None,
    )
    chosen = chosen_levels(read_levels(cluster), level)
    if at_once:
        chosen = tuple(replace(each, max_unavailable=at_once, stated=True) for each in chosen)
    request = SweepRequest(
        cluster,
        chosen,
        {each.name: checks_of(each, checks) for each in LEVELS.values()},
        tuple(name for name, check in checks.items() if check.load),
        budget_s or sum(each.budget_s for each in chosen),
        runs,
        whole=limit is None,
        drained=drained,
        accept_new_host_keys=accept_new_host_keys,
        site=site_files(additions),
        notify=config.read(Path(notify)) if notify else None,
        drain_failed=read_drain_failed(drain_failed, max_drained),
    )
    if request.drain_failed:
        refuse(cluster.hosts, request.runs, request.drain_failed, dry_run=dry_run)
    if action == "status":
        text, code = status(request, level, _say)
        emit(text)
        end(code)
    elif action == "release":
        text, code = release(cluster.hosts, request.runs, request.visits(), dry_run=dry_run)
        emit(text)
        end(code)
    elif action == "remove":
        emit(remove(request, level, dry_run=dry_run, say=_say))
    elif action == "install":
        begin = _parsed("--at", time_of_day, at) or ""
        random_s = _parsed("--randomize", length_s, randomize)
        flags = {"limit": limit, **of_run, "level": level, "site": site}
        flags |= _kept(connection, extra_vars or ())
        emit(
            install(
                request,
                flags,
                at=begin,
                randomize_s=random_s,
                user=run_as,
                dry_run=dry_run,
                say=_say,
            )
        )
    elif dry_run:
        emit(preview(request))
    else:
        end(run(request, additions, verbose=verbose))


def checks_of(level: Level, every: Mapping[str, Check]) -> tuple[str, ...]:
    """Return the checks of a level."""
    usual = USUAL if level.profile == "quick" else COLLECTIVES
    names = select(every, None, None, usual=usual)
    return tuple(name for name in names if level.load or not every[name].load)


def _say(text: str) -> None:
    say(f"hwcheck: {text}")


def _kept(connection: ConnectionFlags, extra_vars: Sequence[str]) -> dict[str, object]:
    """Return the flags of the connection for every night. Raises UsageError for a password."""
    if connection.password is not None or connection.become_password is not None:
        raise UsageError(
            "sweep install: nobody is there at night to type a password; vault ansible_password "
            "and ansible_become_password in the inventory"
        )
    return {
        "user": connection.user,
        "become": connection.become,
        "become-user": connection.become_user,
        "extra-vars": [
            f"@{Path(each[1:]).resolve()}" if each.startswith("@") else each for each in extra_vars
        ],
    }


def _refuse(action: str, flags: Mapping[str, object], actions: tuple[str, ...]) -> None:
    """Refuse a flag that goes with other actions. Raises UsageError."""
    for name, value in flags.items():
        if value not in ("", None, False) and action not in actions:
            raise UsageError(f"--{name}: it goes with sweep {' and '.join(actions)}")


def _parsed(flag: str, parse: Callable[[str], V], text: str) -> V | None:
    """Return what a flag says; None where it is not given. Raises UsageError."""
    try:
        return parse(text) if text else None
    except ValueError as error:
        raise UsageError(f"{flag} {error}") from None
