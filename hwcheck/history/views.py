"""The run folders of one folder, opened as DuckDB views.

A run folder may have come from anywhere: only plain files of the right form are read, one that is
not is left out and named, and a query sees nothing but these files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter, methodcaller
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from hwcheck.errors import UsageError
from hwcheck.history.dataset import (
    COLUMNS,
    FORMAT,
    FORMAT_KEY,
    KINDS,
    RUN_KEY,
    STARTED_KEY,
    connect,
    file_of,
    quoted,
)
from hwcheck.results.folders import LATEST
from hwcheck.text import line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

T = TypeVar("T")

REBUILD = "`hwcheck history --rebuild` takes it in"

MOST_BYTES = 512 * 2**20
"""A file of a run is no larger: 1,000 hosts with 8 GPUs take 1.3 MB."""
OF_RUN = ("run", "started")
"""Columns that are the same in all rows of a file, which says them of itself as well."""
KEYS = (*OF_RUN, "host")
"""Columns that a file of any format has; of a row without a host nothing can be told."""
OF_THE_QUERY = (
    *("BinderException", "CatalogException", "ConversionException", "NotImplementedException"),
    *("OutOfRangeException", "ParserException", "PermissionException"),
)
"""Errors that are not for what a file holds."""
MEMORY = "800MB"
"""What DuckDB may take; a run whose files need more is left out."""

OTHER_COMMANDS = ("provision.json", "state.json", "rollout.json", "explain.json")
"""A folder with one of these was made by another command, and is no run."""

VIEWS = {
    "runs": """
        SELECT run, any_value(started) AS started, any_value(finished) AS finished,
          any_value(interrupted) AS interrupted, any_value(profile) AS profile,
          any_value(inventory) AS inventory, any_value(version) AS version,
          any_value(run_outcome) AS outcome, count(*) AS hosts,
          count(*) FILTER (outcome = 'pass') AS passed,
          count(*) FILTER (outcome = 'warn') AS warned,
          count(*) FILTER (outcome = 'fail') AS failed,
          count(*) FILTER (outcome = 'inconclusive') AS inconclusive
        FROM hosts GROUP BY run""",
    "causes": """
        SELECT run, started, host, unnest(causes) AS cause, outcome FROM hosts""",
    "gpus": """
        SELECT run, started, host, unnest(gpus, max_depth := 2) FROM hosts""",
}
"""What is made of the three files."""


@dataclass(frozen=True)
class LeftOut:
    """A folder that is not in the history, and why; ``remakable``: its files can be made anew."""

    path: Path
    reason: str
    remakable: bool = False

    @property
    def folder(self) -> str:
        """Its name, made harmless."""
        return line(self.path.name, 80)


@dataclass(frozen=True)
class Form:
    """What a file says of itself: its format, columns with their types, and its run.

    ``run`` is empty where it says none, or not when it began (``started``); ``damage`` is not where
    it cannot be read.
    """

    format: int = 0
    columns: Mapping[str, str] = field(default_factory=dict)
    run: str = ""
    started: str = ""
    damage: str = ""

    def problem(self, kind: str) -> str:
        """Return why it is no file of this kind, or an empty text."""
        if self.damage:
            return self.damage
        if not self.format:
            return "not written by hwcheck"
        if self.format > FORMAT:
            return f"format {self.format}, of a newer hwcheck; this one reads up to {FORMAT}"
        wanted = COLUMNS[kind]
        for name, type_ in self.columns.items():
            if wanted.get(name) != type_:
                return f"column {line(name, 60)} is not one of format {self.format}"
        needed = wanted if self.format == FORMAT else KEYS
        lacking = [name for name in needed if name not in self.columns]
        if lacking:
            return f"no column {lacking[0]}"
        if not self.run:
            return "it names no run, or no date"
        return ""


@dataclass
class QueryResult:
    """The columns of a query's answer by name, and its rows."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


@dataclass
class History:
    """The runs below one folder. ``folders`` are theirs by run, ``left_out`` are the others."""

    runs: Path
    db: DuckDBPyConnection
    kinds: Sequence[str] = KINDS
    folders: dict[str, Path] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    _of: dict[tuple[str, Path], Form] = field(default_factory=dict)
    _closed_off: bool = False

    @classmethod
    def open(
        cls,
        runs: Path,
        *,
        before: str = "",
        newest: int = 0,
        only: Collection[str] = (),
        kinds: Sequence[str] = KINDS,
    ) -> History:
        """Open every run folder below ``runs``, its ``newest`` before a name, or ``only`` some.

        The names of run folders begin with the time. Of other ``kinds`` of files than these there
        is no view, which opens quicker. Raises UsageError where there is no such folder, and
        DuckDBMissingError.
        """
        if not runs.is_dir():
            raise UsageError(f"no such folder of runs: {runs}; name one with --runs")
        history = cls(runs, connect(), kinds)
        history._take(history._candidates(before, newest, only))
        return history

    def __enter__(self) -> History:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.db.close()

    @property
    def started(self) -> str:
        """Return when its first run began, as its files say; empty without a run."""
        return min((form.started for form in self._of.values()), default="")

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query of ours over the views. A damaged run is left out."""
        return self._run(sql, parameters, _answer).rows

    def arrays(self, sql: str, parameters: Sequence[Any] = ()) -> Mapping[str, NDArray[Any]]:
        """Return the columns of a query of ours, none of which has a null, as arrays of numpy."""
        return self._run(sql, parameters, methodcaller("fetchnumpy"))

    def select(self, sql: str) -> QueryResult:
        """Return the answer to somebody's one SELECT. Raises UsageError for anything else."""
        import duckdb

        self._close_off()
        try:
            statements = self.db.extract_statements(sql)
        except duckdb.Error as error:
            raise UsageError(f"query: {one_line(error)}") from None
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise UsageError("query: it takes one SELECT and nothing else; it writes nothing")
        return self._run(sql, (), _answer)

    def _close_off(self) -> None:
        """Let somebody's query read the files of these runs and no other. There is no way back.

        Queries of ours, which name no other, do without: it takes a twentieth of a second a year.
        """
        if self._closed_off:
            return
        files = [str(file_of(folder, kind)) for folder in self.folders.values() for kind in KINDS]
        self.db.execute(f"SET allowed_paths = [{', '.join(map(quoted, files))}]")
        self.db.execute("SET enable_external_access = false")
        self.db.execute("SET lock_configuration = true")
        self._closed_off = True

    def _run(
        self, sql: str, parameters: Sequence[Any], fetched: Callable[[DuckDBPyConnection], T]
    ) -> T:
        import duckdb

        while True:
            try:
                return fetched(self.db.execute(sql, parameters))
            except duckdb.Error as error:
                of_the_query = type(error).__name__ in OF_THE_QUERY
                if not (
                    self._leave_wrong_out() or (not of_the_query and self._leave_damaged_out())
                ):
                    raise UsageError(f"query: {one_line(error)}") from None

    def _leave_wrong_out(self) -> bool:
        """Look at the columns of every file, leave out what has others, and say whether any has."""
        wrong = {}
        for run, folder in self.folders.items():
            for kind in self.kinds:
                form = _with_columns(self.db, kind, folder, self._of[kind, folder])
                if problem := form.problem(kind):
                    wrong[run] = f"{kind}.parquet: {problem}"
        return self._leave_all_out(wrong)

    def _leave_damaged_out(self) -> bool:
        """Read every file to its end, leave out what cannot be read, and say whether any was."""
        import duckdb

        damaged = {}
        for run, folder in self.folders.items():
            try:
                for kind in self.kinds:
                    file = quoted(file_of(folder, kind))
                    self.db.execute(f"SELECT sum(hash(t)) FROM read_parquet({file}) t").fetchall()
            except duckdb.Error as error:
                damaged[run] = f"{kind}.parquet: {one_line(error)}"
        return self._leave_all_out(damaged)

    def _leave_all_out(self, reasons: Mapping[str, str]) -> bool:
        """Leave out the folders of these runs, and say whether there are any."""
        for run, reason in reasons.items():
            self._leave_out(self.folders.pop(run), reason)
        self._make_views()
        return bool(reasons)

    def _candidates(self, before: str, newest: int, only: Collection[str]) -> list[Path]:
        """Return the folders that have all three files; note the others."""
        folders: list[Path] = []
        entries = [
            entry
            for entry in os.scandir(self.runs)
            if (not before or entry.name < before) and (not only or entry.name in only)
        ]
        for entry in sorted(entries, key=attrgetter("name"), reverse=True):
            if newest and len(folders) == newest:
                break
            if entry.name.startswith(".") or entry.name == LATEST:
                continue
            if not (entry.is_dir(follow_symlinks=False) or os.path.isdir(entry.path)):
                continue  # nor a link that leads to itself
            folder = self.runs / entry.name
            reason = "a symbolic link" if entry.is_symlink() else _why_not(folder)
            if reason is None:
                folders.append(folder)
            elif reason:
                self._leave_out(folder, reason)
        return folders[::-1]

    def _take(self, folders: Sequence[Path]) -> None:
        """Check what the files say of themselves, and make views of those that are right."""
        self.db.execute(f"SET memory_limit = '{MEMORY}'")
        with ThreadPoolExecutor() as threads:  # DuckDB opens one file after the other
            cursors = [self.db.cursor() for _ in self.kinds]
            forms = list(threads.map(_forms, cursors, self.kinds, [folders] * len(self.kinds)))
        for folder in folders:
            of_folder = {kind: of[folder] for kind, of in zip(self.kinds, forms, strict=True)}
            reason = self._refusal(of_folder)
            if reason:
                self._leave_out(folder, reason)
            else:
                self._of |= {(kind, folder): form for kind, form in of_folder.items()}
                self.folders[of_folder[self.kinds[0]].run] = folder
        self._make_views()

    def _refusal(self, forms: Mapping[str, Form]) -> str:
        """Return why a folder with such files is left out, or an empty text."""
        for kind, form in forms.items():
            problem = form.problem(kind)
            if problem:
                return f"{kind}.parquet: {problem}"
        runs = {form.run for form in forms.values()}
        if len(runs) != 1:
            return f"{len(runs)} runs are named in one folder"
        (run,) = runs
        return f"it is a copy of {self.folders[run].name}" if run in self.folders else ""

    def _make_views(self) -> None:
        """Make the views of all folders that are left: null where a file lacks a column.

        Files of one form, which as a rule are all, are read at once. Of which run a row is, is
        taken from what its file says of itself: so a query of some runs opens no other's file.
        ``samples_by_file`` and its like have the file instead of the run: to group by it takes half
        the time, and ``samples_files`` has the run of each.
        """
        for kind in self.kinds:
            of = [(folder, self._of[kind, folder]) for folder in self.folders.values()]
            unnested = (
                f"unnest({self._variable(f'{kind}_{name}', texts)})"
                for name, texts in (
                    ("paths", [str(file_of(folder, kind)) for folder, _ in of]),
                    ("runs", [form.run for _, form in of]),
                    ("starts", [form.started for _, form in of]),
                )
            )
            self.db.execute(  # no table: somebody's query could write into one
                f"CREATE OR REPLACE VIEW {kind}_files AS SELECT filename, run, started FROM ("
                "SELECT filename, run, try_cast(started AS TIMESTAMP) AS started "
                f"FROM (SELECT {', '.join(unnested)}) AS files(filename, run, started)) "
                "WHERE started IS NOT NULL"
            )
            columns = {n: type_ for n, type_ in COLUMNS[kind].items() if n not in OF_RUN}
            forms: dict[frozenset[str], list[str]] = {}
            for folder, form in of:
                forms.setdefault(frozenset(form.columns), []).append(str(file_of(folder, kind)))
            nothing = ", ".join(f"NULL::{type_} AS {name}" for name, type_ in columns.items())
            parts = [f"SELECT NULL::VARCHAR AS filename, {nothing} WHERE false"]
            for number, (there, of_form) in enumerate(forms.items()):
                chosen = ", ".join(
                    name if name in there else f"NULL::{type_} AS {name}"
                    for name, type_ in columns.items()
                )
                parts.append(
                    f"SELECT filename, {chosen} FROM read_parquet("
                    f"{self._variable(f'{kind}_paths_{number}', of_form)}, filename = true) "
                    "WHERE host IS NOT NULL"
                )
            query = " UNION ALL ".join(parts[1:] or parts)
            self.db.execute(f"CREATE OR REPLACE VIEW {kind}_by_file AS {query}")
            self.db.execute(
                f"CREATE OR REPLACE VIEW {kind} AS SELECT {', '.join(COLUMNS[kind])} "
                f"FROM {kind}_by_file JOIN {kind}_files USING (filename)"
            )
        for name, query in VIEWS.items():
            self.db.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")

    def _variable(self, name: str, texts: Sequence[str]) -> str:
        """Set a variable and return how a view reads it: texts in the view are parsed each time."""
        self.db.execute(f"SET VARIABLE {name} = $1::VARCHAR[]", [texts])
        return f"getvariable('{name}')"

    def _leave_out(self, folder: Path, reason: str) -> None:
        remakable = any(f"{kind}.parquet" in reason for kind in KINDS)
        self.left_out.append(LeftOut(folder, line(reason, 200), remakable))


def _answer(cursor: DuckDBPyConnection) -> QueryResult:
    return QueryResult(tuple(column[0] for column in cursor.description or ()), cursor.fetchall())


def _why_not(folder: Path) -> str | None:
    """Return why a folder has no files to read; None where it has, empty where it is no run."""
    if not os.path.lexists(f"{folder}/run.json"):
        others = any((folder / name).exists() for name in OTHER_COMMANDS)
        return "" if others else "not a run folder: no run.json"
    for kind in KINDS:
        try:
            status = os.lstat(file_of(folder, kind))
        except FileNotFoundError:
            return f"no {kind}.parquet: under way, cut short, or of a former version; {REBUILD}"
        except OSError as error:
            return f"{kind}.parquet: {error.strerror}"
        if not stat.S_ISREG(status.st_mode):
            return f"{kind}.parquet is no plain file"
        if status.st_size > MOST_BYTES:
            return f"{kind}.parquet has {status.st_size} bytes, more than a run's can have"
    return None


def _forms(db: DuckDBPyConnection, kind: str, folders: Sequence[Path]) -> dict[Path, Form]:
    """Return what the files of a kind say of themselves, and of which nothing can be understood."""
    import duckdb

    if not folders:
        return {}
    try:
        return _forms_of_whole(db, kind, folders)
    except duckdb.Error as error:
        if len(folders) == 1:
            return {folders[0]: Form(damage=one_line(error))}
        half = len(folders) // 2  # all at once is quick; where one is broken, halves find it
        return _forms(db, kind, folders[:half]) | _forms(db, kind, folders[half:])


def _forms_of_whole(db: DuckDBPyConnection, kind: str, folders: Sequence[Path]) -> dict[Path, Form]:
    """Return what the files of a kind say of themselves, in one query over all of them.

    A file of this format has its columns: DuckDB reads them all with the types of the first, and
    refuses one that lacks a column. So only the first is looked at, and those of other formats.
    Raises duckdb.Error where one says nothing that can be understood.
    """
    files = {folder: str(file_of(folder, kind)) for folder in folders}
    words: dict[tuple[str, str], str] = {
        (file, key): word
        for file, key, word in db.execute(
            "SELECT file_name, decode(key), decode(value) "
            "FROM parquet_kv_metadata(?) WHERE key IN (?, ?, ?)",
            [list(files.values()), *(key.encode() for key in (FORMAT_KEY, RUN_KEY, STARTED_KEY))],
        ).fetchall()
    }
    forms, first = {}, True
    for folder, file in files.items():
        started = words.get((file, STARTED_KEY), "")
        run = words.get((file, RUN_KEY), "") if _is_time(started) else ""
        form = Form(_format(words.get((file, FORMAT_KEY), "")), COLUMNS[kind], run, started)
        if first or form.format != FORMAT:
            form = _with_columns(db, kind, folder, form)
            first = first and bool(form.problem(kind))
        forms[folder] = form
    return forms


def _with_columns(db: DuckDBPyConnection, kind: str, folder: Path, form: Form) -> Form:
    """Return a form with the columns that its file has; with its damage where it has none."""
    import duckdb

    try:
        described = db.execute(f"DESCRIBE FROM read_parquet({quoted(file_of(folder, kind))})")
        return replace(form, columns={name: type_ for name, type_, *_ in described.fetchall()})
    except duckdb.Error as error:
        return Form(damage=one_line(error))


def _format(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 9 else 0


def _is_time(text: str) -> bool:
    try:
        return bool(datetime.fromisoformat(text.removesuffix("Z")))
    except ValueError:
        return False


def one_line(error: Exception) -> str:
    """Return what DuckDB says in one line, without the picture of where."""
    text = str(error).partition("\n\nLINE ")[0]
    return line(text, 300)
