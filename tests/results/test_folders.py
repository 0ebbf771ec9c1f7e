"""The link to the run that ended last."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwcheck.history.views import History
from hwcheck.results.folders import LATEST, link_latest, named_folder


def test_latest_leads_to_the_run_that_ended_last(tmp_path: Path) -> None:
    for name in ("20260131T120000Z-5ad2f1", "20260201T120000Z-0c3b77"):
        (tmp_path / name).mkdir()
        link_latest(tmp_path / name)
        assert named_folder(str(tmp_path / LATEST)) == tmp_path / name
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("20260131T120000Z-5ad2f1", "20260201T120000Z-0c3b77", LATEST)
    ]


def test_a_folder_of_that_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / LATEST).mkdir()
    (tmp_path / "run").mkdir()
    with pytest.raises(OSError, match="latest"):
        link_latest(tmp_path / "run")
    assert named_folder(str(tmp_path / LATEST)) == tmp_path / LATEST


def test_the_link_is_no_run_of_its_own(tmp_path: Path) -> None:
    run = tmp_path / "20260131T120000Z-5ad2f1"
    run.mkdir()
    (run / "run.json").write_text("{}")
    link_latest(run)
    with History.open(tmp_path) as history:
        assert [each.path.name for each in history.left_out] == ["20260131T120000Z-5ad2f1"]
