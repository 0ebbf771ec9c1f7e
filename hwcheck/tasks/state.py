"""``fab state``: assert what the roles promise, change nothing."""

from __future__ import annotations

from collections.abc import Sequence

from invoke import Context

from hwcheck.provision.state.request import Request, chosen, mend_line
from hwcheck.tasks.command import command, end, whole
from hwcheck.tasks.shared import HELP, as_ansible_becomes, read_become, read_cluster
from hwcheck.tasks.stages import run_assertions
from hwcheck.tasks.validate import DEFAULT_INVENTORY

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
    hosts: str = DEFAULT_INVENTORY,
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
    at_once, wanted = whole("--forks", forks, 1), chosen(roles)
    becomes = read_become(become, become_user, ask_become_pass)
    cluster = as_ansible_becomes(read_cluster(hosts, limit, extra_vars or ()), becomes)
    request = Request(
        cluster,
        wanted,
        at_once,
        mend=mend_line(hosts),
        accept_new_host_keys=accept_new_host_keys,
    )
    end(run_assertions(request, out=out))
