"""One simulated host: its sshd, its processes, and what can befall it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from hwcheck.inventory.inventory import Host
from tests.lab import faults
from tests.lab.namespaces import Namespaces
from tests.lab.network import Network

LOGIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SSHD_CONFIG = """\
HostKey {folder}/host_key
PidFile none
PermitRootLogin yes
PasswordAuthentication no
StrictModes no
UsePAM no
PrintMotd no
UseDNS no
MaxStartups 1000
{extra}
"""


class Node:
    """A host. ``home`` is root's home there, ``root`` its whole file tree as seen from here.

    ``environment`` is what logins and commands get beside their own (set it before sshd starts);
    ``variables`` are the host's own in the inventory.
    """

    def __init__(self, name: str, number: int, network: Network, folder: Path) -> None:
        self.name = name
        self.address = network.address(number)
        self.folder = folder
        self.home = folder / "home"
        self.environment: dict[str, str] = {}
        self.variables: dict[str, object] = {}
        self._number = number
        self._network = network
        self._sshd: subprocess.Popen[bytes] | None = None
        self._others: list[subprocess.Popen[bytes]] = []
        self._namespaces = Namespaces(network.namespace(number), name, folder)

    def entered(self) -> None:
        """Wait until its namespaces are complete. Raises RuntimeError when they are refused."""
        self._namespaces.entered()

    @property
    def root(self) -> Path:
        return Path(f"/proc/{self._namespaces.pid}/root")

    def configure(self, public_key: str, extra: str = "") -> None:
        """Write sshd's configuration; ``extra`` are lines for it."""
        keys = self.home / ".ssh"
        keys.mkdir(mode=0o700)
        (keys / "authorized_keys").write_text(public_key)
        if self.environment:
            words = [f'"{name}={value}"' for name, value in self.environment.items()]
            extra = f"SetEnv {' '.join(words)}\n{extra}"
        text = SSHD_CONFIG.format(folder=self.folder, extra=extra)
        (self.folder / "sshd_config").write_text(text)

    def start_sshd(self) -> None:
        """Start it, the first time or again."""
        command = ["/usr/sbin/sshd", "-D", "-e", "-f", str(self.folder / "sshd_config")]
        with (self.folder / "sshd.log").open("ab") as log:
            self._sshd = self._exec(command, {}, stderr=log)

    def stop_sshd(self) -> None:
        """Stop listening; connections go on."""
        assert self._sshd is not None
        self._sshd.kill()
        self._sshd.wait()
        self._sshd = None

    def run(self, command: Sequence[str]) -> None:
        """Start a command on the node; it ends with the lab."""
        self._others.append(self._exec(command, self.environment))

    def ask(self, command: Sequence[str]) -> str:
        """Run a command on the node to its end and return what it wrote.

        Raises CalledProcessError when it fails.
        """
        return subprocess.run(
            self._namespaces.command(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            env=self._namespaces.environment(self.environment),
        ).stdout

    def _exec(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        stderr: object = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._namespaces.command(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,  # type: ignore[call-overload]
            env=self._namespaces.environment(environment),
            start_new_session=True,
        )

    def processes(self) -> list[int]:
        """Return every process of the host."""
        return self._network.processes(self._number)

    def visitors(self) -> list[int]:
        """Return the processes of SSH sessions: everything but the listener and our own."""
        own = {process.pid for process in [self._sshd, *self._others] if process is not None}
        return [pid for pid in self.processes() if pid not in own | {self._namespaces.pid}]

    def kill_visitors(self) -> None:
        """End every SSH session with all its processes; sshd goes on."""
        faults.end(self.visitors)

    def kill(self) -> None:
        """End sshd and every session, as a crash does; ``start_sshd`` brings the host back."""
        self.stop_sshd()
        self.kill_visitors()

    def freeze(self) -> None:
        """Stop every process, as a host does that swaps or hangs: its connections stay open."""
        faults.freeze(self.processes)

    def thaw(self) -> None:
        """Let them go on."""
        faults.thaw(self.processes)

    def cut(self) -> None:
        """Pull the cable."""
        self._network.cut(self._number)

    def mend(self) -> None:
        """Plug it in again."""
        self._network.mend(self._number)

    def limit(self, rate: str) -> None:
        """Let the link carry no more than ``rate`` (50mbit) in either direction."""
        self._network.limit(self._number, rate)

    def garble(self, python: str = "python3") -> None:
        """Answer garbage from now on: its interpreter does, and in every visit under way."""
        script = self.folder / "garbage"
        script.write_text(faults.SCRIPT)
        script.chmod(0o755)
        find = f'PATH={LOGIN_PATH}; readlink -f "$(command -v "$1")"'
        found = self.ask(["sh", "-c", find, "sh", python]).strip()
        self.ask(["mount", "--bind", str(script), found])
        self._others += faults.write_garbage(self.visitors())

    def host(self, key: Path, known_hosts: Path, **variables: object) -> Host:
        """Return the inventory's record of this node."""
        arguments = ("-o", f"UserKnownHostsFile={known_hosts}")
        fields = {"user": "root", "private_key_file": str(key), "ssh_args": arguments, **variables}
        return Host(self.name, self.address, **fields)  # type: ignore[arg-type]

    def end(self) -> None:
        """End what was started here; what it left running is the network's to end."""
        for process in [self._sshd, *self._others]:
            if process is not None:
                process.kill()
                process.wait()
        self._namespaces.end()
