"""``hwcheck checks``: every check with its metrics, limits and their sources."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from hwcheck import checks as registry
from hwcheck.cli.command import command, fab_task, flag, option
from hwcheck.cli.flags import ALL, hosts_flag, limit_flag, read_cluster
from hwcheck.cli.output import emit, rendered
from hwcheck.cli.site_option import all_checks, site_flag, with_site
from hwcheck.cli.values import Words, split
from hwcheck.errors import UsageError
from hwcheck.report.catalogue import catalogue, catalogue_json, overview

if TYPE_CHECKING:
    from hwcheck.site.additions import Additions

__getattr__ = fab_task(__name__)


def _known() -> list[str]:
    return [*registry.load(), ALL]


@command(
    "checks",
    examples=(
        "hwcheck checks",
        "hwcheck checks pcie_link power_cap",
        "hwcheck checks all --hosts cluster.yml --json",
    ),
)
@click.argument(
    "shown",
    metavar="[CHECK]...",
    nargs=-1,
    type=Words("check", _known),
    help="checks to show whole, with limits and sources; all shows every one (default: a line for "
    "each)",
)
@option("--names", type=Words("check", _known), help="the same, with commas between")
@flag("--json", "as_json", help="print them as JSON")
@hosts_flag("Ansible inventory whose hwcheck_limits are shown, and the site beside it")
@limit_flag()
@site_flag()
@with_site
def cli(
    *,
    shown: Sequence[str],
    names: str | None,
    as_json: bool,
    hosts: str | None,
    limit: str | None,
    site: str | None,  # noqa: ARG001 - with_site takes it
    additions: Additions | None,
) -> None:
    """List the checks; those that are named with metrics, limits and their sources."""
    if names is not None and shown:
        raise UsageError("--names: checks are named without it as well; say it once")
    what, asked = ("checks", ",".join(shown)) if shown else ("--names", names)
    every = all_checks(additions)
    limits = []
    if hosts:
        cluster = read_cluster(hosts, limit, checks=every)
        limits = [(host.name, host.limits) for host in cluster.hosts if host.limits]
    of_site = additions.checks if additions else ()
    chosen = list(every)
    if asked != ALL:
        chosen = split(what, asked, chosen, "check", "list all") or chosen
    listed = [every[name] for name in chosen]
    if as_json:
        emit(json.dumps(catalogue_json(listed, limits, of_site), indent=1) + "\n")
    elif asked is None and not limits:
        emit(overview(listed, of_site))
    else:
        emit(rendered(catalogue(listed, limits, of_site)))
