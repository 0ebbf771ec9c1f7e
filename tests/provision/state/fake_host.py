"""A stand-in for testinfra's host: commands and what they print, as a case lists them."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from testinfra.backend.base import BaseBackend


class FakeHost:
    """Answers the commands of ``node``: text for success, ``{rc: , err: }`` for failure.

    A command that is not listed fails, as on a node that does not have it. ``programs`` are those
    that ``exists`` finds; ``folders`` those that are there.
    """

    def __init__(self, node: Mapping[str, Any]) -> None:
        self._node = node
        self._programs = node.get("programs", ["dpkg-query"])
        self._folders = node.get("folders", [])

    def run(self, command: str, *arguments: str) -> SimpleNamespace:
        line = BaseBackend.quote(command, *arguments)
        found = self._node.get(line, {"rc": 127, "err": f"{line}: not there"})
        if isinstance(found, str):
            found = {"rc": 0, "out": found + "\n"}
        return SimpleNamespace(
            rc=found["rc"],
            stdout=found.get("out", ""),
            stderr=found.get("err", ""),
            succeeded=found["rc"] == 0,
            failed=found["rc"] != 0,
        )

    def exists(self, program: str) -> bool:
        return program in self._programs

    def file(self, path: str) -> SimpleNamespace:
        return SimpleNamespace(is_directory=path in self._folders)
