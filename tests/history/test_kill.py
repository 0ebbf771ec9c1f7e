"""A run that is killed while it ends costs no other run, and is whole after ``hwcheck report``."""

from __future__ import annotations

import multiprocessing
import random
import shutil
import time
from pathlib import Path

import pytest

from hwcheck.history.views import History
from hwcheck.results.run_folder import read_run
from hwcheck.tasks.outcome import show
from tests.history.conftest import NIGHTS, run_id
from tests.history.ending import end_run

LAST = run_id(NIGHTS - 1)
KILLS, ALL = 12, 50
"""Kills, each at a time of its own from the first moment of a run's end to the last."""
RENDERED = ("report.html", "report.md", "junit.xml")
TABLES = ("samples.parquet", "findings.parquet", "hosts.parquet")
PROCESSES = multiprocessing.get_context("forkserver")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [KILLS, pytest.param(ALL, marks=pytest.mark.wide)])
def test_killed_at_any_point_it_costs_no_other_run(
    kills: int, planted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Path(shutil.copytree(planted, tmp_path / "runs"))
    run, dice, states = runs / LAST, random.Random(18), set()
    PROCESSES.set_forkserver_preload(["tests.history.ending"])
    for _ in range(2):  # the first one starts the server
        began = time.monotonic()
        child = PROCESSES.Process(target=end_run, args=(run,))
        child.start()
        child.join()
        assert child.exitcode == 0
        whole_s = time.monotonic() - began
    for kill in range(kills):
        for name in (*RENDERED, *TABLES):
            (run / name).unlink(missing_ok=True)
        child = PROCESSES.Process(target=end_run, args=(run,))
        child.start()
        child.join(whole_s * (kill + dice.random()) / kills)
        child.kill()
        child.join()
        states.add(tuple(name for name in (*RENDERED, *TABLES) if (run / name).exists()))
        read_run(run)
        with History.open(runs) as history:
            assert history.rows("SELECT count(*) FROM runs WHERE run <> ?", [LAST]) == [
                (NIGHTS - 1,)
            ]
            assert {each.folder for each in history.left_out} <= {LAST}
    assert len(states) >= 2, f"every kill came at the same point: {states}"
    show(run, as_json=True)
    capsys.readouterr()
    with History.open(runs) as history:
        assert not history.left_out
        assert len(history.folders) == NIGHTS
    assert not list(run.glob("*.new"))


def test_a_file_that_is_half_written_is_beside_its_place(planted: Path, tmp_path: Path) -> None:
    """What a kill in the middle of a file leaves; the next end of the run replaces it."""
    run = Path(shutil.copytree(planted / LAST, tmp_path / "runs" / LAST))
    (run / "samples.parquet").rename(run / "samples.parquet.new")
    with History.open(tmp_path / "runs") as history:
        assert [each.folder for each in history.left_out] == [LAST]
    show(run, as_json=True)
    with History.open(tmp_path / "runs") as history:
        assert list(history.folders) == [LAST]
    assert not list(run.glob("*.new"))
