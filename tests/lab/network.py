"""A bridge and network namespaces on it. Root only.

A lab takes a slot (an abstract socket's name, which the kernel frees with the process), and the
slot names everything it makes: whoever gets the slot next knows that what still carries its name
was left by a dead process.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

SLOTS = 16
PREFIX = "hwlab"


def ip(*arguments: str, check: bool = True) -> str:
    """Run ip(8) and return what it prints."""
    command = ["ip", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def why_not() -> str:
    """Return why no lab can be built here, or an empty text."""
    if os.geteuid() != 0:
        return "not root"
    if not Path("/usr/sbin/sshd").exists():
        return "no /usr/sbin/sshd"
    name = f"{PREFIX}-try{os.getpid()}"
    try:
        ip("netns", "add", name)
        ip("netns", "del", name)
    except (OSError, RuntimeError) as error:
        return f"network namespaces are refused: {error}"
    return ""


class Slot:
    """What makes ``number`` ours until it is released or this process dies."""

    def __init__(self, number: int, lock: socket.socket) -> None:
        self.number = number
        self._lock = lock

    @classmethod
    def try_take(cls, number: int) -> Slot | None:
        """Return the slot, or None when it is in use."""
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(f"\0{PREFIX}-{number}")
        except OSError as error:
            lock.close()
            if error.errno == errno.EADDRINUSE:
                return None
            raise
        return cls(number, lock)

    @classmethod
    def take(cls) -> Slot:
        """Return the first free slot."""
        for number in range(SLOTS):
            slot = cls.try_take(number)
            if slot is not None:
                return slot
        raise RuntimeError("every lab slot is in use")

    def release(self) -> None:
        self._lock.close()


class Network:
    """10.77.<slot>.0/24 on one bridge; node i has address .i, this machine .254."""

    def __init__(self, slot: Slot) -> None:
        self._stem = f"{PREFIX}{slot.number}"
        self._subnet = f"10.77.{slot.number}"

    def up(self, nodes: int) -> None:
        """Build it."""
        bridge = f"{self._stem}-br"
        ip("link", "add", bridge, "type", "bridge")
        ip("addr", "add", f"{self._subnet}.254/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for number in range(1, nodes + 1):
            self._add(number, bridge)

    def _add(self, number: int, bridge: str) -> None:
        name, veth = self.namespace(number), f"{self._stem}-v{number}"
        ip("netns", "add", name)
        ip("link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", veth, "master", bridge, "up")
        ip("-n", name, "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "link", "set", "lo", "up")

    def namespace(self, number: int) -> str:
        return f"{self._stem}-n{number}"

    def address(self, number: int) -> str:
        return f"{self._subnet}.{number}"

    def cut(self, number: int) -> None:
        """Take a node's link down, as a pulled cable does."""
        ip("link", "set", f"{self._stem}-v{number}", "down")

    def processes(self, number: int) -> list[int]:
        """Return the processes that live in a node's network namespace."""
        return _processes(self.namespace(number))

    def down(self) -> None:
        """End the processes in the namespaces and remove all that carries our name, folders too."""
        for line in ip("netns", "list").splitlines():
            name = line.split()[0]
            if name.startswith(f"{self._stem}-n"):
                for pid in _processes(name):
                    kill(pid)
                ip("netns", "del", name)
        for line in ip("-o", "link", "show").splitlines():
            name = line.split(":")[1].strip().split("@")[0]
            if name.startswith(f"{self._stem}-"):
                ip("link", "del", name, check=False)  # one end of a pair takes the other with it
        for folder in Path(tempfile.gettempdir()).glob(f"{self._stem}-*"):
            shutil.rmtree(folder, ignore_errors=True)

    def folder(self) -> Path:
        """Make a folder that goes with the network."""
        return Path(tempfile.mkdtemp(prefix=f"{self._stem}-"))


def _processes(namespace: str) -> list[int]:
    return [int(pid) for pid in ip("netns", "pids", namespace, check=False).split()]


def kill(pid: int) -> None:
    """End a process that may have ended already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def remove_leftovers() -> None:
    """Remove what labs of dead processes left behind."""
    for number in range(SLOTS):
        slot = Slot.try_take(number)
        if slot is not None:
            Network(slot).down()
            slot.release()
