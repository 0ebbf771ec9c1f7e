"""Folders that look like a node's ``/proc`` and ``/sys``."""

from __future__ import annotations

from pathlib import Path

from hwcheck.node.host.reader import NodeHost
from tests.lab.tree_writer import TreeWriter


class Root:
    """A folder with the parts of ``/proc`` and ``/sys`` that a test writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tree = TreeWriter(path)
        self.host = NodeHost(str(path), environment={}, home="/home/user")

    def write(self, path: str, text: str) -> None:
        self.write_bytes(path, text.encode())

    def write_bytes(self, path: str, data: bytes) -> None:
        self._tree.write_bytes(path, data)

    def device(self, address: str, vendor: str = "0x10de", kind: str = "0x030200") -> str:
        """Make a PCI device under a port of its own; return the port's folder."""
        port = "sys/devices/pci0000:00/0000:00:" + address.split(":")[1] + ".0"
        self.write(f"{port}/{address}/vendor", vendor + "\n")
        self.write(f"{port}/{address}/class", kind + "\n")
        self._tree.link("sys/bus/pci/devices/" + address, f"{port}/{address}")
        return port
