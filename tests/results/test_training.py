"""``training.json``: written, read, and held against its schema; as is what a node answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hwcheck.errors import UsageError
from hwcheck.results.schema_check import schema_problem
from hwcheck.results.training import FILE, STATES, read_training, write_training
from tests.advise.test_training_figures import the_guide
from tests.run.training.test_orders import answer


def test_a_record_comes_back(tmp_path: Path) -> None:
    assert read_training(tmp_path) is None
    write_training(tmp_path, the_guide())
    assert read_training(tmp_path) == the_guide()


def test_the_schema_knows_every_state(tmp_path: Path) -> None:
    write_training(tmp_path, the_guide())
    data = json.loads((tmp_path / FILE).read_text())
    for state in STATES:
        data["runs"][0]["state"] = state
        assert not schema_problem(data, "training")
    data["runs"][0]["state"] = "fine"
    (tmp_path / FILE).write_text(json.dumps(data))
    with pytest.raises(UsageError, match="damaged run folder"):
        read_training(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"state": "perfect"},
        {"repeats": [{"times_s": [0], "begin_s": 0, "end_s": 0}]},
        {"repeats": [{"times_s": [], "begin_s": 0, "end_s": 0}]},
        {"losses": [{"rank": 0, "losses": ["low"]}]},
        {"losses": [{"rank": 0, "losses": [1e300]}]},
        {"peak_bytes": [-1]},
        {"gpus": [{"subject": "<b>"}]},
        {"log_tail": "x" * 20_001},
        {"more": 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_answer_that_does_not_fit_is_refused(change: dict[str, Any]) -> None:
    assert not schema_problem(answer(), "trained")
    assert schema_problem({**answer(), **change}, "trained")
