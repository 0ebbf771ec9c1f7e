"""NVIDIA IMEX, which lets hosts of one NVLink domain map each other's memory.

Paths: NVIDIA IMEX Service for NVLink Networks, IMEX Service Config Options and IMEX Channels.
"""

from __future__ import annotations

import os
import re
from ipaddress import ip_address
from typing import Optional, Set

from hwcheck.contract.facts import Imex
from hwcheck.node.host.processes import ProcessReader
from hwcheck.node.host.tree import READ_LIMIT_BYTES

SERVICE = "nvidia-imex"
CONFIG = "/etc/nvidia-imex/config.cfg"
NODES = "/etc/nvidia-imex/nodes_config.cfg"
CHANNELS = "dev/nvidia-caps-imex-channels"

IN_LIST = "lists this host"
NOT_IN_LIST = "does not list this host"
EMPTY = "lists no host"
ABSENT = "is not there"

LOCAL_IPV4 = re.compile(r"\|-- (\S+)\n\s+/32 host LOCAL")


class ImexReader(ProcessReader):
    """The IMEX part of ``node.NodeHost``."""

    def imex(self) -> Imex:
        """State of the service by which hosts of an NVLink domain map each other's memory."""
        pid = next((pid for pid, name in self._processes() if name == SERVICE), None)
        runs = pid is not None if self._shows_others() else None
        names = (re.fullmatch(r"channel\d+", name) for name in self._list(CHANNELS))
        # Where processes are hidden nobody sees which files the service was given.
        return Imex(runs, sum(map(bool, names)), "" if runs is None else self._nodes_file(pid))

    def _nodes_file(self, pid: Optional[str]) -> str:
        """Say what the list of nodes is to this host; empty where that cannot be known."""
        config, elsewhere = CONFIG, False
        if pid is not None:
            words = self._read("proc/%s/cmdline" % pid).split("\0")
            if "-c" in words[:-1]:
                config = words[words.index("-c") + 1]
            # What runs in a container reads the files of that container.
            elsewhere = self._is_contained(pid) or not config.startswith("/")
        settings = self._file(config)
        if elsewhere or (settings is None and config != CONFIG):
            return ""
        named = re.findall(r"^\s*IMEX_NODE_CONFIG_FILE\s*=\s*(\S+)", settings or "", re.MULTILINE)
        path = named[-1] if named else NODES
        text = self._file(path)
        if text is None:
            # Without its settings nobody knows which list a running service was given.
            is_listed = pid is None or settings is not None
            return ABSENT if is_listed and not self._exists(path) else ""
        lines = (line.partition("#")[0].split() for line in text.splitlines())
        return self._listed({word for words in lines for word in words})

    def _file(self, path: str) -> Optional[str]:
        """Return the text of a plain file: a process may name any path, and a device acts on it."""
        return self._text(path) if os.path.isfile(self._path(path)) else None

    def _listed(self, nodes: Set[str]) -> str:
        if not nodes:
            return EMPTY
        host = self._read("proc/sys/kernel/hostname").strip()
        listed, here = [_address(node) for node in nodes], self._addresses()
        if here & set(listed) or (host and nodes & {host, host.partition(".")[0]}):
            return IN_LIST
        # A name may mean this host, which only a resolver knows.
        return NOT_IN_LIST if here and all(listed) else ""

    def _addresses(self) -> Set[str]:
        """Return the addresses of this host but loopback; empty where they cannot all be read."""
        routes, six = self._read("proc/net/fib_trie"), self._read("proc/net/if_inet6")
        if len(routes) >= READ_LIMIT_BYTES:
            return set()
        # Eight groups of four digits, without colons.
        groups = (re.findall("....", line[:32]) for line in six.splitlines())
        words = [*LOCAL_IPV4.findall(routes), *map(":".join, groups)]
        return {word for word in map(_address, words) if word and not ip_address(word).is_loopback}


def _address(word: str) -> str:
    """Return an address in the one way of writing it; empty for what is none."""
    try:
        return str(ip_address(word))
    except ValueError:
        return ""
