"""One run of assertions: hosts, roles, how to get there, where results go."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwcheck.errors import UsageError
from hwcheck.inventory import inventory
from hwcheck.inventory.defaults import ConnectionFlags
from hwcheck.inventory.inventory import Cluster
from hwcheck.provision.names import nearest, refuse_misspelt_variables
from hwcheck.provision.request import PlaybookRequest, find_playbook
from hwcheck.provision.role_vars import (
    RoleVars,
    read_role_vars,
    refuse_unresolved,
    refuse_wrong,
)
from hwcheck.provision.state.cases import roles_with_assertions

if TYPE_CHECKING:
    import pytest


@dataclass(frozen=True)
class StateRequest:
    """Hosts, roles in order, and how many hosts at once; ``record`` is where results are written.

    ``role_vars`` has what the roles want of each host, by its name. ``mend`` is the command that
    would apply a role, without its host and tag.
    """

    cluster: Cluster
    roles: tuple[str, ...]
    role_vars: Mapping[str, RoleVars]
    forks: int
    record: Path | None = None
    mend: str = ""
    accept_new_host_keys: bool = False


def from_options(config: pytest.Config) -> StateRequest:
    """Read pytest's command line. Raises UsageError."""
    option = config.getoption
    source, forks = option("hwcheck_hosts"), option("hwcheck_forks")
    if forks < 1:
        raise UsageError(f"--hwcheck-forks {forks}: it takes a whole number from 1")
    descriptor = option("hwcheck_become_password_fd") if option("hwcheck_become") else None
    flags = ConnectionFlags(
        become=option("hwcheck_become"),
        become_password=None if descriptor is None else _password(descriptor),
    )
    cluster = inventory.read(source, option("hwcheck_limit"), option("hwcheck_extra_vars"), flags)
    record = option("hwcheck_record")
    return as_the_inventory_says(
        cluster,
        choose_roles(option("hwcheck_roles")),
        forks,
        source,
        accept_new_host_keys=option("hwcheck_accept_new_host_keys"),
        record=Path(record) if record else None,
    )


def as_the_inventory_says(
    cluster: Cluster,
    roles: tuple[str, ...],
    forks: int,
    source: str,
    *,
    accept_new_host_keys: bool,
    record: Path | None = None,
) -> StateRequest:
    """Return a request for what the inventory wants of these roles.

    ``source`` is the inventory as the command line names it. Raises UsageError for a variable that
    is misspelt, of the wrong type, or that cannot be templated.
    """
    refuse_misspelt_variables(cluster)
    role_vars = read_role_vars(cluster, roles, forks, accept_new_host_keys=accept_new_host_keys)
    refuse_wrong(cluster, role_vars)
    refuse_unresolved(cluster, role_vars)
    mend = mend_command(source)
    return StateRequest(cluster, roles, role_vars, forks, record, mend, accept_new_host_keys)


def after_playbook(
    playbook: PlaybookRequest,
    roles: Sequence[str],
    role_vars: Mapping[str, Mapping[str, Any]],
    source: str,
) -> StateRequest | None:
    """Return what is to be asserted once a playbook has run; None where no role has assertions.

    ``roles`` are those that Ansible ran, ``role_vars`` the variables by host that the play set
    itself: each host is to be as the inventory wants it and, before that, as the play made it.
    ``source`` is the inventory as the command line names it.
    """
    asserted = tuple(role for role in roles_with_assertions() if role in roles)
    if not asserted:
        return None
    hosts = tuple(host for host in playbook.cluster.hosts if host.name in playbook.hosts)
    cluster = replace(playbook.cluster, hosts=hosts)
    accept = playbook.accept_new_host_keys
    wanted = read_role_vars(cluster, asserted, playbook.forks, accept_new_host_keys=accept)
    # Variables of a command line may be secrets, and the command is shown and written.
    is_default = playbook.playbook == find_playbook() and not cluster.extra_vars
    return StateRequest(
        cluster,
        asserted,
        {name: each.under(role_vars.get(name, {})) for name, each in wanted.items()},
        playbook.forks,
        mend=mend_command(source) if is_default else "the same command with",
        accept_new_host_keys=accept,
    )


def mend_command(source: str) -> str:
    """Return the beginning of the command that applies roles to hosts of this inventory."""
    return f"hwcheck provision --hosts {source}"


def choose_roles(text: str | None) -> tuple[str, ...]:
    """Return the roles that a comma-separated list names; all without one. Raises UsageError."""
    roles = roles_with_assertions()
    if text is None:
        return roles
    names = {part.strip() for part in text.split(",")} - {""}
    if not names:
        raise UsageError(f"{text!r}: no role with assertions; known: {', '.join(roles)}")
    for name in sorted(names - set(roles)):
        raise UsageError(f"{name}: no role with assertions; {nearest(name, roles)}")
    return tuple(role for role in roles if role in names)


def _password(descriptor: int) -> str:
    try:
        with os.fdopen(descriptor, encoding="utf-8") as stream:
            return stream.readline().rstrip("\n")
    except OSError as error:
        raise UsageError(f"--hwcheck-become-password-fd {descriptor}: {error.strerror}") from None
