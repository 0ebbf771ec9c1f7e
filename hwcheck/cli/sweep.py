"""``hwcheck sweep``: what runs every night: the hosts that are due, within a time, few at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hwcheck.cli.command import end, fab_task, flag, group, option, together
from hwcheck.cli.flags import (
    USUAL,
    accept_flag,
    list_names,
    out_flag,
    reaching,
    read_cluster,
    reading,
    select,
)
from hwcheck.cli.output import emit, say
from hwcheck.cli.site_option import all_checks, site_files, site_flag, with_site
from hwcheck.cli.sweep_run import run
from hwcheck.cli.values import Duration, OneOf, Text
from hwcheck.connect.connector import connection_check
from hwcheck.contract.check import Check
from hwcheck.contract.wire import COLLECTIVES
from hwcheck.errors import UsageError
from hwcheck.fleet.notify import config
from hwcheck.fleet.sweep.draining import DRY_RUN, read_drain_failed, refuse, release
from hwcheck.fleet.sweep.install import install, remove, status
from hwcheck.fleet.sweep.levels import LEVELS, Level, chosen_levels, read_levels
from hwcheck.fleet.sweep.request import SweepRequest, preview
from hwcheck.fleet.sweep.schedule import time_of_day
from hwcheck.inventory.defaults import ConnectionFlags
from hwcheck.inventory.inventory import Cluster, Host
from hwcheck.scheduler.records import Amount
from hwcheck.times import length_text

if TYPE_CHECKING:
    from hwcheck.site.additions import Additions

__getattr__ = fab_task(__name__)

DRAIN = "drain"
"""What ``--drain-failed`` says without a value."""


@group("sweep")
def cli() -> None:
    """Measure the hosts that are due, within a time, few at once; what a timer runs every night."""


level_flag = option(
    "--level",
    type=OneOf(LEVELS),
    help=f"{', '.join(LEVELS)} (default: what is due of all but the first)",
)
dry_run_flag = flag("--dry-run", help="say what would be done; nothing is written")


measuring_flags = together(
    option(
        "--budget",
        type=Duration(),
        help="time that the sweep may take (2h; default: as the levels say)",
    ),
    option(
        "--max-unavailable",
        type=Text("amount", Amount.parse),
        help="hosts that are measured at once, a count or a share (10%)",
    ),
    flag(
        "--drained",
        help="also measure nodes that somebody else drained in the scheduler",
    ),
    option(
        "--drain-failed",
        is_flag=False,
        flag_value=DRAIN,
        type=OneOf((DRY_RUN,), bare=DRAIN),
        metavar=f"[{DRY_RUN}]",
        help="drain the hosts that fail in their scheduler (dry-run: only say which)",
    ),
    option(
        "--max-drained",
        type=Text("amount", Amount.parse),
        help="nodes that may be out of service, of all and of each partition: a count or a "
        "share (default: 10%)",
    ),
    option(
        "--notify",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="file that says who is told what changed (docs/telling-people.md)",
    ),
)


@cli.command(
    "run",
    examples=(
        "hwcheck sweep run --hosts cluster.yml --dry-run",
        "hwcheck sweep run --hosts cluster.yml --budget 90m --max-unavailable 10%",
        "hwcheck sweep run --hosts cluster.yml --level weekly --limit h100",
    ),
)
@level_flag
@measuring_flags
@flag(
    "--dry-run",
    help="say who would be measured, in which order and why; nothing is written",
)
@out_flag
@site_flag()
@reaching(forks=None, forks_help="the same as --max-unavailable with a count")
@with_site
def run_action(
    *,
    dry_run: bool,
    site: str | None,  # noqa: ARG001 - with_site takes it
    list_hosts: bool,
    verbose: bool,
    additions: Additions | None,
    **asked: Any,
) -> None:
    """Measure the hosts that are due."""
    reach = connection_check(accept_new_host_keys=asked["accept_new_host_keys"])
    cluster = _cluster(asked, additions, None if list_hosts else reach)
    if list_hosts:
        list_names(cluster)
        return
    request = _request(cluster, asked, additions, dry_run=dry_run)
    if dry_run:
        emit(preview(request))
    else:
        end(run(request, additions, verbose=verbose))


@cli.command(
    "release",
    examples=(
        "hwcheck sweep release --hosts cluster.yml --dry-run",
        "hwcheck sweep release --hosts cluster.yml",
        "hwcheck sweep release --hosts cluster.yml --limit node03",
    ),
)
@level_flag
@dry_run_flag
@out_flag
@site_flag()
@reading()
@with_site
def release_action(
    *,
    dry_run: bool,
    site: str | None,  # noqa: ARG001 - with_site takes it
    additions: Additions | None,
    **asked: Any,
) -> None:
    """Give back what sweeps drained and what measured well since."""
    request = _request(_cluster(asked, additions), asked, additions)
    hosts = request.cluster.hosts
    text, code = release(hosts, request.runs, request.visits(), dry_run=dry_run)
    emit(text)
    end(code)


@cli.command(
    "status",
    examples=(
        "hwcheck sweep status --hosts cluster.yml",
        "hwcheck sweep status --hosts cluster.yml --level minutes",
        "hwcheck sweep status --hosts cluster.yml --out /srv/runs",
    ),
)
@level_flag
@out_flag
@site_flag()
@reading(limit=False)
@with_site
def status_action(
    *,
    level: str | None,
    site: str | None,  # noqa: ARG001 - with_site takes it
    additions: Additions | None,
    **asked: Any,
) -> None:
    """Say how old the last sweeps are; the exit code is 1 where one is missing."""
    request = _request(_cluster(asked, additions), {**asked, "level": level}, additions)
    text, code = status(request, level or "", _say)
    emit(text)
    end(code)


@cli.command(
    "install",
    examples=(
        "hwcheck sweep install --hosts cluster.yml --dry-run",
        "hwcheck sweep install -i cluster.yml --at 01:00 --randomize 90m --budget 3h",
        "hwcheck sweep install --hosts cluster.yml --level minutes --run-as hwcheck",
    ),
)
@level_flag
@measuring_flags
@option("--at", type=Text("HH:MM", time_of_day), help="when it begins (default 02:30)")
@option(
    "--randomize",
    type=Duration(),
    help="so much later at most, each night anew (default 30m)",
)
@option(
    "--run-as",
    metavar="USER",
    default="",
    help="as root: the user of this machine that it runs as",
)
@dry_run_flag
@out_flag
@site_flag()
@accept_flag
@reading()
@with_site
def install_action(
    *,
    at: str | None,
    randomize: float | None,
    run_as: str,
    dry_run: bool,
    site: str | None,
    additions: Additions | None,
    **asked: Any,
) -> None:
    """Have it run every night."""
    request = _request(_cluster(asked, additions), asked, additions, dry_run=dry_run)
    emit(
        install(
            request,
            {
                **_every_night(asked),
                "site": site,
                **_kept(asked["connection"], asked["extra_vars"]),
            },
            at=at or "",
            randomize_s=randomize,
            user=run_as,
            dry_run=dry_run,
            say=_say,
        )
    )


@cli.command(
    "remove",
    examples=(
        "hwcheck sweep remove --hosts cluster.yml --dry-run",
        "hwcheck sweep remove --hosts cluster.yml",
        "hwcheck sweep remove --hosts cluster.yml --level minutes",
    ),
)
@level_flag
@dry_run_flag
@out_flag
@site_flag()
@reading(limit=False)
@with_site
def remove_action(
    *,
    level: str | None,
    dry_run: bool,
    site: str | None,  # noqa: ARG001 - with_site takes it
    additions: Additions | None,
    **asked: Any,
) -> None:
    """Undo install."""
    request = _request(_cluster(asked, additions), {**asked, "level": level}, additions)
    emit(remove(request, level or "", dry_run=dry_run, say=_say))


def _cluster(
    asked: Mapping[str, Any],
    additions: Additions | None,
    reach: Callable[[Sequence[Host]], None] | None = None,
) -> Cluster:
    """Return the hosts that the flags name. Raises UsageError."""
    return read_cluster(
        asked["hosts"],
        asked.get("limit"),
        asked["extra_vars"],
        asked["connection"],
        checks=all_checks(additions),
        reach=reach,
    )


def _request(
    cluster: Cluster,
    asked: Mapping[str, Any],
    additions: Additions | None,
    *,
    dry_run: bool = False,
) -> SweepRequest:
    """Return what the flags ask of a sweep; what an action has no flag for is usual.

    Raises UsageError, also where hosts that fail could not be drained.
    """
    chosen = chosen_levels(read_levels(cluster), asked["level"] or "")
    at_once, forks, notify = asked.get("max_unavailable"), asked.get("forks"), asked.get("notify")
    if at_once and forks:
        raise UsageError("--forks: it is --max-unavailable with a count; say one of them")
    if forks:
        at_once = Amount(count=forks)
    if at_once:
        chosen = tuple(replace(level, max_unavailable=at_once, stated=True) for level in chosen)
    checks = all_checks(additions)
    request = SweepRequest(
        cluster,
        chosen,
        {level.name: checks_of(level, checks) for level in LEVELS.values()},
        tuple(name for name, check in checks.items() if check.load),
        asked.get("budget") or sum(level.budget_s for level in chosen),
        Path(asked["out"]),
        whole=asked.get("limit") is None,
        drained=asked.get("drained", False),
        accept_new_host_keys=asked.get("accept_new_host_keys", False),
        site=site_files(additions),
        notify=config.read(Path(notify).resolve()) if notify else None,
        drain_failed=read_drain_failed(asked.get("drain_failed"), asked.get("max_drained")),
    )
    if request.drain_failed:
        refuse(cluster.hosts, request.runs, request.drain_failed, dry_run=dry_run)
    return request


def _every_night(asked: Mapping[str, Any]) -> dict[str, object]:
    """Return the flags of ``sweep run``, as words, that these of ``sweep install`` ask for."""
    budget, drain_failed, notify = asked["budget"], asked["drain_failed"], asked["notify"]
    return {
        "limit": asked["limit"],
        "budget": length_text(budget) if budget else "",
        "max-unavailable": asked["max_unavailable"] or "",
        "notify": str(Path(notify).resolve()) if notify else "",
        "drained": asked["drained"],
        "accept-new-host-keys": asked["accept_new_host_keys"],
        "drain-failed": drain_failed == DRAIN or drain_failed,
        "max-drained": asked["max_drained"] or "",
        "level": asked["level"] or "",
    }


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
