"""``fab checks``: every check with its metrics, limits and their sources."""

from __future__ import annotations

from invoke import Context

from hwcheck.node import checks as registry
from hwcheck.render.catalogue import catalogue
from hwcheck.tasks.command import command
from hwcheck.tasks.flags import REACHING_HELP, read_cluster
from hwcheck.tasks.output import emit, rendered
from hwcheck.tasks.site_option import (
    SITE_HELP,
    additions_in_use,
    refuse_unknown_names,
    with_site,
)


@command(
    help={
        "hosts": "Ansible inventory whose hwcheck_limits are shown, and the site beside it",
        "limit": REACHING_HELP["limit"],
        **SITE_HELP,
    }
)
@with_site
def checks(
    ctx: Context,  # noqa: ARG001 - invoke hands every task its context
    hosts: str = "",
    limit: str | None = None,
    site: str | None = None,  # noqa: ARG001 - with_site takes it
) -> None:
    """List every check with its metrics, limits and their sources."""
    limits = []
    if hosts:
        cluster = read_cluster(hosts, limit)
        refuse_unknown_names(cluster)
        limits = [(host.name, host.limits) for host in cluster.hosts if host.limits]
    additions = additions_in_use()
    of_site = additions.checks if additions else ()
    emit(rendered(catalogue(registry.load().values(), limits, of_site)))
