"""A run that is killed while it ends costs no other run, and is whole after ``hwcheck report``."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
from pathlib import Path

import pytest

from hwcheck.cli.outcome import show
from hwcheck.history.views import History
from hwcheck.results.run_folder import read_run
from tests.history.conftest import NIGHTS, run_id
from tests.history.ending import NEEDS, end_run

LAST = run_id(NIGHTS - 1)
KILLS = 3
"""So many kills, spread over all steps of a run's end; ``make test-wide`` kills at each."""
RENDERED = ("report.html", "report.md", "junit.xml")
TABLES = ("samples.parquet", "findings.parquet", "hosts.parquet")
PROCESSES = multiprocessing.get_context("forkserver")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [KILLS, pytest.param(None, marks=pytest.mark.wide)])
def test_killed_at_any_step_it_costs_no_other_run(
    kills: int | None, planted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Path(shutil.copytree(planted, tmp_path / "runs"))
    run, states = runs / LAST, set()
    PROCESSES.set_forkserver_preload([*NEEDS, "tests.history.ending"])

    def end(kill_at: int = 0) -> tuple[int | None, int]:
        """Return how it ended, and at which step."""
        for name in (*RENDERED, *TABLES):
            (run / name).unlink(missing_ok=True)
        steps = PROCESSES.Value("i", 0)
        child = PROCESSES.Process(target=end_run, args=(run, steps, kill_at))
        child.start()
        child.join()
        return child.exitcode, steps.value

    code, last = end()
    assert code == 0
    assert last >= KILLS
    for kill in range(kills or last):
        kill_at = 1 + kill * (last - 1) // ((kills or last) - 1)
        assert end(kill_at) == (-signal.SIGKILL, kill_at)
        states.add(tuple(name for name in (*RENDERED, *TABLES) if (run / name).exists()))
        read_run(run)
        with History.open(runs) as history:
            assert history.rows("SELECT count(*) FROM runs WHERE run <> ?", [LAST]) == [
                (NIGHTS - 1,)
            ]
            assert {each.folder for each in history.left_out} <= {LAST}
    assert len(states) >= 3, f"every kill came at the same point: {states}"
    show(run, None, as_json=True)
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
    show(run, None, as_json=True)
    with History.open(tmp_path / "runs") as history:
        assert list(history.folders) == [LAST]
    assert not list(run.glob("*.new"))
