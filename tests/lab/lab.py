"""The lab: named hosts on a bridge, each with namespaces, an sshd, a home and a host key."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import yaml

from hwcheck.inventory.inventory import Host
from tests.lab.network import Network, Slot
from tests.lab.node import Node
from tests.lab.waiting import listens, wait_until

__all__ = ["Lab", "Node", "Prepare", "listens", "make_key", "wait_until"]

START_S = 10.0

Prepare = Callable[[Node], Mapping[str, object]]
"""Puts files into a node's folder, may set its ``environment``, returns inventory variables."""


class Lab:
    """A context manager; ``names`` are the hosts. Everything is gone when it ends."""

    def __init__(
        self,
        names: Sequence[str],
        sshd_extra: Mapping[str, str] | None = None,
        *,
        rates: Mapping[str, str] | None = None,
        uplink: tuple[Sequence[str], str] | None = None,
        prepare: Prepare | None = None,
    ) -> None:
        """Plan it.

        ``sshd_extra`` adds configuration lines to the sshd of a host; ``rates`` limits the links of
        hosts, in either direction, as tc writes it (50mbit); ``uplink`` names hosts that stand
        behind a switch of their own, and the rate of its uplink; ``prepare`` is called for each
        node before its sshd starts.
        """
        self._names = names
        self._extra = sshd_extra or {}
        self._rates = rates or {}
        self._uplink = uplink
        self._prepare = prepare
        self.nodes: dict[str, Node] = {}

    def __enter__(self) -> Lab:
        self.start(Slot.take())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def start(self, slot: Slot) -> None:
        """Build it in a slot that is ours. What was there before is removed."""
        self._slot = slot
        self._network = Network(slot)
        self._network.down()
        self.folder = self._network.folder()
        try:
            self._build()
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Remove everything."""
        for node in self.nodes.values():
            node.end()
        self._network.down()
        self._slot.release()

    def _build(self) -> None:
        self.key = make_key(self.folder / "key")
        self.known_hosts = self.folder / "known_hosts"
        self._network.up(len(self._names))
        numbers = {name: number for number, name in enumerate(self._names, 1)}
        if self._uplink is not None:
            behind, rate = self._uplink
            self._network.part([numbers[name] for name in behind], rate)
        hosts = [f"{self._network.address(numbers[name])} {name}\n" for name in numbers]
        for name, number in numbers.items():
            folder = self.folder / name
            folder.mkdir()
            (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(hosts))
            self.nodes[name] = Node(name, number, self._network, folder)
        self.known_hosts.write_text("".join(map(self._open, self.nodes.values())))
        for node in self.nodes.values():
            wait_until(lambda node=node: listens(node.address), START_S)  # type: ignore[misc]

    def _open(self, node: Node) -> str:
        """Complete a node and start its sshd; return its line of known_hosts."""
        algorithm, key = make_key(node.folder / "host_key").with_suffix(".pub").read_text().split()
        node.entered()
        if self._prepare is not None:
            node.variables = dict(self._prepare(node))
        if node.name in self._rates:
            node.limit(self._rates[node.name])
        node.configure(self.key.with_suffix(".pub").read_text(), self._extra.get(node.name, ""))
        node.start_sshd()
        return f"{node.address} {algorithm} {key}\n"

    def hosts(self) -> list[Host]:
        """Return the inventory's records of all nodes."""
        return [node.host(self.key, self.known_hosts) for node in self.nodes.values()]

    def ssh_config(self) -> Path:
        """Write a configuration with which ``ssh -F`` knows the hosts by name; return its path."""
        lines = [f"Host {node.name}\n  HostName {node.address}\n" for node in self.nodes.values()]
        common = f"Host *\n  User root\n  IdentityFile {self.key}\n"
        path = self.folder / "ssh_config"
        path.write_text("".join(lines) + common + f"  UserKnownHostsFile {self.known_hosts}\n")
        return path

    def inventory(self, **variables: object) -> Path:
        """Write an Ansible inventory and return its path; ``variables`` are for all hosts."""
        hosts = {
            name: {"ansible_host": node.address, **node.variables}
            for name, node in self.nodes.items()
        }
        common = {
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.key),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={self.known_hosts}",
            **variables,
        }
        path = self.folder / "inventory.yml"
        path.write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": common}}))
        return path


def make_key(path: Path) -> Path:
    """Write a new ed25519 key and its public half (.pub); return the path."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)]
    subprocess.run(command, check=True)
    return path
