"""The commands of the history as they are typed: what they print, and what they refuse."""

from __future__ import annotations

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hwcheck.cli.program import run
from hwcheck.contract.wire import CheckResult, Sample
from tests import factories
from tests.history.conftest import NIGHTS, SWAP, planted, run_id, write_night

__all__ = ["planted"]


@pytest.fixture
def runs(planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a copy of the planted runs as ``runs``, in which the test stands."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(planted, tmp_path / "runs"))


def typed(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of a command line."""
    code = 0
    try:
        run([*argv])
    except SystemExit as ended:
        code = int(ended.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["history", "--runs", "nosuch"], "no such folder of runs: nosuch; name one with --runs"),
        (["history", "--runs", ""], "--runs is empty; name the folder of the runs"),
        (["history", "--since", "yesterday"], "--since yesterday: it takes a day (2026-01-31) or"),
        (["history", "--since", "2026-02-31"], "--since 2026-02-31: it takes a day"),
        (["history", "--since", "30 days"], "--since 30 days: it takes a day"),
        (["history", "--limit", "node01"], "--limit: it chooses among the hosts of --hosts"),
        (
            ["history", "--hosts", "node9,"],
            "node9: no such host in the history; did you mean node0",
        ),
        (["history", "--metric", "busbw"], "busbw: no such metric in the history; did you mean bu"),
        (
            ["history", "--yes"],
            "--delete goes with --older-than or --keep, and --yes with --delete",
        ),
        (["history", "--delete"], "--delete goes with --older-than or --keep"),
        (["history", "--keep", "3"], "--delete goes with --older-than or --keep"),
        (["history", "--delete", "--keep", "0"], "--keep 0: it takes a whole number from 1"),
        (["compare", "x", "y"], "x: no such run in the history"),
        (["compare", run_id(0), run_id(99)], f"{run_id(99)}: no such run in the history; did you"),
        (["compare", run_id(0)], "compare: name two runs, or one run and --last green"),
        (["compare", run_id(0), "--last", "red"], "--last red: it takes green"),
        (["compare", run_id(0), run_id(1), "--last", "green"], "name two runs, or one run and"),
        (["compare", run_id(0), "--last", "green"], "has a green run before it"),
        (["trend", "busbw"], "busbw: no such metric in the history; did you mean busbw_gbps?"),
        (["trend", "busbw_gbps", "--host", "node9"], "node9: no such host in the history; did you"),
        (["trend", "busbw_gbps", "--gpu", "1650001"], "1650001: no such GPU in the history; did"),
        (["trend", "busbw_gbps", "--host", "a", "--gpu", "b"], "--host and --gpu: name one of"),
        (["trend", "busbw_gbps", "-o", "x.jpg"], "--output x.jpg: it draws .png or .html"),
        (["trend", "busbw_gbps", "-o", "no/x.png"], "cannot write no/x.png: No such file"),
        (["trend", "busbw_gbps", "--size", "3Q"], "--size 3Q: it takes bytes"),
        (["trend", "busbw_gbps", "--size", "3M"], "no run has a number of all_reduce.busbw_gbps"),
        (["query", ""], "query: say what, as in hwcheck query"),
        (["query", "SELEC 1"], 'query: Parser Error: syntax error at or near "SELEC"'),
        (
            ["query", "SELECT * FROM host"],
            'Table with name host does not exist! Did you mean "hosts',
        ),
        (["query", "SELECT hst FROM hosts"], 'column "hst" not found in FROM clause!'),
        (["query", "DROP VIEW hosts"], "query: it takes one SELECT and nothing else"),
        (["query", "SELECT 1", "--format", "xml"], "--format xml: it is one of table, csv, json"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(
    runs: Path, capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    before = {path: path.stat().st_mtime_ns for path in runs.parent.rglob("*")}
    code, out, err = typed(capsys, *argv)
    assert message in err
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert {path: path.stat().st_mtime_ns for path in runs.parent.rglob("*")} == before


def test_what_is_typed_right_is_answered(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The control: each command with exit code 0, nothing on stderr, and what it is about."""
    for argv, text in (
        (["history"], run_id(NIGHTS - 1)[:8]),
        (["history", "--per-host", "--since", "2026-01-02"], "swapped"),
        (["history", "--hosts", "node02,", "--metric", "all_reduce.busbw_gbps"], "GB/s"),
        (["compare", f"runs/{run_id(0)}/", run_id(SWAP)], "GPU-node04-2 -> GPU-new"),
        (["compare", run_id(SWAP), "--last", "green"], "nothing changed"),
        (["compare", "--last", "green", run_id(SWAP), "--format", "csv"], "former_run"),
        (["trend", "busbw_gbps", "--host", "node03"], "all_reduce.busbw_gbps of leg default"),
        (["trend", "busbw_gbps", "--size", "64M"], "at 64 MiB"),
        (["query", "SELECT host FROM hosts"], "node04"),
    ):
        code, out, err = typed(capsys, *argv)
        assert (code, err) == (0, ""), argv
        assert text in out, argv


def test_answers_as_csv_and_json(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT started, host, outcome FROM hosts ORDER BY ALL LIMIT 2"
    _, out, _ = typed(capsys, "query", sql, "--format", "csv")
    assert next(csv.DictReader(io.StringIO(out))) == {
        "started": "2026-01-01T03:00:00Z",
        "host": "node01",
        "outcome": "pass",
    }
    _, out, _ = typed(capsys, "query", sql, "--format", "json")
    assert json.loads(out)[1]["host"] == "node02"


@pytest.mark.parametrize("name", ["trend.png", "trend.html"])
def test_a_trend_is_drawn(runs: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, out, err = typed(capsys, "trend", "power_limit_w", "--host", "node02", "-o", name)
    assert (code, out, err) == (0, "", f"hwcheck: {name}\n")
    content = (runs.parent / name).read_bytes()
    assert content.startswith(b"\x89PNG") or b"<svg role=" in content
    if name.endswith("html"):
        assert b"<script" not in content
        assert b"gpu3" in content


def test_a_comparison_is_drawn(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two = (run_id(0), run_id(NIGHTS - 1))
    assert typed(capsys, "compare", *two, "-o", "all.html") == (0, "", "hwcheck: all.html\n")
    page = (runs.parent / "all.html").read_text("utf-8")
    assert "<script" not in page
    assert page.count("<rect") == 1  # all_reduce of node03
    assert "-10.0 %" in page
    code, _, err = typed(capsys, "compare", *two, "-o", "all.png")
    assert (code, err) == (2, "hwcheck: --output all.png: it draws .html; end the name so\n")


def test_a_limit_is_that_of_today(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = typed(capsys, "trend", "temperature_idle.temperature_c", "--host", "node01")
    assert "fail unless <= 0.85 x temperature_slowdown_c" in out


def test_runs_of_former_versions_are_taken_in(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (runs / run_id(1)).glob("*.parquet"):
        path.unlink()
    (runs / run_id(2) / "hosts.parquet").write_text("junk")
    (runs / run_id(3) / "hosts.parquet").unlink()
    (runs / run_id(3) / "nodes" / "node01.json").write_text("{")
    _, _, err = typed(capsys, "history")
    assert "`hwcheck history --rebuild` takes it in" in err
    code, _, err = typed(capsys, "history", "--rebuild")
    assert code == 0
    assert f"{run_id(1)}: taken in" in err
    assert f"{run_id(2)}: taken in" in err
    assert f"{run_id(3)}: not taken in: damaged run folder" in err
    _, out, _ = typed(capsys, "query", "SELECT count(*) AS n FROM runs", "--format", "csv")
    assert out == f"n\n{NIGHTS - 1}\n"


def test_a_run_of_an_earlier_version_is_taken_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    saved = Path(__file__).parents[1] / "results" / "saved" / "20261122T130211Z-b9fde0"
    shutil.copytree(saved, tmp_path / "runs" / saved.name)
    assert typed(capsys, "history", "--rebuild")[0] == 0
    _, out, _ = typed(capsys, "query", "SELECT outcome FROM runs", "--format", "csv")
    assert out == "outcome\nfail\n"


def test_deleting_is_said_first_and_done_with_yes(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = typed(capsys, "history", "--delete", "--keep", "2")
    assert code == 0
    assert f"{run_id(0)}: would be deleted" in out
    assert (runs / run_id(0)).exists()
    _, out, _ = typed(capsys, "history", "--delete", "--keep", "2", "--yes")
    assert f"{run_id(0)}: deleted" in out
    assert {path.name for path in runs.iterdir()} == {run_id(NIGHTS - 2), run_id(NIGHTS - 1)}


def test_the_report_shows_the_last_runs_of_a_host_that_did_not_pass(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(capsys, "report", str(runs / run_id(7)))[0] == 1
    page = (runs / run_id(7) / "report.html").read_text("utf-8")
    assert "Its last 8 runs, this one at the end" in page
    assert "power_cap: power_limit_percent of gpu3" in page
    assert "57.1 % to 100 %" in page
    typed(capsys, "report", str(runs / run_id(0)))
    assert "Its last" not in (runs / run_id(0) / "report.html").read_text("utf-8")


def test_names_of_runs_and_hosts_stay_whole_in_80_columns(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = typed(capsys, "history")
    assert run_id(0) in out
    assert max(map(len, out.splitlines())) <= 80
    _, out, _ = typed(capsys, "history", "--metric", "all_reduce.busbw_gbps")
    names = [row.split()[0] for row in out.splitlines()]
    assert names == ["Host", "node01", "node02", "node03", "node04"]  # a line each: grep has all
    assert "passed" in out


SITE_CHECK = '''\
from hwcheck.contract.check import BY_USE, Metric, Remedy, check
from hwcheck.contract.wire import Sample


@check(
    metrics=[Metric("room_gib", "GiB", "room for checkpoints", varies={varies})],
    remedy=Remedy("full", "delete some", "df"),
    gpu=False,
)
def room(node):
    """Read how much room there is."""
    yield Sample("room_gib", 1.0, "GiB")
'''


@pytest.mark.parametrize(("varies", "changes"), [("None", 1), ("BY_USE", 0)])
def test_a_site_says_what_of_its_metrics_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], varies: str, changes: int
) -> None:
    site = tmp_path / "hwcheck" / "checks"
    site.mkdir(parents=True)
    (site / "room.py").write_text(SITE_CHECK.format(varies=varies))
    for night, room_gib in enumerate((100.0, 50.0)):
        sample = Sample("room_gib", room_gib, "GiB")
        host = factories.gpu_host("node01")
        assert host.report
        answers = (*host.report.results, CheckResult("room", "done", samples=(sample,)))
        write_night(
            tmp_path / "runs", night, replace(host, report=replace(host.report, results=answers))
        )
    two = [run_id(0), run_id(1), "--runs", str(tmp_path / "runs")]
    code, out, _ = typed(capsys, "compare", *two, "--site", str(site.parent))
    assert (code, out.count("room.room_gib")) == (0, changes)
