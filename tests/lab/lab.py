"""The lab: named hosts, each with an sshd, a home and a host key of its own."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import yaml

from hwcheck.inventory import Host
from tests.lab.network import Network, Slot, kill

START_S = 10.0
SSHD_CONFIG = """\
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {authorized_keys}
PidFile none
PermitRootLogin yes
PasswordAuthentication no
StrictModes no
UsePAM no
PrintMotd no
UseDNS no
MaxStartups 1000
SetEnv HOME={folder}/home
{extra}
"""
# sshd wants its own empty folder under /run; in the mount namespace that "ip netns exec" makes,
# nothing of it is seen outside.
START_SSHD = (
    'mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec /usr/sbin/sshd -D -e -f "$1"'
)


class Node:
    """One simulated host."""

    def __init__(self, name: str, number: int, network: Network, folder: Path) -> None:
        self.name = name
        self.address = network.address(number)
        self.folder = folder
        self.home = folder / "home"
        self._number = number
        self._network = network
        self._sshd: subprocess.Popen[bytes] | None = None
        self._others: list[subprocess.Popen[bytes]] = []

    def start_sshd(self, authorized_keys: Path, extra: str = "") -> None:
        """Start it; ``extra`` are lines for its configuration."""
        config = self.folder / "sshd_config"
        text = SSHD_CONFIG.format(
            address=self.address, folder=self.folder, authorized_keys=authorized_keys, extra=extra
        )
        config.write_text(text)
        log = (self.folder / "sshd.log").open("ab")
        self._sshd = self._exec(["sh", "-c", START_SSHD, "sh", str(config)], stderr=log)
        log.close()

    def stop_sshd(self) -> None:
        """Stop listening; connections go on."""
        assert self._sshd is not None
        self._sshd.kill()
        self._sshd.wait()
        self._sshd = None

    def run(self, command: Sequence[str]) -> None:
        """Start a command in the node's namespace; it ends with the lab."""
        self._others.append(self._exec(command))

    def _exec(
        self, command: Sequence[str], stderr: object = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["ip", "netns", "exec", self._network.namespace(self._number), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,  # type: ignore[call-overload]
        )

    def visitors(self) -> list[int]:
        """Return the processes of SSH sessions: everything but the listener and our own."""
        own = {process.pid for process in [self._sshd, *self._others] if process is not None}
        return [pid for pid in self._network.processes(self._number) if pid not in own]

    def kill_visitors(self) -> None:
        """End every SSH session with all its processes, as a crash of the host would."""
        for pid in self.visitors():
            kill(pid)

    def cut(self) -> None:
        """Pull the cable."""
        self._network.cut(self._number)

    def host(self, key: Path, known_hosts: Path, **variables: object) -> Host:
        """Return the inventory's record of this node."""
        arguments = ("-o", f"UserKnownHostsFile={known_hosts}")
        fields = {"user": "root", "private_key_file": str(key), "ssh_args": arguments, **variables}
        return Host(self.name, self.address, **fields)  # type: ignore[arg-type]

    def end(self) -> None:
        for process in [self._sshd, *self._others]:
            if process is not None:
                process.kill()
                process.wait()


class Lab:
    """A context manager; ``names`` are the hosts. Everything is gone when it ends."""

    def __init__(self, names: Sequence[str], sshd_extra: dict[str, str] | None = None) -> None:
        """``sshd_extra`` adds configuration lines to the sshd of a host."""
        self._names = names
        self._extra = sshd_extra or {}

    def __enter__(self) -> Lab:
        self._slot = Slot.take()
        self._network = Network(self._slot)
        self._network.down()  # what a dead process left in this slot
        self.folder = self._network.folder()
        self.nodes: dict[str, Node] = {}
        try:
            self._build()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node in self.nodes.values():
            node.end()
        self._network.down()
        self._slot.release()

    def _build(self) -> None:
        self.key = make_key(self.folder / "key")
        self.known_hosts = self.folder / "known_hosts"
        self._network.up(len(self._names))
        lines = []
        for number, name in enumerate(self._names, 1):
            folder = self.folder / name
            (folder / "home").mkdir(parents=True)
            node = self.nodes[name] = Node(name, number, self._network, folder)
            public = make_key(folder / "host_key").with_suffix(".pub").read_text().split()
            lines.append(f"{node.address} {public[0]} {public[1]}\n")
            node.start_sshd(self.key.with_suffix(".pub"), self._extra.get(name, ""))
        self.known_hosts.write_text("".join(lines))
        for node in self.nodes.values():
            wait_until(lambda node=node: listens(node.address), START_S)  # type: ignore[misc]

    def hosts(self) -> list[Host]:
        """Return the inventory's records of all nodes."""
        return [node.host(self.key, self.known_hosts) for node in self.nodes.values()]

    def inventory(self) -> Path:
        """Write an Ansible inventory of all nodes and return its path."""
        hosts = {name: {"ansible_host": node.address} for name, node in self.nodes.items()}
        variables = {
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.key),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={self.known_hosts}",
        }
        path = self.folder / "inventory.yml"
        path.write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": variables}}))
        return path


def make_key(path: Path) -> Path:
    """Write a new ed25519 key and its public half (.pub); return the path."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)]
    subprocess.run(command, check=True)
    return path


def listens(address: str, port: int = 22) -> bool:
    """Whether something accepts connections there."""
    try:
        socket.create_connection((address, port), 1).close()
    except OSError:
        return False
    return True


def wait_until(condition: Callable[[], object], seconds: float) -> None:
    """Return when the condition holds. Raises AssertionError when it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.02)
