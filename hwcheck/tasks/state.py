"""``fab state``: assert what the roles promise, change nothing."""

from __future__ import annotations

from collections.abc import Sequence

from invoke import Context

from hwcheck.connect.connector import connection_check
from hwcheck.inventory.defaults import NO_FLAGS, ConnectionFlags
from hwcheck.provision.state.request import as_the_inventory_says, choose_roles
from hwcheck.tasks.command import end, reaching_command
from hwcheck.tasks.flags import HELP, list_names, read_cluster, whole
from hwcheck.tasks.stages import run_assertions


@reaching_command(
    help={
        **{flag: HELP[flag] for flag in ("forks", "out")},
        "roles": "comma-separated roles to assert (default: all that have assertions)",
    },
)
def state(
    ctx: Context,  # noqa: ARG001 - invoke hands every task its context
    hosts: str | None = None,
    limit: str | None = None,
    roles: str | None = None,
    extra_vars: Sequence[str] | None = None,
    forks: str = "32",
    out: str = "runs",
    list_hosts: bool = False,
    accept_new_host_keys: bool = False,
    connection: ConnectionFlags = NO_FLAGS,
) -> None:
    """Assert that every host is as the variables of the roles say; change nothing."""
    hosts_at_once, chosen_roles = whole("--forks", forks, 1), choose_roles(roles)
    reach = connection_check(accept_new_host_keys=accept_new_host_keys)
    cluster = read_cluster(
        hosts, limit, extra_vars or (), connection, reach=None if list_hosts else reach
    )
    if list_hosts:
        list_names(cluster)
        return
    request = as_the_inventory_says(
        cluster,
        chosen_roles,
        hosts_at_once,
        hosts or cluster.source,
        accept_new_host_keys=accept_new_host_keys,
    )
    end(run_assertions(request, out=out))
