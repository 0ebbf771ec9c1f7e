"""A bridge and network namespaces on it. Root only.

A lab takes a slot (an abstract socket's name, which the kernel frees with the process), and the
slot names everything it makes: whoever gets the slot next knows that what still carries its name
was left by a dead process. The slots from STANDING on are for labs that stay when the process that
built them ends (``python -m tests.lab up``); nobody else touches them.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

SLOTS = 16
STANDING = SLOTS
LAST = 2 * SLOTS - 1
PREFIX = "hwlab"
END_S = 10.0
# The bucket holds more than the largest packet that the kernel hands down in one piece.
BUCKET = ("burst", "128kb", "latency", "50ms")


def ip(*arguments: str, check: bool = True) -> str:
    """Run ip(8) and return what it prints."""
    return _answer("ip", *arguments, check=check)


def _answer(*command: str, check: bool = True) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


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
        name, veth = self.namespace(number), self._veth(number)
        ip("netns", "add", name)
        ip("link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", veth, "master", bridge, "up")
        ip("-n", name, "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "link", "set", "lo", "up")

    def namespace(self, number: int) -> str:
        return f"{self._stem}-n{number}"

    def _veth(self, number: int) -> str:
        return f"{self._stem}-v{number}"

    def address(self, number: int) -> str:
        return f"{self._subnet}.{number}"

    def limit(self, number: int, rate: str) -> None:
        """Let a node's link carry no more than ``rate`` (as tc writes it: 50mbit) either way."""
        there = ("dev", self._veth(number))
        back = ("-n", self.namespace(number)), ("dev", "eth0")
        for options, device in (((), there), back):
            shape = ("root", "tbf", "rate", rate, *BUCKET)
            _answer("tc", *options, "qdisc", "replace", *device, *shape)

    def part(self, numbers: Sequence[int], rate: str) -> None:
        """Put these nodes on a switch of their own, with an uplink that carries ``rate``."""
        switch, ends = f"{self._stem}-sw", (f"{self._stem}-u1", f"{self._stem}-u2")
        ip("link", "add", switch, "type", "bridge")
        ip("link", "set", switch, "up")
        ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for end, bridge in zip(ends, (f"{self._stem}-br", switch), strict=True):
            ip("link", "set", end, "master", bridge, "up")
            _answer("tc", "qdisc", "replace", "dev", end, "root", "tbf", "rate", rate, *BUCKET)
        for number in numbers:
            ip("link", "set", self._veth(number), "master", switch)

    def cut(self, number: int) -> None:
        """Take a node's link down, as a pulled cable does."""
        ip("link", "set", self._veth(number), "down")

    def mend(self, number: int) -> None:
        """Take it up again."""
        ip("link", "set", self._veth(number), "up")

    def processes(self, number: int) -> list[int]:
        """Return the processes that live in a node's network namespace."""
        return _processes(self.namespace(number))

    def down(self) -> None:
        """End the processes in the namespaces and remove all that carries our name, folders too.

        Raises RuntimeError when a process does not end.
        """
        for line in ip("netns", "list").splitlines():
            name = line.split()[0]
            if name.startswith(f"{self._stem}-n"):
                _end_processes(name)
                ip("netns", "del", name)
        for line in ip("-o", "link", "show").splitlines():
            name = line.split(":")[1].strip().split("@")[0]
            if name.startswith(f"{self._stem}-"):
                ip("link", "del", name, check=False)  # one end of a pair takes the other with it
        for folder in Path(tempfile.gettempdir()).glob(f"{self._stem}-*"):
            shutil.rmtree(folder)

    def folder(self) -> Path:
        """Make a folder that goes with the network."""
        return Path(tempfile.mkdtemp(prefix=f"{self._stem}-"))


def _processes(namespace: str) -> list[int]:
    return [int(pid) for pid in ip("netns", "pids", namespace, check=False).split()]


def _end_processes(namespace: str) -> None:
    end = time.monotonic() + END_S
    while pids := _processes(namespace):
        if time.monotonic() > end:
            raise RuntimeError(f"{namespace}: these processes do not end: {pids}")
        for pid in pids:
            kill(pid)


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
