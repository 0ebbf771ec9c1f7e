"""What one run of assertions is asked: hosts, roles, how to get there, where results go."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwcheck.errors import UsageError
from hwcheck.inventory import inventory
from hwcheck.inventory.inventory import Cluster, Host
from hwcheck.provision.state.cases import roles_with_assertions

if TYPE_CHECKING:
    import pytest


@dataclass(frozen=True)
class Request:
    """Hosts, roles in order, and how many hosts at once; ``record`` is where results are written.

    ``mend`` is the command that would apply a role, without its host and tag.
    """

    cluster: Cluster
    roles: tuple[str, ...]
    forks: int
    record: Path | None = None
    mend: str = ""
    accept_new_host_keys: bool = False


def asked(config: pytest.Config) -> Request:
    """Read pytest's command line. Raises UsageError."""
    option = config.getoption
    source, forks = option("hwcheck_hosts"), option("hwcheck_forks")
    if forks < 1:
        raise UsageError(f"--hwcheck-forks {forks}: it takes a whole number from 1")
    cluster = inventory.read(source, option("hwcheck_limit"), option("hwcheck_extra_vars"))
    if option("hwcheck_become"):
        descriptor = option("hwcheck_become_password_fd")
        cluster = becoming(cluster, None if descriptor is None else _line(descriptor))
    record = option("hwcheck_record")
    return Request(
        cluster,
        chosen(option("hwcheck_roles")),
        forks,
        Path(record) if record else None,
        mend_line(source),
        option("hwcheck_accept_new_host_keys"),
    )


def mend_line(source: str) -> str:
    """Return the beginning of the command that applies roles to hosts of this cluster."""
    return f"hwcheck provision --hosts {source}"


def chosen(text: str | None) -> tuple[str, ...]:
    """Return the roles that a comma-separated list names; all without one. Raises UsageError."""
    known = roles_with_assertions()
    if text is None:
        return known
    names = {part.strip() for part in text.split(",")} - {""}
    unknown = sorted(names - set(known))
    if unknown or not names:
        which = ", ".join(unknown) or repr(text)
        raise UsageError(f"{which}: no role with assertions; known: {', '.join(known)}")
    return tuple(role for role in known if role in names)


def becoming(cluster: Cluster, password: str | None, user: str = "") -> Cluster:
    """Return the cluster with hosts that become root, or ``user``, by sudo.

    As with Ansible, what the inventory says of a host comes before this.
    """
    return replace(cluster, hosts=tuple(_becoming(cluster.hosts, password, user)))


def _becoming(hosts: Iterable[Host], password: str | None, user: str) -> Iterable[Host]:
    for host in hosts:
        known = host.become_password
        named = "ansible_become_user" in host.variables
        yield replace(
            host,
            become=True,
            become_user=host.become_user if named else user or host.become_user,
            become_password=password if known is None else known,
        )


def _line(descriptor: int) -> str:
    try:
        with os.fdopen(descriptor, encoding="utf-8") as stream:
            return stream.readline().rstrip("\n")
    except OSError as error:
        raise UsageError(f"--hwcheck-become-password-fd {descriptor}: {error.strerror}") from None
