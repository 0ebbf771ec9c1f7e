"""``hwcheck rollout``: what it makes of a stage that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.exceptions import Exit

from hwcheck.cli import rollout
from hwcheck.errors import UsageError
from hwcheck.provision.rollout import Batch, batches


class Stages:
    """Stages of which one cannot be used, as with a rule of the site that fails in use."""

    def __init__(self, broken: str, host: str = "n1") -> None:
        self.broken = broken
        self.host = host

    def provision(self, part: Batch) -> int:
        return self._stage("provision", part)

    def state(self, part: Batch) -> int:
        return self._stage("state", part)

    def validate(self, part: Batch) -> int:
        return self._stage("validate", part)

    def _stage(self, name: str, part: Batch) -> int:
        if name == self.broken and self.host in part.hosts:
            raise UsageError(f"{part.hosts[0]}: cannot be used")
        return 0


@pytest.mark.parametrize(("broken", "host"), [("validate", "n1"), ("provision", "n2")])
def test_after_a_change_it_is_not_measured_and_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], broken: str, host: str
) -> None:
    stages: Any = Stages(broken, host)
    outcomes = rollout._run(batches(["n1", "n2", "n3"], 1, None), stages, tmp_path)
    (stopped,) = [each for each in outcomes if each.outcome == "stopped"]
    assert (stopped.hosts, stopped.stages[broken]) == ((host,), 3)
    assert outcomes[-1].outcome == "untouched"
    assert len(json.loads((tmp_path / "rollout.json").read_text())["batches"]) == 3
    assert f"hwcheck: {stopped.name}: {host}: cannot be used" in capsys.readouterr().err


def test_while_a_batch_is_at_work_the_record_says_so(tmp_path: Path) -> None:
    seen = []

    class Looking(Stages):
        def _stage(self, name: str, part: Batch) -> int:
            batches = json.loads((tmp_path / "rollout.json").read_text())["batches"]
            seen.append([each["outcome"] for each in batches])
            return 0

    stages: Any = Looking("")
    rollout._run(batches(["n1", "n2"], 1, None), stages, tmp_path)
    assert seen == [["under way", "untouched"]] * 3 + [["done", "under way"]] * 3


def test_an_interrupted_batch_is_recorded(tmp_path: Path) -> None:
    class Interrupted(Stages):
        def provision(self, part: Batch) -> int:
            raise Exit(130)

    stages: Any = Interrupted("")
    outcomes = rollout._run(batches(["n1", "n2"], 1, None), stages, tmp_path)
    assert [(each.outcome, dict(each.stages)) for each in outcomes] == [
        ("stopped", {"provision": 130}),
        ("untouched", {}),
    ]
    written = json.loads((tmp_path / "rollout.json").read_text())["batches"]
    assert [each["outcome"] for each in written] == ["stopped", "untouched"]


def test_before_a_change_it_ends_the_command(tmp_path: Path) -> None:
    stages: Any = Stages("provision")
    with pytest.raises(UsageError, match="n1: cannot be used"):
        rollout._run(batches(["n1", "n2"], 1, None), stages, tmp_path)
