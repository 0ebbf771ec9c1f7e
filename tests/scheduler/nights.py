"""Sweeps as they are typed, over hosts that have no GPU."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hwcheck import checks as registry
from hwcheck.cli import sweep
from hwcheck.cli.program import run
from hwcheck.fleet.sweep import state as sweep_state
from hwcheck.fleet.sweep.state import SweepState, key_of, read_state
from tests.lab.lab import Lab
from tests.lab.waiting import wait_until

CHECKS = ("file_systems", "gpu_count")
"""They are quick. Where ``hwcheck_gpus`` names GPUs the second fails, for there are none."""
LOADS = "file_systems"
"""Taken for a check that loads the host, without which no night has measured one."""
NIGHT = ("--level", "nightly", "--max-unavailable", "100%")


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


class Nights:
    """The current folder with an inventory of the hosts of a lab, and its runs."""

    def __init__(
        self,
        lab: Lab,
        scheduler: str,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        python = {"ansible_python_interpreter": sys.executable, "hwcheck_interface": "eth0"}
        everything = yaml.safe_load(lab.inventory(**python).read_text())["all"]
        common = everything.get("vars", {})
        self._ways = {name: {**common, **its} for name, its in everything["hosts"].items()}
        self._scheduler = scheduler
        self._capfd = capfd
        every = registry.load()
        every[LOADS] = replace(every[LOADS], load=True)
        monkeypatch.setattr(sweep, "all_checks", lambda additions: every)
        monkeypatch.setattr(sweep, "checks_of", lambda level, every: CHECKS)

    def hosts(self, *, bad: Collection[str] = (), every: str = "1d") -> None:
        """Write the inventory; ``bad`` are the hosts that fail, ``every`` is when they are due."""
        hosts = {
            name: {**way, "hwcheck_gpus": 8 if name in bad else 0}
            for name, way in self._ways.items()
        }
        common = {
            "hwcheck_scheduler": self._scheduler,
            "hwcheck_sweep": {"nightly": {"every": every}},
        }
        text = yaml.safe_dump({"all": {"hosts": hosts, "vars": common}})
        Path("cluster.yml").write_text(text)

    def typed(self, command: str, *words: str) -> Ended:
        """Run ``hwcheck COMMAND --hosts cluster.yml WORDS``."""
        code = 0
        try:
            run([*command.split(), "--hosts", "cluster.yml", *words])
        except SystemExit as ended:
            code = int(ended.code or 0)
        out, err = self._capfd.readouterr()
        assert "Traceback" not in err, err
        return Ended(code, out, err)

    def sweep(self, *words: str) -> Ended:
        """Run a sweep of a night, whose run comes after the others also by its name."""
        last = max((path.name[:16] for path in Path("runs").glob("2*")), default="")
        wait_until(lambda: f"{sweep_state.now_utc():%Y%m%dT%H%M%SZ}" > last, 5)
        return self.typed("sweep run", *NIGHT, *words)

    def validate(self) -> Ended:
        """Measure all hosts by hand, with the checks of a night."""
        return self.typed("validate", "--only", ",".join(CHECKS))

    @property
    def log(self) -> list[dict[str, Any]]:
        """What is on record of drains."""
        path = Path("runs/drains.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def actions(self) -> list[tuple[str, str, str]]:
        """Action, host and outcome of each line of the log."""
        return [(each["action"], each["host"], each["outcome"]) for each in self.log]

    @property
    def not_drained(self) -> list[str]:
        """The hosts of which the metrics say that they failed and could not be drained."""
        metrics = Path("hwcheck.prom").read_text()
        return sorted({*re.findall(r'host="(\w+)",check="not_drained"', metrics)})

    @property
    def state(self) -> SweepState:
        """What the sweeps keep."""
        state, problem = read_state(Path("runs"), key_of("cluster.yml"))
        assert problem == ""
        return state

    @property
    def run(self) -> str:
        """The name of the newest run folder."""
        return max(path.parent.name for path in Path("runs").glob("2*/run.json"))
