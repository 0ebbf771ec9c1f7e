"""A run that is killed while it ends costs no other run, and is whole after ``hwcheck report``."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hwcheck.history.views import History
from hwcheck.results.run_folder import read_run
from hwcheck.tasks.outcome import show
from tests.history.conftest import NIGHTS, run_id

PROGRAM = Path(__file__).with_name("kill_while_ending.py")
LAST = run_id(NIGHTS - 1)
KILLS = 50
RENDERED = ("report.html", "report.md", "junit.xml")
TABLES = ("samples.parquet", "findings.parquet", "hosts.parquet")


def end_run(run: Path) -> subprocess.Popen[bytes]:
    """Start the end of a run; return once its process is about to begin."""
    child = subprocess.Popen(
        [sys.executable, PROGRAM, run],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert child.stdout
    assert child.stdout.readline() == b"ready\n"
    return child


@pytest.mark.timeout(900)
def test_killed_at_any_point_it_costs_no_other_run(
    planted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Path(shutil.copytree(planted, tmp_path / "runs"))
    run, dice, states = runs / LAST, random.Random(18), set()
    began = time.monotonic()
    end_run(run).communicate(b"\n")
    whole_s = time.monotonic() - began
    for _ in range(KILLS):
        for name in (*RENDERED, *TABLES):
            (run / name).unlink(missing_ok=True)
        child = end_run(run)
        assert child.stdin
        child.stdin.write(b"\n")
        child.stdin.flush()
        try:
            child.wait(timeout=dice.uniform(0, whole_s))
        except subprocess.TimeoutExpired:
            child.kill()
        child.communicate()
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
