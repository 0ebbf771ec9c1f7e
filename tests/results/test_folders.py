"""A new run folder and what is written there."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from hwcheck.errors import UsageError
from hwcheck.results.folders import new_folder, write_record


@dataclass(frozen=True)
class Record:
    name: str
    hosts: tuple[str, ...]


def test_folders_of_one_second_differ(tmp_path: Path) -> None:
    first, second = new_folder(tmp_path / "runs"), new_folder(tmp_path / "runs")
    assert first != second
    write_record(first / "state.json", Record("a", ("n1",)))
    assert json.loads((first / "state.json").read_text()) == {"name": "a", "hosts": ["n1"]}


def test_a_place_that_takes_none(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(UsageError, match="cannot create the run folder"):
        new_folder(tmp_path / "runs")
    with pytest.raises(UsageError, match="cannot write to the run folder"):
        write_record(tmp_path / "nosuch" / "state.json", Record("a", ()))
