"""``hwcheck state``: assert what the roles promise, change nothing."""

from __future__ import annotations

from collections.abc import Sequence

from hwcheck.cli.command import command, end, fab_task, option
from hwcheck.cli.flags import list_names, out_flag, reaching, read_cluster
from hwcheck.cli.stages import run_assertions
from hwcheck.cli.values import Words
from hwcheck.connect.connector import connection_check
from hwcheck.inventory.defaults import ConnectionFlags
from hwcheck.provision.state.cases import roles_with_assertions
from hwcheck.provision.state.request import as_the_inventory_says, choose_roles

__getattr__ = fab_task(__name__)


@command(
    "state",
    examples=(
        "hwcheck state --hosts cluster.yml",
        "hwcheck state --hosts cluster.yml --limit node03 --roles nccl,rdma",
        "hwcheck state --hosts cluster.yml --extra-vars @nccl.yml",
    ),
)
@option(
    "--roles",
    type=Words("role", roles_with_assertions),
    help="roles to assert (default: all that have assertions)",
)
@out_flag
@reaching()
def cli(
    *,
    hosts: str | None,
    limit: str | None,
    roles: str | None,
    extra_vars: Sequence[str],
    forks: int,
    out: str,
    list_hosts: bool,
    accept_new_host_keys: bool,
    verbose: bool,
    connection: ConnectionFlags,
) -> None:
    """Assert that every host is as the variables of the roles say; change nothing."""
    chosen_roles = choose_roles(roles)
    reach = connection_check(accept_new_host_keys=accept_new_host_keys)
    cluster = read_cluster(
        hosts, limit, extra_vars, connection, reach=None if list_hosts else reach
    )
    if list_hosts:
        list_names(cluster)
        return
    request = as_the_inventory_says(
        cluster,
        chosen_roles,
        forks,
        hosts or cluster.source,
        accept_new_host_keys=accept_new_host_keys,
    )
    end(run_assertions(request, out=out, verbose=verbose))
