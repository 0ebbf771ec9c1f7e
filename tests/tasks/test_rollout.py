"""``hwcheck rollout``: what it makes of a stage that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hwcheck.errors import UsageError
from hwcheck.provision.rollout import Batch, batches
from hwcheck.tasks import rollout


class Stages:
    """Stages of which one cannot be used, as with a rule of the site that fails in use."""

    def __init__(self, broken: str) -> None:
        self.broken = broken

    def provision(self, part: Batch) -> int:
        return self._stage("provision", part)

    def state(self, part: Batch) -> int:
        return self._stage("state", part)

    def validate(self, part: Batch) -> int:
        return self._stage("validate", part)

    def _stage(self, name: str, part: Batch) -> int:
        if name == self.broken:
            raise UsageError(f"{part.hosts[0]}: cannot be used")
        return 0


@pytest.mark.parametrize("broken", ["state", "validate"])
def test_after_a_change_it_is_not_measured_and_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], broken: str
) -> None:
    stages: Any = Stages(broken)
    outcomes = rollout._run(batches(["n1", "n2"], 1, None), stages, tmp_path)
    assert [(each.outcome, each.stages.get(broken)) for each in outcomes] == [
        ("stopped", 3),
        ("untouched", None),
    ]
    assert len(json.loads((tmp_path / "rollout.json").read_text())["batches"]) == 2
    assert "hwcheck: canary: n1: cannot be used" in capsys.readouterr().err


def test_before_a_change_it_ends_the_command(tmp_path: Path) -> None:
    stages: Any = Stages("provision")
    with pytest.raises(UsageError, match="n1: cannot be used"):
        rollout._run(batches(["n1", "n2"], 1, None), stages, tmp_path)
