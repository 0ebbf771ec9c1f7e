"""The demonstration finds what it hides."""

from pathlib import Path

import pytest

from hwcheck.results.run_folder import read_run
from tests.lab import demo


def test_the_demo_finds_its_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "RUNS", tmp_path)
    assert demo.main() == 0
    (run,) = tmp_path.glob("2*")
    assert len(read_run(run).records) == demo.HOSTS
    assert f"{run.name}/report.html" in capfd.readouterr().out
    assert (run / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize("wrong", [{"node02": "pass"}, {"node01": "inconclusive"}])
def test_another_outcome_is_said(wrong: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    names = ["node01", "node02"]
    right = {"node01": "pass", "node02": "fail"}
    assert demo._compare(right, names) == 0
    assert demo._compare({**right, **wrong}, names) == 1
    assert f"in place of {right[next(iter(wrong))]}" in capsys.readouterr().err
