"""Mount and UTS namespaces of one host: its own hostname, /etc, /tmp, /run, home and more."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.lab.network import PREFIX, ip

INSIDE = Path(__file__).with_name("inside.sh")
REPOSITORY = INSIDE.parents[2]
HIDDEN = ("/tmp", "/var/tmp", "/run", "/dev/shm")
TOOLS = {
    "ip": "iproute2",
    "mount": "mount",
    "nsenter": "util-linux",
    "ssh-keygen": "openssh-client",
    "sshd": "openssh-server",
    "tc": "iproute2",
    "unshare": "util-linux",
}
"""Programs that a lab needs, and Debian's packages that have them."""
SYSTEM = "/usr/sbin:/sbin"
"""Folders that not every user's PATH has."""


def root_home() -> str:
    """Return root's home, which every host has one of its own in place of."""
    return pwd.getpwuid(0).pw_dir


def kept() -> list[str]:
    """Return what hosts need of this machine and would lose with its home or /tmp."""
    needed = {REPOSITORY, Path(sys.prefix), Path(sys.base_prefix), Path.home() / ".pyenv"}
    hidden = [Path(path) for path in (*HIDDEN, tempfile.gettempdir(), root_home())]
    lost = {path for path in needed if path.exists() and any(map(path.is_relative_to, hidden))}
    outermost = [path for path in lost if not any(other in path.parents for other in lost)]
    return sorted(map(str, outermost))


class Namespaces:
    """They live as long as one process of ours, which does nothing else."""

    def __init__(self, network: str, name: str, folder: Path) -> None:
        """Begin to make them, on the network namespace ``network``; ``entered`` waits for it."""
        (folder / "home").mkdir(mode=0o700)
        hosts = folder / "hosts"
        if not hosts.exists():
            hosts.write_text(f"127.0.0.1 localhost\n127.0.1.1 {name}\n")
        self.name = name
        self._log = folder / "inside.log"
        unshare = ["unshare", "--mount", "--uts", "--propagation", "private"]
        places = [root_home(), tempfile.gettempdir()]
        inside = ["sh", str(INSIDE), str(folder), name, *places, *kept()]
        with self._log.open("wb") as log:
            self._keeper = subprocess.Popen(
                ["ip", "netns", "exec", network, *unshare, *inside],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # a Ctrl-C is for whoever started the lab
            )

    @property
    def pid(self) -> int:
        """The process that holds them."""
        return self._keeper.pid

    def entered(self) -> None:
        """Wait until they are complete. Raises RuntimeError with the reason when they are not."""
        assert self._keeper.stdout is not None
        with self._keeper.stdout as stdout:
            if stdout.readline() != b"ready\n":
                raise RuntimeError(f"{self.name}: {self._log.read_text().strip()}")

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a command inside."""
        return ["nsenter", "-t", str(self.pid), "--mount", "--uts", "--net", *command]

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a command inside."""
        return {**os.environ, "HOME": root_home(), **extra}

    def end(self) -> None:
        """Let go of them; they end with the last process inside."""
        with self._keeper:
            self._keeper.kill()


def why_not() -> str:
    """Return why no lab can be built here, or an empty text."""
    if os.geteuid() != 0:
        return "not root"
    return missing(TOOLS) or _why_no_namespaces()


def missing(tools: Mapping[str, str]) -> str:
    """Say which of these programs are not there and how to install them, or return an empty text.

    ``tools`` are programs and the packages of Debian that have them.
    """
    path = f"{os.environ.get('PATH', os.defpath)}:{SYSTEM}"
    lacking = [tool for tool in tools if shutil.which(tool, path=path) is None]
    packages = dict.fromkeys(tools[tool] for tool in lacking)
    if not lacking:
        return ""
    return f"no {', '.join(lacking)}: apt-get install -y {' '.join(packages)}"


def _why_no_namespaces() -> str:
    """Make those of one host, for a moment."""
    name = f"{PREFIX}-try{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
        try:
            ip("netns", "add", name)
        except (OSError, RuntimeError) as error:
            return f"network namespaces are refused: {error}"
        try:
            namespaces = Namespaces(name, "try", Path(folder))
            try:
                namespaces.entered()
            finally:
                namespaces.end()
        except RuntimeError as error:
            return f"mount namespaces with an overlay are refused: {' '.join(str(error).split())}"
        finally:
            ip("netns", "del", name)
    return ""
