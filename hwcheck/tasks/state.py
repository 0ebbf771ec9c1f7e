"""``fab state``: assert what the roles promise, change nothing."""

from __future__ import annotations

from collections.abc import Sequence

from invoke import Context

from hwcheck.provision.state.request import as_the_inventory_says, choose_roles, with_become
from hwcheck.tasks.command import command, end
from hwcheck.tasks.flags import HELP, read_become, read_cluster, whole
from hwcheck.tasks.stages import run_assertions

FLAGS = (
    *("hosts", "limit", "extra-vars", "forks"),
    *("become", "become-user", "ask-become-pass", "out", "accept-new-host-keys"),
)


@command(
    help={
        **{flag: HELP[flag] for flag in FLAGS},
        "roles": "comma-separated roles to assert (default: all that have assertions)",
    },
    iterable=["extra_vars"],
)
def state(
    ctx: Context,  # noqa: ARG001 - invoke hands every task its context
    hosts: str = "",
    limit: str | None = None,
    roles: str | None = None,
    extra_vars: Sequence[str] | None = None,
    forks: str = "32",
    become: bool = False,
    become_user: str = "",
    ask_become_pass: bool = False,
    out: str = "runs",
    accept_new_host_keys: bool = False,
) -> None:
    """Assert that every host is as the variables of the roles say; change nothing."""
    hosts_at_once, chosen_roles = whole("--forks", forks, 1), choose_roles(roles)
    how_to_become = read_become(become, become_user, ask_become_pass)
    cluster = read_cluster(hosts, limit, extra_vars or ())
    request = as_the_inventory_says(
        with_become(cluster, how_to_become),
        chosen_roles,
        hosts_at_once,
        hosts,
        accept_new_host_keys=accept_new_host_keys,
    )
    end(run_assertions(request, out=out))
