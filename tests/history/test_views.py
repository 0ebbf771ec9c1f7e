"""Folders that may have come from anywhere, and SQL that may say anything."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from hwcheck.errors import UsageError
from hwcheck.history import dataset
from hwcheck.history.views import History
from tests.history.conftest import NIGHTS, run_id

BAD = run_id(4)


@pytest.fixture
def runs(planted: Path, tmp_path: Path) -> Path:
    """A copy in which one folder is made bad."""
    return Path(shutil.copytree(planted, tmp_path / "runs"))


def rewrite(folder: Path, kind: str, query: str, **metadata: str) -> None:
    """Write a file of the folder anew, of its own rows as ``t``."""
    usual = {"format": f"{dataset.FORMAT}", "run": folder.name, "started": "2026-01-05T03:00:00Z"}
    words = {**usual, **metadata}
    of_itself = ", ".join(f"hwcheck_{key}: '{word}'" for key, word in words.items())
    file = dataset.file_of(folder, kind)
    db = duckdb.connect()
    db.execute(f"CREATE TABLE t AS FROM read_parquet('{file}')")
    db.execute(f"COPY ({query}) TO '{file}' (FORMAT parquet, KV_METADATA {{{of_itself}}})")


def garbage(folder: Path) -> None:
    (folder / "samples.parquet").write_bytes(b"PAR1 no parquet at all PAR1")


def half(folder: Path) -> None:
    content = (folder / "samples.parquet").read_bytes()
    (folder / "samples.parquet").write_bytes(content[: len(content) // 2])


def link(folder: Path) -> None:
    (folder / "hosts.parquet").unlink()
    (folder / "hosts.parquet").symlink_to("/etc/passwd")


def fifo(folder: Path) -> None:
    (folder / "findings.parquet").unlink()
    os.mkfifo(folder / "findings.parquet")


def missing(folder: Path) -> None:
    (folder / "samples.parquet").unlink()


def huge(folder: Path) -> None:
    with (folder / "samples.parquet").open("ab") as stream:
        stream.truncate(2**40)


def foreign(folder: Path) -> None:
    duckdb.connect().execute(f"COPY (SELECT 1 AS a) TO '{folder}/hosts.parquet' (FORMAT parquet)")


def newer(folder: Path) -> None:
    rewrite(folder, "samples", "FROM t", format=f"{dataset.FORMAT + 1}")


def another_run(folder: Path) -> None:
    shutil.copy(folder.parent / run_id(0) / "samples.parquet", folder)


def no_run(folder: Path) -> None:
    rewrite(folder, "findings", "FROM t", run="")


def no_date(folder: Path) -> None:
    rewrite(folder, "findings", "FROM t", started="soon")


def a_copy(folder: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(folder.parent / run_id(0), folder)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (garbage, "samples.parquet: "),
        (half, "samples.parquet: "),
        (link, "hosts.parquet is no plain file"),
        (fifo, "findings.parquet is no plain file"),
        (missing, "no samples.parquet: under way"),
        (huge, "more than a run's can have"),
        (foreign, "hosts.parquet: not written by hwcheck"),
        (newer, f"samples.parquet: format {dataset.FORMAT + 1}, of a newer hwcheck"),
        (another_run, "2 runs are named in one folder"),
        (no_run, "findings.parquet: it names no run, or no date"),
        (no_date, "findings.parquet: it names no run, or no date"),
        (a_copy, f"it is a copy of {run_id(0)}"),
    ],
)
def test_a_bad_folder_costs_only_itself_and_is_named(
    runs: Path, spoil: Callable[[Path], None], reason: str
) -> None:
    spoil(runs / BAD)
    with History.open(runs) as history:
        assert [each.folder for each in history.left_out] == [BAD]
        assert reason in history.left_out[0].reason
        assert history.rows("SELECT count(*) FROM runs") == [(NIGHTS - 1,)]
        assert history.rows("SELECT count(DISTINCT run) FROM samples") == [(NIGHTS - 1,)]


@pytest.mark.parametrize("bad", [run_id(0), BAD], ids=["the first", "another"])
@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            "SELECT * REPLACE ('many' AS value) FROM t",
            f"samples.parquet: column value is not one of format {dataset.FORMAT}",
        ),
        ("SELECT * EXCLUDE (value) FROM t", "samples.parquet: no column value"),
    ],
    ids=["of another type", "missing"],
)
def test_a_column_that_is_not_as_the_format_has_it_costs_its_folder(
    runs: Path, bad: str, query: str, reason: str
) -> None:
    rewrite(runs / bad, "samples", query)
    with History.open(runs) as history:
        assert history.rows("SELECT count(DISTINCT run) FROM samples WHERE value > 0") == [
            (NIGHTS - 1,)
        ]
        assert [each.folder for each in history.left_out] == [bad]
        assert reason in history.left_out[0].reason


def test_a_query_that_is_wrong_leaves_nothing_out(runs: Path) -> None:
    with History.open(runs) as history:
        with pytest.raises(UsageError, match="query: "):
            history.rows("SELECT nothing_of_the_kind FROM samples")
        assert not history.left_out


@pytest.mark.parametrize(
    ("key", "nights"), [("run", NIGHTS), ("started", NIGHTS), ("host", NIGHTS - 1)]
)
def test_rows_that_do_not_say_of_what_they_are_are_no_rows(
    runs: Path, key: str, nights: int
) -> None:
    rewrite(runs / BAD, "hosts", f"SELECT * REPLACE (NULL AS {key}) FROM t")
    rewrite(runs / BAD, "samples", f"SELECT * REPLACE (NULL AS {key}) FROM t")
    with History.open(runs) as history:
        assert history.rows("SELECT count(*) FROM runs") == [(nights,)]
        assert history.rows(f"SELECT count(*) FROM samples WHERE {key} IS NULL") == [(0,)]


def test_a_row_is_of_the_run_that_its_file_says(runs: Path) -> None:
    """So a query of one run opens one file; what a row claims beside counts for nothing."""
    rewrite(runs / BAD, "samples", "SELECT * REPLACE ('another' AS run) FROM t")
    with History.open(runs) as history:
        assert history.rows("SELECT count(*) FROM samples WHERE run = 'another'") == [(0,)]
        assert history.rows("SELECT count(DISTINCT run) FROM samples") == [(NIGHTS,)]


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("", NIGHTS),
        (f"WHERE run = '{run_id(3)}'", 1),
        (f"WHERE list_contains(['{run_id(0)}', '{run_id(NIGHTS - 1)}'], run)", 2),
    ],
)
def test_a_query_of_some_runs_opens_only_their_files(planted: Path, where: str, files: int) -> None:
    with History.open(planted) as history:
        for kind in ("samples", "findings", "hosts"):
            ((_, plan),) = history.rows(f"EXPLAIN ANALYZE SELECT * FROM {kind} {where}")
            assert re.findall(r"Files Read:\s*(\d+)", plan) == [str(files)], plan


def test_a_folder_that_is_a_link_or_no_run_is_named(runs: Path) -> None:
    (runs / "link").symlink_to(runs / BAD)
    (runs / "loop").symlink_to("loop")
    (runs / "pictures").mkdir()
    (runs / "provision").mkdir()
    (runs / "provision" / "provision.json").write_text("{}")
    with History.open(runs) as history:
        named = {each.folder: each.reason for each in history.left_out}
        assert named == {"link": "a symbolic link", "pictures": "not a run folder: no run.json"}
        assert len(history.folders) == NIGHTS


def test_a_page_that_is_damaged_is_found_when_it_is_read(runs: Path) -> None:
    """The footer is whole, so only a query notices."""
    file = runs / BAD / "samples.parquet"
    content = bytearray(file.read_bytes())
    content[100:600] = b"\xff" * 500
    file.write_bytes(content)
    with History.open(runs) as history:
        assert not history.left_out
        rows = history.rows("SELECT count(DISTINCT run), sum(hash(samples)) FROM samples")
        assert rows[0][0] == NIGHTS - 1
        assert [each.folder for each in history.left_out] == [BAD]


def test_a_file_of_an_older_format_is_read(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite(runs / BAD, "samples", "SELECT * EXCLUDE (spread, library) FROM t")
    with History.open(runs) as history:
        history.rows("SELECT DISTINCT spread FROM samples")
        assert "no column spread" in history.left_out[0].reason
    monkeypatch.setattr("hwcheck.history.views.FORMAT", dataset.FORMAT + 1)
    with History.open(runs) as history:
        left = [each.folder for each in history.left_out]
        # Those of this format that have all columns of the next are read like the one that has not.
        assert left == []
        rows = history.rows(f"SELECT DISTINCT library FROM samples WHERE run = '{BAD}'")
        assert rows == [(None,)]


WRITES = [
    "COPY (SELECT 1) TO 'x.parquet'",
    "CREATE TABLE x AS SELECT 1",
    "INSERT INTO hosts (run) VALUES ('x')",
    "DELETE FROM hosts",
    "DROP VIEW hosts",
    "ATTACH 'x.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "EXPORT DATABASE 'x'",
    "SELECT 1; SELECT 2",
    "",
    "-- nothing",
]
SEES = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/hostname')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM read_parquet('{other}')",
    "WITH x AS (INSERT INTO hosts (run) VALUES ('x') RETURNING run) SELECT * FROM x",
    "WITH x AS (DELETE FROM hosts RETURNING run) SELECT * FROM x",
]


@pytest.mark.parametrize("sql", [*WRITES, *SEES])
def test_a_query_writes_nothing_and_sees_nothing_else(
    planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "other.parquet"
    duckdb.connect().execute(f"COPY (SELECT 1 AS a) TO '{other}' (FORMAT parquet)")
    before = {path: path.read_bytes() for path in planted.rglob("*") if path.is_file()}
    with History.open(planted) as history, pytest.raises(UsageError) as refused:
        history.select(sql.replace("{other}", str(other)))
    assert "\n" not in str(refused.value)
    assert {path: path.read_bytes() for path in planted.rglob("*") if path.is_file()} == before
    assert list(tmp_path.iterdir()) == [other]


def test_a_query_that_reads_is_answered(planted: Path) -> None:
    """The control of the refusals."""
    with History.open(planted) as history:
        assert history.select("SELECT count(*) AS n FROM runs").rows == [(NIGHTS,)]
        assert history.select("WITH x AS (FROM hosts) SELECT count(*) FROM x").rows == [(36,)]
