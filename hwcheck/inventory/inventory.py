"""Read an Ansible inventory: ``ansible-inventory`` says what it means, this file takes what we use.

It runs once per command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hwcheck import shipped
from hwcheck.errors import UsageError
from hwcheck.inventory import ansible
from hwcheck.inventory.expectations import expectations
from hwcheck.inventory.listing import refuse_hollow
from hwcheck.inventory.source import misshapen
from hwcheck.inventory.variables import Variables

HOST_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:@%+-]*\Z")
NAME_CHARACTERS = 200
"""A host's name is a file name in the run folder, which may have 255 bytes with what follows it."""
ADDRESS_CHARACTERS = 255
"""More than any DNS name has (RFC 1035, section 2.3.4)."""
SHOWN_CHARACTERS = 300
VARIABLE_SUFFIXES = ("", *ansible.YAML_SUFFIXES, ".json")
VAULT = b"$ANSIBLE_VAULT"

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
    """One host of the inventory: how to reach it, and what is expected of it.

    ``address`` is ansible_host or the name; ``port`` and ``user`` are None where the inventory
    leaves them to the ssh configuration; ``ssh_args`` are ansible_ssh_args, ansible_ssh_common_args
    and ansible_ssh_extra_args in this order, split as a shell would; ``expect`` holds the
    ``hwcheck_`` variables without their prefix; ``variables`` all of them as they were written.
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
    expect: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Cluster:
    """The hosts of a run, in inventory order, and what Ansible warned about."""

    hosts: tuple[Host, ...]
    source: str
    warnings: tuple[str, ...] = ()


def read(source: str, limit: str | None = None, extra_vars: Sequence[str] = ()) -> Cluster:
    """Read an inventory file, folder, script or comma-separated list of hosts.

    ``limit`` is an Ansible pattern (``h100:!node03``), ``extra_vars`` are variables that come
    before the inventory's, as Ansible's ``-e`` takes them. Raises UsageError, one line, when the
    inventory is missing or malformed, no host matches, a variable is unknown or of the wrong kind,
    or two hosts are this machine (``Connector.prepare`` finds two names for another one).
    """
    source = _locate(source)
    if limit is not None:
        refuse_hollow(limit)
    try:
        listing = ansible.list_inventory(source, limit, extra_vars)
    except ansible.AnsibleError as error:
        _blame_variables(source)
        _blame_shape(source)
        raise UsageError(f"{_shown(source)}: {error}") from None
    names = list(dict.fromkeys(_names(listing.groups, "all")))
    if not names:
        which = f"no host matches --limit {limit}" if limit else "the inventory names no host"
        see = f"`ansible-inventory -i {_shown(source)} --graph` lists them"
        raise UsageError(f"{_shown(source)}: {which}; {see}")
    variables = listing.groups["_meta"]["hostvars"]
    hosts = tuple(_host(Variables(name, variables.get(name, {}), _shown(source))) for name in names)
    _refuse_twins(hosts, _shown(source))
    return Cluster(hosts, source, listing.warnings)


def _shown(source: str) -> str:
    """Return the inventory's name for a message; a list of a thousand hosts is no name."""
    return source if len(source) <= SHOWN_CHARACTERS else source[:SHOWN_CHARACTERS] + " ..."


def _locate(source: str) -> str:
    if not source.strip():
        raise UsageError("--hosts is empty; name an Ansible inventory file, or hosts as `node1,`")
    if "," in source:
        return source
    try:
        path = shipped.find(source)
    except OSError:  # a name that no file system takes
        path = None
    if path is None:
        raise UsageError(
            f"no such inventory: {_shown(source)}; "
            "name an Ansible inventory file, or hosts as `node1,`"
        )
    if path.is_file() and path.suffix in ansible.YAML_SUFFIXES:
        _check_yaml(path, source)
    return str(path)


def _blame_variables(source: str) -> None:
    """Find the broken variables file: Ansible says what is wrong with it, and not which it is."""
    if "," in source:
        return
    folder = Path(source) if Path(source).is_dir() else Path(source).parent
    for kind in ("group_vars", "host_vars"):
        for path in sorted(_variable_files(folder / kind)):
            _check_yaml(path, str(path))


def _blame_shape(source: str) -> None:
    """Find the place where the inventory itself is not shaped as one."""
    path = Path(source)
    if "," not in source and path.is_file() and path.suffix in ansible.YAML_SUFFIXES:
        place = misshapen(path)
        if place:
            raise UsageError(f"{_shown(source)}:{place}")


def _variable_files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder that Ansible reads; one that is encrypted is no YAML."""
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            hidden = path.name.startswith(".") or path.name.endswith("~")
            if path.suffix in VARIABLE_SUFFIXES and not hidden and not _is_vault(path):
                yield path


def _is_vault(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(len(VAULT)) == VAULT
    except OSError:
        return False  # what reads it next says why it cannot


def _check_yaml(path: Path, source: str) -> None:
    """Refuse broken YAML with its line; Ansible's own message runs over twenty lines."""
    try:
        with path.open("rb") as stream:
            for _ in yaml.compose_all(stream, Loader=yaml.SafeLoader):
                continue
    except OSError as error:
        raise UsageError(f"{source}: {error.strerror}") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UsageError(f"{source}:{line}: not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{source}: not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise UsageError(f"{source}: not an inventory: its YAML is nested too deeply") from None


def _names(listing: Mapping[str, Any], group: str) -> Iterator[str]:
    content = listing.get(group, {})
    yield from content.get("hosts", [])
    for child in content.get("children", []):
        yield from _names(listing, child)


def _host(variables: Variables) -> Host:
    name = variables.host
    if not HOST_NAME.match(name):
        hint = "; name the host, and the address as ansible_host" if ":" in name else ""
        raise UsageError(f"{variables.source}: {name[:80]!r}: not a host name{hint}")
    if len(name) > NAME_CHARACTERS:
        problem = f"a host name of {len(name)} characters; {NAME_CHARACTERS} fit into a file name"
        raise UsageError(f"{variables.source}: {name[:40]}...: {problem}")
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
        expect=expectations(variables),
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


def _refuse_twins(hosts: tuple[Host, ...], source: str) -> None:
    """Two hosts that are this machine; where SSH leads to is known to ``connect`` only."""
    here = [host.name for host in hosts if host.connection == "local"]
    if len(here) > 1:
        raise UsageError(
            f"{source}: {here[0]} and {here[1]} are two names for this machine; "
            "remove one or change its ansible_connection"
        )
