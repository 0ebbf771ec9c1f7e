"""A small cluster to provision: the lab's hosts, a playbook with one quick role, the commands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.lab.lab import Lab, Node

BIN = Path(sys.executable).parent
PLAY = "- hosts: all\n  gather_facts: false\n  roles:\n    - {role: nccl, tags: [nccl]}\n"
WANTED: dict[str, Any] = {
    "nvidia_repository_url": "",
    "nccl_library": False,
    "nccl_conf": "present",
    "nccl_conf_settings": {"NCCL_DEBUG": "WARN", "NCCL_IB_TIMEOUT": "22"},
}
"""What the inventory wants of the role: settings in /etc/nccl.conf, no repository, no packages."""


class Site:
    """A folder with an inventory of a lab's hosts and a playbook; ``run`` is the command.

    ``programs`` is the folder that has hwcheck.
    """

    def __init__(self, lab: Lab, folder: Path, programs: Path = BIN) -> None:
        self.lab = lab
        self._programs = programs
        self.folder = folder
        self.inventory = folder / "cluster.yml"
        self.playbook = folder / "play.yml"
        self.playbook.write_text(PLAY)
        self.write()

    def write(self, hosts: Mapping[str, Mapping[str, object]] | None = None, **common: Any) -> None:
        """Write the inventory; ``hosts`` and ``common`` are variables beside ``WANTED``."""
        found = yaml.safe_load(self.lab.inventory(**{**WANTED, **common}).read_text())
        for name, variables in (hosts or {}).items():
            found["all"]["hosts"][name].update(variables)
        self.inventory.write_text(yaml.safe_dump(found))

    def run(
        self, command: str, *words: str, given: str | None = None, roles: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run ``hwcheck <command> --hosts <inventory>`` in the folder."""
        words = ("--roles", "nccl", *words) if roles else words
        return self.ask(command, "--hosts", "cluster.yml", *words, given=given)

    def ask(self, *words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run ``hwcheck <words>`` in the folder."""
        return subprocess.run(
            [self._programs / "hwcheck", *words],
            cwd=self.folder,
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )

    def state(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ``hwcheck state`` for the role."""
        return self.run("state", *words, roles=True)

    def newest(self) -> Path:
        """Return the newest run folder."""
        folders = list((self.folder / "runs").glob("2*"))
        return max(folders, key=lambda path: path.stat().st_mtime_ns)

    def record(self, name: str) -> dict[str, Any]:
        """Return a record of the newest run folder."""
        found = json.loads((self.newest() / name).read_text())
        assert isinstance(found, dict)
        return found


def conf(node: Node) -> str:
    """Return what NCCL would read on a node; empty where there is nothing."""
    return node.ask(["sh", "-c", "cat /etc/nccl.conf 2>/dev/null || true"])


def logins(node: Node) -> int:
    """Return how many connections the node's sshd has let in."""
    return (node.folder / "sshd.log").read_text().count("Accepted publickey")
