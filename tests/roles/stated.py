"""What ``hwcheck state`` says of a simulated machine."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwcheck.provision.state.cases import roles_with_assertions
from tests.roles.machine import PLAY_S, Machine

HWCHECK = Path(sys.executable).parent / "hwcheck"


@dataclass(frozen=True)
class Stated:
    """The assertions of one run, as ``state.json`` has them."""

    code: int
    text: str
    assertions: Sequence[Mapping[str, Any]]

    def variables(self, outcome: str) -> set[str]:
        """Return the variables with an assertion of this outcome."""
        return {each["variable"] for each in self.assertions if each["outcome"] == outcome}

    def roles(self, outcome: str) -> set[str]:
        """Return the roles with an assertion of this outcome."""
        return {each["role"] for each in self.assertions if each["outcome"] == outcome}


def state(machine: Machine, roles: Sequence[str], **variables: object) -> Stated:
    """Assert the state of roles on the machine, with these variables in its inventory."""
    asserted = [role for role in roles_with_assertions() if role in roles]
    folder = Path(tempfile.mkdtemp(dir=machine.folder.parent))
    command = [HWCHECK, "state", "--hosts", machine.inventory(**variables)]
    done = subprocess.run(
        [*command, "--roles", ",".join(asserted), "--out", folder],
        capture_output=True,
        text=True,
        check=False,
        timeout=PLAY_S,
    )
    text = done.stdout + done.stderr
    records = list(folder.glob("*/state.json"))
    assert len(records) == 1, text
    (host,) = json.loads(records[0].read_text())["hosts"]
    return Stated(done.returncode, text, host["assertions"])
