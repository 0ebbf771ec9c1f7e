"""``fab sweep``: what runs every night: the hosts that are due, within a time, few at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from invoke import Context

from hwcheck.errors import UsageError
from hwcheck.sweep.levels import LEVELS, amount, chosen_levels, length_s, read_levels
from hwcheck.tasks.command import command, end
from hwcheck.tasks.dataset import RUNS
from hwcheck.tasks.flags import HELP, one_of, read_cluster
from hwcheck.tasks.output import emit
from hwcheck.tasks.site_option import SITE_HELP, refuse_unknown_names, with_site
from hwcheck.tasks.sweep_run import Asked, preview, run

ACTIONS = ("run",)

V = TypeVar("V")


@command(
    positional=["action"],
    help={
        "action": "run: measure the hosts that are due",
        "hosts": HELP["hosts"],
        "limit": HELP["limit"],
        "level": f"{', '.join(LEVELS)} (default: what is due of all but the first)",
        "budget": "time that the sweep may take (2h; default: as the levels say)",
        "max-unavailable": "hosts that are measured at once, a count or a share (10%)",
        "drained": "also measure nodes that somebody drained in the scheduler",
        "dry-run": "say who would be measured, in which order and why; nothing is written",
        "out": "folder of the run folders (default: runs)",
        "accept-new-host-keys": HELP["accept-new-host-keys"],
        **SITE_HELP,
        "verbose": "say what every host is doing",
    },
)
@with_site
def sweep(
    ctx: Context,  # noqa: ARG001 - invoke hands every task its context
    action: str,
    hosts: str = "",
    limit: str | None = None,
    level: str = "",
    budget: str = "",
    max_unavailable: str = "",
    drained: bool = False,
    dry_run: bool = False,
    out: str = RUNS,
    accept_new_host_keys: bool = False,
    site: str | None = None,  # noqa: ARG001 - with_site takes it
    verbose: bool = False,
) -> None:
    """Measure the hosts that are due, within a time, few at once; what a timer runs every night."""
    one_of("sweep", action, ACTIONS)
    if not out.strip():
        raise UsageError("--out is empty; name a folder, or leave --out out for runs")
    at_once = _parsed("--max-unavailable", amount, max_unavailable)
    budget_s = _parsed("--budget", length_s, budget)
    cluster = read_cluster(hosts, limit)
    refuse_unknown_names(cluster)
    levels = chosen_levels(read_levels(cluster), level)
    if at_once:
        levels = tuple(replace(each, max_unavailable=at_once, stated=True) for each in levels)
    asked = Asked(
        cluster,
        levels,
        budget_s or sum(each.budget_s for each in levels),
        Path(out),
        whole=limit is None,
        drained=drained,
        accept_new_host_keys=accept_new_host_keys,
        verbose=verbose,
    )
    if dry_run:
        emit(preview(asked))
    else:
        end(run(asked))


def _parsed(flag: str, parse: Callable[[str], V], text: str) -> V | None:
    """Return what a flag says; None where it is not given. Raises UsageError."""
    try:
        return parse(text) if text else None
    except ValueError as error:
        raise UsageError(f"{flag} {error}") from None
