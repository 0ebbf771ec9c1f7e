"""What the writers of a node's tree share: files, links, sections with known keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class ScenarioError(Exception):
    """A scenario that cannot be read; the message names the file or the key."""


def section(data: Mapping[str, Any], where: str, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``data`` over its defaults. Raises ScenarioError for a key without a default."""
    if not isinstance(data, Mapping):
        raise ScenarioError(f"{where}: {data!r} is not a mapping")
    unknown = set(data) - set(defaults)
    if unknown:
        names = ", ".join(sorted(map(str, unknown)))
        raise ScenarioError(f"{where}: unknown: {names}; known: {', '.join(map(str, defaults))}")
    return {**defaults, **data}


def cpus_of(text: str) -> list[int]:
    """Return the CPUs of a list as the kernel writes it (``0-2,8``)."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


class TreeWriter:
    """Writes below a root; paths are relative to it, and may start with a slash.

    A node has 2,000 files, so a folder is made once and names are plain text.
    """

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._made = {""}

    def folder(self, path: str) -> str:
        """Make a folder and return where it is."""
        path = path.strip("/")
        where = f"{self._root}/{path}"
        if path not in self._made:
            os.makedirs(where, exist_ok=True)
            self._made.add(path)
        return where

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a text file that ends with a newline, as the kernel's do."""
        self.write_bytes(path, (text + "\n").encode(), mode)

    def write_bytes(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Write a file; ``mode`` counts from its first byte on."""
        folder, _, name = path.rpartition("/")
        file = f"{self.folder(folder)}/{name}"
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        try:
            written = os.write(descriptor, data)
        finally:
            os.close(descriptor)
        assert written == len(data), f"{file}: {written} of {len(data)} bytes"

    def link(self, path: str, target: str) -> None:
        """Make a link to another path below the root; it is relative, so the root may move."""
        folder, _, name = path.rpartition("/")
        os.symlink(os.path.relpath(target, folder), f"{self.folder(folder)}/{name}")
