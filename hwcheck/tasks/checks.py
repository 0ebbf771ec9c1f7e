"""``fab checks``: every check with its metrics, limits and their sources."""

from __future__ import annotations

from json import dumps as to_text
from typing import TYPE_CHECKING

from invoke import Context

from hwcheck.render.catalogue import catalogue, catalogue_json, overview
from hwcheck.tasks.command import command
from hwcheck.tasks.flags import ALL, REACHING_HELP, read_cluster, split
from hwcheck.tasks.output import emit, rendered
from hwcheck.tasks.site_option import SITE_HELP, all_checks, with_site

if TYPE_CHECKING:
    from hwcheck.site.additions import Additions


@command(
    help={
        "names": "comma-separated checks to show whole, with limits and sources; also as "
        "`hwcheck checks pcie_link power_cap`; all shows every one (default: a line for each)",
        "json": "print them as JSON",
        "hosts": "Ansible inventory whose hwcheck_limits are shown, and the site beside it",
        "limit": REACHING_HELP["limit"],
        **SITE_HELP,
    }
)
@with_site
def checks(
    ctx: Context,  # noqa: ARG001 - invoke hands every task its context
    names: str | None = None,
    json: bool = False,
    hosts: str = "",
    limit: str | None = None,
    site: str | None = None,  # noqa: ARG001 - with_site takes it
    *,
    additions: Additions | None,
) -> None:
    """List the checks; those that are named with metrics, limits and their sources."""
    every = all_checks(additions)
    limits = []
    if hosts:
        cluster = read_cluster(hosts, limit, checks=every)
        limits = [(host.name, host.limits) for host in cluster.hosts if host.limits]
    of_site = additions.checks if additions else ()
    chosen = list(every)
    if names != ALL:
        chosen = (
            split("checks" if names else "--names", names, chosen, "check", "list all") or chosen
        )
    shown = [every[name] for name in chosen]
    if json:
        emit(to_text(catalogue_json(shown, limits, of_site), indent=1) + "\n")
    elif names is None and not limits:
        emit(overview(shown, of_site))
    else:
        emit(rendered(catalogue(shown, limits, of_site)))
