"""Reads an Ansible inventory: source, listing, variables of each host, settings, cluster.

``ansible-inventory`` decides what an inventory means; here is taken what we use. It is run once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hwcheck.errors import UsageError
from hwcheck.inventory.expectations import HostSettings, expectations, refuse_unknown, settings
from hwcheck.inventory.limits import limits
from hwcheck.inventory.listing import list_hosts
from hwcheck.inventory.source import locate
from hwcheck.inventory.variables import Variables
from hwcheck.inventory.waivers import waivers
from hwcheck.site_limits import SiteLimits
from hwcheck.waivers import Waiver

HOST_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:@%+-]*\Z")
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

    ``source`` and ``extra_vars`` are what Ansible takes as ``-i`` and ``-e``.
    """

    hosts: tuple[Host, ...]
    source: str
    warnings: tuple[str, ...] = ()
    extra_vars: tuple[str, ...] = field(default=(), repr=False)


def read(text: str, limit: str | None = None, extra_vars: Sequence[str] = ()) -> Cluster:
    """Read an inventory file, folder, script or comma-separated list of hosts.

    ``limit`` is an Ansible pattern (``h100:!node03``), ``extra_vars`` are variables that come
    before the inventory's, as Ansible's ``-e`` takes them. Raises UsageError, one line, when the
    inventory is missing or malformed, no host matches, a variable is unknown or of the wrong kind,
    or two hosts are this machine (``Connector.prepare`` finds two names for another one).
    """
    source = locate(text)
    listing = list_hosts(source, limit, extra_vars)
    variables = (Variables(name, raw, source.title) for name, raw in listing.hosts.items())
    hosts = tuple(_host(each) for each in variables)
    local = [host.name for host in hosts if host.connection == "local"]
    if len(local) > 1:
        raise UsageError(
            f"{source.title}: {local[0]} and {local[1]} are two names for this machine; "
            "remove one or change its ansible_connection"
        )
    return Cluster(hosts, source.text, listing.warnings, tuple(extra_vars))


def _host(variables: Variables) -> Host:
    name = variables.host
    if not HOST_NAME.match(name):
        hint = "; name the host, and the address as ansible_host" if ":" in name else ""
        raise UsageError(f"{variables.source_title}: {name[:80]!r}: not a host name{hint}")
    if len(name) > NAME_CHARACTERS:
        problem = f"a host name of {len(name)} characters; {NAME_CHARACTERS} fit into a file name"
        raise UsageError(f"{variables.source_title}: {name[:40]}...: {problem}")
    refuse_unknown(variables)
    address = variables.text("ansible_host", "ansible_ssh_host") or name
    if len(address) > ADDRESS_CHARACTERS:
        problem = f"an address of {len(address)} characters; at most {ADDRESS_CHARACTERS}"
        raise variables.error("ansible_host", problem)
    connection = variables.text("ansible_connection") or "ssh"
    if connection not in CONNECTIONS:
        raise variables.error("ansible_connection", f"{connection!r} is not ssh or local")
    python = variables.text("ansible_python_interpreter") or "auto"
    if CONNECTIONS[connection] == "ssh":
        _refuse_unsupported(variables)
    return Host(
        name=name,
        address=address,
        port=variables.port("ansible_port", "ansible_ssh_port"),
        user=variables.text("ansible_user", "ansible_ssh_user"),
        connection=CONNECTIONS[connection],
        private_key_file=variables.text("ansible_ssh_private_key_file", "ansible_private_key_file"),
        # As Ansible orders them for ssh, which takes the first value of an option.
        ssh_args=variables.words("ansible_ssh_args")
        + variables.words("ansible_ssh_common_args")
        + variables.words("ansible_ssh_extra_args"),
        python="python3" if python.startswith("auto") else python,
        become=variables.flag("ansible_become"),
        become_user=variables.text("ansible_become_user", "ansible_sudo_user") or "root",
        become_method=variables.text("ansible_become_method") or "sudo",
        become_exe=variables.text("ansible_become_exe", "ansible_sudo_exe") or "sudo",
        become_flags=variables.words("ansible_become_flags")
        or variables.words("ansible_sudo_flags"),
        become_password=variables.text(
            "ansible_become_password", "ansible_become_pass", "ansible_sudo_pass"
        ),
        password=variables.text("ansible_password", "ansible_ssh_pass", "ansible_ssh_password"),
        settings=settings(variables),
        expect=expectations(variables),
        limits=limits(variables),
        waivers=waivers(variables),
        variables=variables.raw,
    )


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
