from __future__ import annotations

from pathlib import Path

import pytest

from hwcheck.cli.outcome import show
from hwcheck.contract.columnar import pack
from hwcheck.errors import UsageError
from hwcheck.results.run_folder import RunFolder
from hwcheck.testing.fake_load import fake_load
from tests import factories
from tests.factories import gpu_host


def test_the_report_has_the_picture_of_a_load_that_was_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = gpu_host("node01")
    path = factories.saved(tmp_path, host)
    show(path, None, as_json=False)
    assert "Under load" not in (path / "report.html").read_text("utf-8")
    load = fake_load({"each": {"series": {"power_w": 650}}, "gpus": [{}, {}]})
    RunFolder(path, factories.run(host).meta).write_series("node01", pack(load))
    show(path, None, as_json=False)
    page = (path / "report.html").read_text("utf-8")
    assert "<h2>Under load</h2>" in page
    assert "node01: the GPUs side by side" in page


def test_a_damaged_series_is_named(tmp_path: Path) -> None:
    path = factories.saved(tmp_path, gpu_host("node01"))
    (path / "series").mkdir(exist_ok=True)
    (path / "series" / "node01.json").write_text("{", "utf-8")
    with pytest.raises(UsageError, match=r"series/node01\.json"):
        show(path, None, as_json=False)


def test_reports_can_be_written_elsewhere_and_touch_nothing_else(tmp_path: Path) -> None:
    run = factories.saved(tmp_path / "runs", factories.gpu_host("a"))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    out = tmp_path / "out"
    (out / "nccl").mkdir(parents=True)
    (out / "nccl/mine.txt").write_text("mine")
    show(run, None, as_json=True, silent=True, out=out)
    assert {"report.html", "report.md", "junit.xml", "samples.csv"} <= {
        p.name for p in out.iterdir()
    }
    assert (out / "nccl/mine.txt").read_text() == "mine"
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    show(run, None, as_json=True, silent=True)
    assert (run / "report.html").is_file(), "the control"
