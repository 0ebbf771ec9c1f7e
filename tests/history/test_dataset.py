"""What is written into a run folder, and what becomes of what is in its way."""

from __future__ import annotations

import builtins
import shutil
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from hwcheck.advise.assessment import assess
from hwcheck.advise.catalogue import shipped
from hwcheck.cli.outcome import show
from hwcheck.contract.wire import CheckResult, Sample
from hwcheck.history import dataset
from hwcheck.history.views import History
from hwcheck.results.files import DiskError
from hwcheck.results.multi_host import MultiHostOutcome, MultiHostRecord
from hwcheck.results.run_folder import read_run
from tests import factories
from tests.run.multi_host.fake_participants import multi_host_run
from tests.small_disk import fill


def test_every_sample_of_every_host_is_there(planted: Path) -> None:
    runs = {folder.name: read_run(folder) for folder in planted.iterdir()}
    with History.open(planted) as history:
        rows = history.rows(
            "SELECT run, host, check_id, metric, subject, value, value_text, unit FROM samples "
            "WHERE size_bytes IS NULL"
        )
    expected = set()
    for name, run in runs.items():
        for record in run.records:
            assert record.report
            for result in record.report.results:
                for each in result.samples:
                    text, number = None, None
                    if isinstance(each.value, bool):
                        text, number = ("yes" if each.value else "no"), float(each.value)
                    elif isinstance(each.value, str):
                        text = each.value
                    else:
                        number = float(each.value)
                    key = (result.check, each.metric, each.subject)
                    expected.add((name, record.host, *key, number, text, each.unit))
    assert len(rows) == len(expected)
    assert set(rows) == expected


def test_every_size_of_a_clean_leg_is_there(planted: Path) -> None:
    with History.open(planted) as history:
        rows = history.rows(
            "SELECT subject, size_bytes, value, spread, library FROM samples WHERE "
            "size_bytes IS NOT NULL AND host = 'node01' AND run LIKE '20260101%' ORDER BY ALL"
        )
    legs = [factories.leg(), factories.leg("net", 9.0), factories.leg("p2p_off", 40.0)]
    assert rows == [
        (f"leg {leg.leg}", size.size_bytes, size.busbw_gbps, size.spread, leg.library)
        for leg in legs
        for size in leg.sizes
    ]


def test_what_ran_over_hosts_and_what_was_measured_again_is_there(tmp_path: Path) -> None:
    answers = [CheckResult("all_reduce", "done", legs=(factories.leg(),))]
    again = [CheckResult("all_reduce", "done", legs=(factories.leg(peak_gbps=440.0),))]
    run = factories.run(factories.record("a", answers), factories.record("b", answers))
    run = replace(run, second_visits={"a": factories.record("a", again)})
    good = MultiHostOutcome("ok", 40.0, 41.0)
    whys = ("pairs", "all", "rail 3", "mnnvl_off", "again", "split")
    runs = [multi_host_run(why, ("a", "b"), good, library="NCCL 2.27") for why in whys]
    runs.append(multi_host_run("pairs", ("a", "b"), MultiHostOutcome("wrong", 9.0, 9.0)))
    record = MultiHostRecord(("pairs", "all"), ("a", "b"), "nccl", tuple(runs), finished=True)
    folder = tmp_path / "runs" / "20260101T030000Z-000000"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    run = replace(run, path=folder, meta=replace(run.meta, started="2026-01-01T03:00:00Z"))
    dataset.write(folder, assess(run, shipped(), record))
    with History.open(folder.parent) as history:
        rows = history.rows(
            "SELECT host, subject, value, library FROM samples WHERE check_id = 'group' "
            "AND metric = 'all_reduce_busbw_gbps' AND size_bytes IS NULL ORDER BY ALL"
        )
        legs = history.rows(
            "SELECT host, subject, max(value) FROM samples WHERE check_id = 'all_reduce' "
            "AND size_bytes IS NOT NULL GROUP BY ALL ORDER BY ALL"
        )
    assert rows == [
        (host, subject, 40.0, "NCCL 2.27")
        for host, other in (("a", "b"), ("b", "a"))
        for subject in (
            "2 hosts",
            "2 hosts, rail 3",
            f"link to {other}",
            f"link to {other}, mnnvl_off",
        )
    ]
    assert [row[:2] for row in legs] == [
        ("a", "leg default"),
        ("a", "leg default, second visit"),
        ("b", "leg default"),
    ]
    assert legs[0][2] > legs[1][2]


def test_samples_of_a_gpu_name_it(planted: Path) -> None:
    with History.open(planted) as history:
        rows = history.rows(
            "SELECT DISTINCT gpu FROM samples WHERE host = 'node04' AND subject = 'gpu2' ORDER BY 1"
        )
        others = history.rows("SELECT count(*) FROM samples WHERE subject = 'node' AND gpu <> ''")
    assert rows == [("GPU-new",), ("GPU-node04-2",)]
    assert others == [(0,)]


def test_one_metric_lies_together_and_in_the_order_of_hosts(tmp_path: Path) -> None:
    """Of so many rows that several threads of DuckDB would share them."""
    samples = tuple(Sample(f"m{place:03}", place, "W", "node") for place in range(1000))
    names = [f"node{place:03}" for place in range(400)]
    few = assess(factories.run(*(factories.record(name, []) for name in names)), shipped())
    answer = [CheckResult("power_idle", "done", samples=samples)]
    many = factories.run(*(factories.record(name, answer) for name in names))
    (tmp_path / "run.json").write_text("{}")
    dataset.write(tmp_path, replace(few, run=replace(few.run, records=many.records)))
    rows = duckdb.sql(
        "SELECT metric, host FROM read_parquet($1, file_row_number = true) "
        "WHERE check_id = 'power_idle' ORDER BY file_row_number",
        params=[str(dataset.file_of(tmp_path, "samples"))],
    ).fetchall()
    assert rows == [(each.metric, name) for each in samples for name in names]


def test_rows_of_one_host_are_in_order_too(tmp_path: Path) -> None:
    """DuckDB would look up the larger table's rows in the smaller: here neither is larger."""
    names = [f"m{place * 7 % 300:03}" for place in range(300)]
    answers = [
        CheckResult(check, "done", samples=tuple(Sample(name, place, "W") for name in names))
        for place, check in enumerate(("power_idle", "driver"))
    ]
    path = factories.saved(tmp_path, factories.record("n1", answers))
    dataset.write(path, assess(read_run(path), shipped()))
    rows = duckdb.sql(
        "SELECT check_id, metric FROM read_parquet($1, file_row_number = true) "
        "ORDER BY file_row_number",
        params=[str(dataset.file_of(path, "samples"))],
    ).fetchall()
    assert rows == [(check, name) for check in ("driver", "power_idle") for name in sorted(names)]


def test_hostile_text_is_kept_as_text(tmp_path: Path) -> None:
    answers = [
        CheckResult("driver", "done", samples=(Sample(f"m{place}", text[:400], "", text[:200]),))
        for place, text in enumerate(factories.HOSTILE)
    ]
    samples = tuple(each for answer in answers for each in answer.samples)
    host = factories.record("n1", [CheckResult("driver", "done", samples=samples)])
    path = factories.saved(tmp_path, host)
    dataset.write(path, assess(read_run(path), shipped()))
    with History.open(tmp_path) as history:
        rows = dict(history.rows("SELECT metric, value_text FROM samples"))
    assert len(rows) == len(factories.HOSTILE)
    assert rows["m0"] == factories.HOSTILE[0]
    assert "\\udc" in rows["m5"] or "\\ud800" in rows["m5"]


def test_a_link_in_the_way_is_replaced_and_not_followed(planted: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(next(planted.iterdir()), tmp_path / "run"))
    victim = tmp_path / "victim"
    victim.write_text("kept")
    for name in ("samples.parquet", "hosts.parquet.new"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(victim)
    dataset.write(run, assess(read_run(run), shipped()))
    assert victim.read_text() == "kept"
    assert not (run / "samples.parquet").is_symlink()
    assert not list(run.glob("*.new"))


def test_a_full_disk_is_one_line_and_leaves_the_former_files(small_disk: Path) -> None:
    run = factories.saved(small_disk, factories.gpu_host("n1", []))
    dataset.write(run, assess(read_run(run), shipped()))
    before = {path.name: path.read_bytes() for path in run.glob("*.parquet")}
    assessment = assess(read_run(run), shipped())
    fill(small_disk)
    with pytest.raises(DiskError, match=r"cannot write to the run folder: .*: No space left"):
        dataset.write(run, assessment)
    assert {path.name: path.read_bytes() for path in run.glob("*.parquet")} == before
    assert not list(run.glob("*.new"))


def test_without_duckdb_a_run_is_judged_and_it_is_said(
    planted: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = Path(shutil.copytree(next(planted.iterdir()), tmp_path / "run"))
    for path in run.glob("*.parquet"):
        path.unlink()
    real = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name == "duckdb":
            raise ImportError("No module named 'duckdb'")
        return real(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    assert show(run, None, as_json=True) == 0
    assert "no history: No module named 'duckdb'; install duckdb" in capsys.readouterr().err
    assert (run / "report.html").exists()
    assert not list(run.glob("*.parquet"))


def test_other_tools_read_the_files(planted: Path) -> None:
    """A plain DuckDB without any of our views, as pandas or Spark would."""
    files = [str(path) for path in planted.glob("*/hosts.parquet")]
    rows = duckdb.connect().execute("SELECT count(*) FROM read_parquet(?)", [files]).fetchall()
    assert rows == [(36,)]
