"""Reads an Ansible inventory: source, listing, variables of each host, settings, cluster.

``ansible-inventory`` decides what an inventory means; here is taken what we use. It is run once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hwcheck.contract.check import Check
from hwcheck.errors import Complaints, HostError, UsageError
from hwcheck.fold import fold
from hwcheck.inventory.defaults import NO_FLAGS, ConnectionFlags, read_defaults
from hwcheck.inventory.expectations import HostSettings, expectations, refuse_unknown, settings
from hwcheck.inventory.limits import limits
from hwcheck.inventory.listing import list_hosts, unfolded_limit
from hwcheck.inventory.source import locate
from hwcheck.inventory.variables import Variables
from hwcheck.inventory.waivers import waivers
from hwcheck.results.site_limits import SiteLimits
from hwcheck.results.waivers import Waiver

HOST_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:@%+-]*\Z")
BETWEEN_HOSTS = re.compile(r",(?![^\[]*\])")
"""A comma of folded names that stands in no range."""
NAME_CHARACTERS = 200
"""A host's name is a file name in the run folder, which may have 255 bytes with what follows it."""
ADDRESS_CHARACTERS = 255
"""More than any DNS name has (RFC 1035, section 2.3.4)."""

CONNECTIONS = {"ssh": "ssh", "smart": "ssh", "paramiko": "ssh", "paramiko_ssh": "ssh"} | {
    "ansible.builtin.ssh": "ssh",
    "ansible.builtin.paramiko_ssh": "ssh",
    "local": "local",
    "ansible.builtin.local": "local",
}

REFUSED = {
    "ansible_private_key": "name a file in ansible_ssh_private_key_file",
    "ansible_ssh_private_key": "name a file in ansible_ssh_private_key_file",
    "ansible_private_key_passphrase": "add the key to an ssh agent",
    "ansible_ssh_private_key_passphrase": "add the key to an ssh agent",
    "ansible_ssh_pkcs11_provider": "add the token's keys to an ssh agent",
    "ansible_paramiko_proxy_command": "use ansible_ssh_common_args: -o ProxyCommand=...",
}
"""Ansible's variables that would change how a host is reached, and what to do instead."""
SSH_PROGRAMS = ("ssh", "/bin/ssh", "/usr/bin/ssh")


@dataclass(frozen=True)
class Host:
    """One host of the inventory: how to reach it, how to measure it, and what is expected of it.

    ``address`` is ansible_host or the name; ``port`` and ``user`` are None where the inventory
    leaves them to the ssh configuration; ``ssh_args`` are ansible_ssh_args, ansible_ssh_common_args
    and ansible_ssh_extra_args in this order, split as a shell would; ``settings`` are how the node
    is measured; ``expect`` is what its measurements are held against, by the name of the
    ``hwcheck_`` variable without its prefix; ``limits`` are those of ``hwcheck_limits``,
    ``waivers`` those of ``hwcheck_waivers``;
    ``variables`` are all variables as they were written.
    """

    name: str
    address: str
    port: int | None = None
    user: str | None = None
    connection: str = "ssh"
    private_key_file: str | None = None
    ssh_args: tuple[str, ...] = ()
    python: str = "python3"
    become: bool = False
    become_user: str = "root"
    become_method: str = "sudo"
    become_exe: str = "sudo"
    become_flags: tuple[str, ...] = ()
    become_password: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    settings: HostSettings = field(default_factory=HostSettings)
    expect: Mapping[str, Any] = field(default_factory=dict)
    limits: SiteLimits = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()
    variables: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Cluster:
    """The hosts of a run, in inventory order, and what Ansible warned about.

    ``source``, ``limit`` and ``extra_vars`` are what Ansible takes as ``-i``, ``-l`` and ``-e``,
    ``flags`` what it takes as ``-u``, ``-k``, ``-b`` and ``-K``.
    """

    hosts: tuple[Host, ...]
    source: str
    limit: str | None = None
    warnings: tuple[str, ...] = ()
    extra_vars: tuple[str, ...] = field(default=(), repr=False)
    flags: ConnectionFlags = NO_FLAGS


def read(
    text: str | None,
    limit: str | None = None,
    extra_vars: Sequence[str] = (),
    flags: ConnectionFlags = NO_FLAGS,
    *,
    otherwise: str | None = None,
    checks: Mapping[str, Check] | None = None,
    reach: Callable[[Sequence[Host]], None] | None = None,
) -> Cluster:
    """Read an inventory file, folder, script, or hosts as ``node1,node[02-04]``.

    None is the inventory that ``ansible.cfg`` names, ``otherwise`` where it names none.
    ``limit`` is an Ansible pattern (``h100:!node03``) or hosts as hwcheck prints them,
    ``extra_vars`` are variables that come before the inventory's, as Ansible's ``-e`` takes them,
    ``flags`` is what the command line says of the connection. ``checks`` are all there are, by id,
    which limits and waivers must fit; None where those of the site are not loaded. ``reach``
    refuses hosts by how they are reached (``Connector.prepare``); all is told at once.

    Raises UsageError, a line for each mistake, when the inventory is missing or malformed, no host
    matches, a variable is unknown or of the wrong kind, a limit or a waiver fits no check, or two
    hosts are this machine.
    """
    pattern = unfolded_limit(limit)
    # Ansible takes half a second to start: both questions are asked together.
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(read_defaults, flags)
        if text is not None:
            source = locate(text)
            listing = list_hosts(source, pattern, extra_vars)
            defaults = asked.result()
        else:
            defaults = asked.result()
            named = defaults.inventory or otherwise
            if named is None:
                raise UsageError(
                    "no host is named: say --hosts cluster.yml, or --hosts node1,node2"
                )
            source = locate(named)
            listing = list_hosts(source, pattern, extra_vars)
    complaints = Complaints()
    hosts = tuple(
        host
        for name, raw in listing.hosts.items()
        if (
            host := _host(
                Variables(name, raw, source.title, defaults, source.folder), checks, complaints
            )
        )
        is not None
    )
    local = [host.name for host in hosts if host.connection == "local"]
    for name in local[1:]:
        problem = f"{local[0]} is this machine too; remove one or change its ansible_connection"
        complaints.errors.append(HostError(source.title, name, problem))
    if reach is not None:
        try:
            with complaints.noting():
                reach(hosts)
        except UsageError:  # of no host: what is wrong with hosts comes first
            _refuse(complaints)
            raise
    _refuse(complaints)
    warnings = [*defaults.warnings, *listing.warnings]
    if text is None and defaults.inventory:
        warnings.insert(0, f"the inventory is {source.title}, which ansible.cfg names")
    return Cluster(hosts, source.text, pattern, tuple(warnings), tuple(extra_vars), flags)


class _ConnectionError(HostError):
    """A host that is reached in a way that hwcheck has not."""


def _refuse(complaints: Complaints) -> None:
    """Raise what was collected, with the pattern that leaves out hosts that cannot be visited."""
    others = [error.host for error in complaints.errors if isinstance(error, _ConnectionError)]
    without = "".join(f":!{part}" for part in BETWEEN_HOSTS.split(fold(others)))
    complaints.refuse(f"to leave them out: --limit 'all{without}'" if others else "")


def _host(
    variables: Variables, checks: Mapping[str, Check] | None, complaints: Complaints
) -> Host | None:
    """Return one host; None where how it is reached is wrong. All that is wrong is noted."""
    with complaints.noting():
        refuse_unknown(variables)
    values: dict[str, Any] = {}
    of_checks: dict[str, Callable[[Variables], Any]] = {
        "limits": partial(limits, checks=checks),
        "waivers": partial(waivers, checks=checks),
    }
    for name, field_of in {**FIELDS, **of_checks}.items():
        with complaints.noting():
            values[name] = field_of(variables)
    before = len(complaints.errors)
    if values.get("connection") == "ssh":
        with complaints.noting():
            _refuse_unsupported(variables)
    if len(complaints.errors) > before or not values.keys() >= HOW_REACHED:
        return None
    return Host(**values, variables=variables.written)


def _name(variables: Variables) -> str:
    name = variables.host
    if not HOST_NAME.match(name):
        hint = "; name the host, and the address as ansible_host" if ":" in name else ""
        raise HostError(variables.source_title, repr(name[:80]), f"not a host name{hint}")
    if len(name) > NAME_CHARACTERS:
        problem = f"a host name of {len(name)} characters; {NAME_CHARACTERS} fit into a file name"
        raise HostError(variables.source_title, f"{name[:40]}...", problem)
    return name


def _address(variables: Variables) -> str:
    address = variables.text("ansible_host", "ansible_ssh_host") or variables.host
    if len(address) > ADDRESS_CHARACTERS:
        problem = f"an address of {len(address)} characters; at most {ADDRESS_CHARACTERS}"
        raise variables.error("ansible_host", problem)
    return address


def _connection(variables: Variables) -> str:
    connection = variables.text("ansible_connection") or "ssh"
    if connection not in CONNECTIONS:
        error = variables.error("ansible_connection", f"{connection!r} is not ssh or local")
        raise _ConnectionError(error.where, error.host, error.problem)
    return CONNECTIONS[connection]


def _ssh_args(variables: Variables) -> tuple[str, ...]:
    # As Ansible orders them for ssh, which takes the first value of an option.
    names = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
    return tuple(word for name in names for word in variables.words(name))


def _python(variables: Variables) -> str:
    python = variables.text("ansible_python_interpreter") or "auto"
    return "python3" if python.startswith("auto") else python


FIELDS: Mapping[str, Callable[[Variables], Any]] = {
    "name": _name,
    "address": _address,
    "port": lambda of: of.port("ansible_port", "ansible_ssh_port"),
    "user": lambda of: of.text("ansible_user", "ansible_ssh_user"),
    "connection": _connection,
    "private_key_file": lambda of: of.text(
        "ansible_ssh_private_key_file", "ansible_private_key_file"
    ),
    "ssh_args": _ssh_args,
    "python": _python,
    "become": lambda of: of.flag("ansible_become"),
    "become_user": lambda of: of.text("ansible_become_user", "ansible_sudo_user") or "root",
    "become_method": lambda of: of.text("ansible_become_method") or "sudo",
    "become_exe": lambda of: of.text("ansible_become_exe", "ansible_sudo_exe") or "sudo",
    "become_flags": lambda of: of.words("ansible_become_flags") or of.words("ansible_sudo_flags"),
    "become_password": lambda of: of.text(
        "ansible_become_password", "ansible_become_pass", "ansible_sudo_pass"
    ),
    "password": lambda of: of.text("ansible_password", "ansible_ssh_pass", "ansible_ssh_password"),
    "settings": settings,
    "expect": expectations,
}
"""How a field of a Host is read from its variables alone; each raises HostError."""
HOW_REACHED = FIELDS.keys() - {"settings", "expect"}
"""The fields that say how a host is reached: with all of them its connection can be checked."""


def _refuse_unsupported(variables: Variables) -> None:
    """Refuse what Ansible would act on and we do not; silence would lead somewhere else."""
    for key, instead in REFUSED.items():
        if variables.raw.get(key):
            raise variables.error(key, f"not supported; {instead}")
    program = variables.text("ansible_ssh_executable") or "ssh"
    if program not in SSH_PROGRAMS:
        problem = f"{program!r} is not run: hwcheck speaks SSH itself; remove it"
        raise variables.error("ansible_ssh_executable", problem)
    for key in ("ansible_host_key_checking", "ansible_ssh_host_key_checking"):
        if key in variables.raw and not variables.flag(key):
            problem = "host keys are always verified; remove it and use --accept-new-host-keys"
            raise variables.error(key, problem)
