"""A judged run as three Parquet files in its own folder, written by DuckDB.

There is no database beside the run folders: these files are made of ``run.json``, ``nodes/`` and
the judgement, and can be made of them again. ``docs/history.md`` explains every column.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwcheck.errors import UsageError
from hwcheck.results.files import writing_to

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from hwcheck.advise.assessment import Assessment
    from hwcheck.results.run_folder import RunMeta

FORMAT = 3
FORMAT_KEY, RUN_KEY, STARTED_KEY = "hwcheck_format", "hwcheck_run", "hwcheck_started"
"""Keys of a file's metadata: the version of its format, and what all of its rows are of. A reader
learns it from the file's end alone."""

KINDS = ("samples", "findings", "hosts")
"""The files, as they are written: ``hosts`` last, so that where it is new all are."""

EXERCISE = "starts_with(coalesce({table}.library, ''), 'gloo')"
"""What a node without a GPU shows: that the path works, and no figure of a GPU."""

ROW_GROUP = 32_768
"""Rows that a reader of one metric has to take in at least: 1,000 hosts have some 60 such groups.
DuckDB's own groups are of a multiple of 2,048 rows."""

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "hosts": {
        "run": "VARCHAR",
        "started": "TIMESTAMP",
        "finished": "TIMESTAMP",
        "interrupted": "BOOLEAN",
        "profile": "VARCHAR",
        "options": "VARCHAR",
        "inventory": "VARCHAR",
        "version": "VARCHAR",
        "run_outcome": "VARCHAR",
        "host": "VARCHAR",
        "address": "VARCHAR",
        "state": "VARCHAR",
        "outcome": "VARCHAR",
        "reason": "VARCHAR",
        "reason_code": "VARCHAR",
        "asked": "INTEGER",
        "measured": "INTEGER",
        "duration_s": "DOUBLE",
        "hostname": "VARCHAR",
        "kernel": "VARCHAR",
        "driver": "VARCHAR",
        "nccl": "VARCHAR",
        "torch": "VARCHAR",
        "gpus": "STRUCT(slot VARCHAR, pci_address VARCHAR, gpu VARCHAR, uuid VARCHAR, "
        "serial VARCHAR, model VARCHAR, vbios VARCHAR, board VARCHAR)[]",
        "boards": "VARCHAR",
        "causes": "VARCHAR[]",
    },
    "samples": {
        "run": "VARCHAR",
        "started": "TIMESTAMP",
        "host": "VARCHAR",
        "check_id": "VARCHAR",
        "metric": "VARCHAR",
        "subject": "VARCHAR",
        "size_bytes": "BIGINT",
        "gpu": "VARCHAR",
        "value": "DOUBLE",
        "value_text": "VARCHAR",
        "unit": "VARCHAR",
        "spread": "DOUBLE",
        "library": "VARCHAR",
    },
    "findings": {
        "run": "VARCHAR",
        "started": "TIMESTAMP",
        "host": "VARCHAR",
        "check_id": "VARCHAR",
        "metric": "VARCHAR",
        "subject": "VARCHAR",
        "gpu": "VARCHAR",
        "outcome": "VARCHAR",
        "value": "DOUBLE",
        "value_text": "VARCHAR",
        "unit": "VARCHAR",
        "limit_text": "VARCHAR",
        "source": "VARCHAR",
        "confidence": "VARCHAR",
        "reason": "VARCHAR",
        "reason_code": "VARCHAR",
        "waived": "VARCHAR",
    },
}
"""The columns of each file with their types. Times are UTC."""

OF_CODES = """
SELECT host.name AS host, check_.name AS check_id, metric, subject, gpu.name AS gpu,
  value, value_text, unit
FROM sample_codes AS codes
JOIN of_sample AS sample ON codes.sample = sample.code
JOIN of_host AS host ON codes.host = host.code
JOIN of_check AS check_ ON codes.check = check_.code
LEFT JOIN of_gpu AS gpu ON codes.gpu = gpu.code
"""
"""The samples, in the order of their codes."""

WORDS = {
    "host": (("of_host", "name"), ("of_timings", "host")),
    "metric": (("of_sample", "metric"), ("of_timings", "metric")),
    "subject": (("of_sample", "subject"), ("of_timings", "subject")),
    "unit": (("of_sample", "unit"), ("of_timings", "unit")),
    "library": (("of_timings", "library"),),
}
"""Columns of samples that have few words, and where these are. As enumerations DuckDB writes them
in a quarter of the time, and in the file they are texts. ``check_id`` is none: of each group of
rows the least and the greatest, by which readers skip other checks, would not be right."""

CODE_TYPES = {"code": "INTEGER", "name": "VARCHAR"}

NUMBERS = {"DOUBLE": "f8", "INTEGER": "i4", "BIGINT": "i8"}
"""Types of DuckDB whose columns it is handed as arrays of numpy's type."""


class DuckDBMissingError(UsageError):
    """DuckDB is not installed here: runs are judged as ever, and there is no history."""


def connect() -> DuckDBPyConnection:
    """Return a new DuckDB in memory that gets nothing from anywhere. Raises DuckDBMissingError."""
    try:
        import duckdb  # not above: it takes a tenth of a second, and most commands need none
    except ImportError as error:
        raise DuckDBMissingError(f"no history: {error}; install duckdb for this Python") from None
    db = duckdb.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "temp_directory": "",
        }
    )
    db.execute("SET parquet_metadata_cache = true")
    db.execute("SET enable_progress_bar = false")  # it would be printed on stdout
    return db


def file_of(run: Path, kind: str) -> Path:
    """Return where a run has its ``hosts``, ``samples`` or ``findings``."""
    return run / f"{kind}.parquet"


def quoted(text: object) -> str:
    """Return a text for SQL, where no parameter can stand."""
    return "'" + str(text).replace("'", "''") + "'"


def write(path: Path, assessment: Assessment) -> None:
    """Write the three files of a judged run into its folder, each as a whole.

    Raises DiskError, and DuckDBMissingError where DuckDB is not installed.
    """
    with connect() as db:
        from hwcheck.history import rows  # numpy comes with it

        db.execute("SET pandas_analyze_sample = 0")  # arrays of objects are texts
        # Several threads would write the rows in another order, and so would these optimizers.
        db.execute("SET threads = 1")
        db.execute("SET disabled_optimizers = 'join_order, build_side_probe_side'")
        gpus = rows.gpus_of(assessment.run)
        codes, tables = rows.sample_codes(assessment.run, gpus)
        db.register("sample_codes", codes)
        for name, table in tables.items():
            _take(db, f"of_{name}", table, {**COLUMNS["samples"], **CODE_TYPES})
        _take(db, "of_timings", rows.timing_table(assessment), COLUMNS["samples"])
        for column, places in WORDS.items():
            words = " ".join(f"UNION SELECT {of} FROM {place}" for place, of in places)
            db.execute(  # one word at least: there is no enumeration of none
                f"CREATE TYPE words_of_{column} AS ENUM (SELECT word FROM (SELECT '' {words}) "
                "AS of_all(word) WHERE word IS NOT NULL ORDER BY word)"
            )
            for place, of in places:
                db.execute(f"ALTER TABLE {place} ALTER {of} TYPE words_of_{column}")
        _take(db, "of_findings", rows.finding_table(assessment, gpus), COLUMNS["findings"])
        _take(db, "of_hosts", rows.host_table(assessment, gpus), COLUMNS["hosts"])
        queries = {
            "samples": f"({OF_CODES}) UNION ALL BY NAME (FROM of_timings)",
            "findings": "FROM of_findings",
            "hosts": "FROM of_hosts",
        }
        of_run = _of_run(assessment.run.meta, assessment.judgement.outcome)
        with writing_to(path):
            for kind in KINDS:
                query = _whole(kind, queries[kind], of_run)
                _replace_parquet(db, file_of(path, kind), query, metadata(of_run))
            _sync(path)


def _take(
    db: DuckDBPyConnection, name: str, table: Mapping[str, list[Any]], types: Mapping[str, str]
) -> None:
    """Make a table of columns of Python."""
    if not table:  # a run of no host
        return
    columns = ", ".join(
        column
        if types[column] in (*NUMBERS, "VARCHAR")
        else f"from_json({column}, {quoted(json.dumps(types[column]))}) AS {column}"
        for column in table
    )
    arrays = {column: _array(values, types[column]) for column, values in table.items()}
    db.register("arrays", arrays)
    db.execute(f"CREATE TABLE {name} AS SELECT {columns} FROM arrays")


def _array(values: Sequence[Any], type_: str) -> NDArray[Any]:
    """Return a column for DuckDB, which takes arrays several times as fast as lists.

    Numbers, where None is masked, or texts; of lists and structures their JSON.
    """
    import numpy as np

    if type_ in NUMBERS:
        numbers = [0 if value is None else value for value in values]
        return np.ma.array(numbers, NUMBERS[type_], mask=[value is None for value in values])
    texts = values if type_ == "VARCHAR" else map(json.dumps, values)
    return np.fromiter(texts, object, len(values))


def metadata(of_run: Mapping[str, str]) -> str:
    """Return what a file says of itself, as an option of COPY."""
    words = {FORMAT_KEY: FORMAT, RUN_KEY: of_run["run"], STARTED_KEY: of_run["started"]}
    return f"KV_METADATA {{{', '.join(f'{key}: {quoted(word)}' for key, word in words.items())}}}"


def _of_run(meta: RunMeta, outcome: str) -> dict[str, str]:
    return {
        "run": meta.id,
        "started": meta.started,
        "finished": meta.finished,
        "interrupted": str(meta.interrupted),
        "profile": meta.profile,
        "options": json.dumps(meta.options) if meta.options else "",
        "inventory": meta.inventory,
        "version": meta.version,
        "run_outcome": outcome,
    }


def _whole(kind: str, table: str, of_run: Mapping[str, str]) -> str:
    """Return the query of a file: all of its columns, in their types."""
    columns = []
    for name, type_ in COLUMNS[kind].items():
        if name == "run":  # one word, as in WORDS
            columns.append(f"{quoted(of_run[name])}::ENUM({quoted(of_run[name])}) AS {name}")
        elif name in of_run:
            columns.append(f"TRY_CAST({quoted(of_run[name])} AS {type_}) AS {name}")
        else:
            columns.append(name)
    return f"SELECT {', '.join(columns)} FROM ({table})"


def _replace_parquet(db: DuckDBPyConnection, file: Path, query: str, of_itself: str) -> None:
    """Write the rows of a query into a file beside, and put that in the former's place.

    Raises OSError. A symbolic link in either's place is replaced and not followed.
    """
    import duckdb

    temporary = file.with_name(file.name + ".new")
    temporary.unlink(missing_ok=True)
    try:
        try:
            db.execute(
                f"COPY ({query}) TO {quoted(temporary)} (FORMAT parquet, COMPRESSION zstd, "
                f"ROW_GROUP_SIZE {ROW_GROUP}, {of_itself})"
            )
        except duckdb.IOException as error:
            raise _os_error(error) from None
        _sync(temporary)
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def _os_error(error: Exception) -> OSError:
    """Return the error of the system that DuckDB has in its message."""
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM):
        if os.strerror(number) in str(error):
            return OSError(number, os.strerror(number))
    return OSError(errno.EIO, str(error).splitlines()[0])


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
