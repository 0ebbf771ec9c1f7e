"""nccl-tests' text output, old and new, as launchers and terminals leave it.

Formats: NVIDIA/nccl-tests, src/util.cu (2.17 on) and src/common.cu with one header per collective
(before). Columns are taken from the header line by name, and a row has as many fields as they are.
Launchers put prefixes before a line (``[1,0]<stdout>:``, ``0: ``), logs of NCCL and of the launcher
stand between the rows. A row is printed in pieces, the collectives run in between, and NCCL's lines
about them go into the same buffer: the pieces of a row are put together again.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Dict, List, Optional, Set, Tuple

from hwcheck.node.nccl_tests.records import Half, RankDevice, Table, TableRow, version_text

LINE_CHARACTERS = 4000
MOST_ROWS = 20000
MOST_TABLES = 1000
MOST_RANKS = 100000
MOST_MESSAGES = 20
MOST_HOSTS = 1000
HALF = ("time", "algbw", "busbw", "")

_LINE_END = re.compile(r"\r\n?|\n")
_STREAM = re.compile(r"\s*(?:\[(\d{1,9},\d{1,9})\]<std\w{3}>:|(\d{1,7}): )")
_PIECE = re.compile(r"[\s\d.eE+\-/NAinf]+\Z")
_OF_ROW = re.compile(r"-?\d{1,19}(?:\.\d{1,12})?(?=[A-Za-z])")
_COLUMNS = re.compile(r"\bsize[ \t]+count[ \t]+type\b(.*)")
_TYPES = r"u?int(?:8|16|32|64)?|u?char|half|float|double|bfloat16|(?:fp8_|f8)e[45]m[23]"
_ROW = re.compile(r"(?:^|[^\w.])(\d{1,19})\s+(\d{1,19})\s+(%s)\s+(\S.*)" % _TYPES)
_NUMBER = re.compile(r"[-+]?\d{1,20}(?:\.(\d{1,12}))?(?:e([-+]?\d{1,3}))?\Z")
_RANK = re.compile(
    r"#\s+Rank\s+(\d{1,7})\b.{0,80}? on\s+(\S{1,255})\s+device\s+(\d{1,5})\s+\[([^\]]{1,40})\]"
    r"[ \t]*([^\r\n]{0,80})"
)
_ANNOUNCED = re.compile(r"\bnThreads? \d+ nGpus \d+ minBytes (\d{1,19}) maxBytes (\d{1,19})\b(.*)")
_ITERATIONS = re.compile(r"(?<!warmup )(?<!agg )\biters: (\d{1,9})")
_VALIDATION = re.compile(r"\bvalidation: (\d{1,9})")
_STARTING = re.compile(r"Collective test starting: (\w{1,60})")
_PROGRAM = re.compile(r"\b([a-z][a-z0-9_]{1,40}_perf)(?:_mpi)?\b")
_VERSION = re.compile(r"# nccl-tests version (\S{1,40}).*?nccl-library=(\d{4,6})\b")
_LIBRARY = re.compile(r"\b[NR]CCL version :? ?(\d{1,3}\.\d{1,5}(?:\.\d{1,5})?)")
_BOUNDS = re.compile(r"# Out of bounds values\s+: (\d{1,18}) (OK|FAILED)")
_AVERAGE = re.compile(r"# Avg bus bandwidth\s+: \S+\s*(OK|FAILED)?")
_FAILURE = re.compile(
    r"Test (?:CUDA|NCCL) failure|Test failure \w+\.cu|Invalid number of GPUs|unhandled \w+ error|"
    r"There are not enough slots|mpi(?:run|exec) (?:was unable|noticed|has exited|could not)|"
    r"srun: error|error while loading shared libraries|command not found|Segmentation fault|"
    r"No such file or directory|CANCELLED AT|DUE TO TIME LIMIT|# error: \S|Bus error"
)


def read(text: str) -> List[Table]:
    """Return the tables of a log in their order. Any text is accepted.

    A log with messages of failure and no table gives one without columns. Each launcher's stream
    is read by itself, since processes print at the same time.
    """
    tables: List[Table] = []
    streams: Dict[str, _Stream] = {}
    for line in _LINE_END.split(text):
        line = line[:LINE_CHARACTERS]
        if not line.strip():
            continue
        match = _STREAM.match(line)
        key = (match.group(1) or match.group(2)) if match else ""
        if key not in streams and len(streams) < MOST_TABLES:
            streams[key] = _Stream(key, tables)
        if key in streams:
            streams[key].feed(line[match.end() :] if match else line)
    for stream in streams.values():
        stream.end()
        _merge_copies(stream.stream_tables, tables)
    shown = [table for table in tables if table.columns or table.announced or table.rows]
    return shown or [table for table in tables if table.failures][:1]


def row_size(line: str) -> int:
    """Return the message size in bytes of a line that is a row, or 0."""
    match = _ROW.search(line[:LINE_CHARACTERS])
    return int(match.group(1)) if match else 0


class _Stream:
    """The lines of one process, or of all where the launcher told them not apart.

    ``_torn`` is what there is of a row whose end is not there yet.
    """

    def __init__(self, key: str, tables: List[Table]) -> None:
        self._key = key
        self._tables = tables
        self.stream_tables: List[Table] = []
        self._hosts: Set[str] = set()
        self._torn = ""
        self._begin()

    def _begin(self) -> Table:
        last = self.stream_tables[-1] if self.stream_tables else None
        if last and not (last.columns or last.announced or last.rows or last.devices):
            return last
        self.now = Table(stream=self._key)
        if last:
            self.now.library, self.now.tests_version = last.library, last.tests_version
        if len(self._tables) < MOST_TABLES:
            self.stream_tables.append(self.now)
            self._tables.append(self.now)
        return self.now

    def feed(self, line: str) -> None:
        """Take one line."""
        before = self._before_nccl(line)
        row = _ROW.search(before)
        if row:
            self.end()
            self._torn = before[row.start(1) :]
        elif self._torn and before and _PIECE.match(before):
            self._torn = (self._torn + before)[:LINE_CHARACTERS]
        elif "#" in before or line.lstrip()[:1] == "#":
            self.end()
            self._comment(line)
            return
        else:
            self._message(line)
            return
        whole, _, columns = self._row_so_far()
        if whole and (whole.in_place or columns.count("busbw") < 2):
            self.end()

    def end(self) -> None:
        """Take the row whose end does not come: what was printed of it may be one half."""
        row, fields, columns = self._row_so_far()
        if row is None and self._torn:
            self.now.damaged += 1
            if 0 < len(columns) < len(fields) and not self.now.misfit:
                words = "the header has %d columns after the type, and a row %d"
                self.now.misfit = words % (len(columns), len(fields))
        elif row and len(self.now.rows) < MOST_ROWS:
            self.now.rows.append(row)
        self._torn = ""

    def _row_so_far(self) -> Tuple[Optional[TableRow], List[str], List[str]]:
        """Return the row, if it is one, what it has after the type, and what it should have."""
        match = _ROW.match(self._torn)
        if not match:
            return None, [], []
        size, count, dtype, rest = match.groups()
        fields = rest.split()
        columns = self.now.columns or _usual(fields)
        return _row(int(size), int(count), dtype, fields, columns), fields, columns

    def _before_nccl(self, line: str) -> str:
        """Return what stands in a line before NCCL's own: all of it, a piece of a row, or nothing.

        NCCL begins with ``host:pid:tid [device]`` (NVIDIA/nccl, src/debug.cc), and runs into a row
        without a blank. Its host is known from the device list and from its whole lines.
        """
        place = min((n for n in map(line.find, (" NCCL INFO", " NCCL WARN")) if n >= 0), default=-1)
        if place < 0:
            return line
        words = line[: line.rfind(" [", 0, place + 1)].rsplit(None, 1)
        name, _, numbers = (words or [""])[-1].partition(":")
        if len(words) < 2:
            self._add_host(name)
            return ""
        before = line[: line.rfind(words[-1], 0, place + 1)]
        if not numbers or not (_ROW.search(before) or _PIECE.match(before)):
            return ""
        ends = [len(host) for host in self._hosts if name.endswith(host)]
        number = _OF_ROW.match(name)
        of_row = name[: -max(ends)] if ends else number.group(0) if number else name
        return before + of_row

    def _add_host(self, name: str) -> None:
        if name and len(self._hosts) < MOST_HOSTS:
            self._hosts.add(name)

    def _comment(self, line: str) -> None:
        columns, announced = _COLUMNS.search(line), _ANNOUNCED.search(line)
        if columns and "busbw" in columns.group(1):
            table = self._begin() if self.now.columns or self.now.rows else self.now
            table.columns = columns.group(1).split()
        elif announced:
            table = self._begin() if self.now.announced or self.now.columns else self.now
            table.announced = True
            table.min_bytes, table.max_bytes = int(announced.group(1)), int(announced.group(2))
            table.iterations = _integer(_ITERATIONS, announced.group(3))
            table.validation = _integer(_VALIDATION, announced.group(3))
        elif not self._device(line) and not self._footer(line):
            self._message(line)

    def _device(self, line: str) -> bool:
        match = _RANK.search(line)
        if not match:
            return False
        rank, host, index, bus, name = match.groups()
        table = self._begin() if self.now.columns or self.now.rows else self.now
        self._add_host(host)
        if int(rank) < MOST_RANKS:
            table.devices[int(rank)] = RankDevice(int(rank), host, int(index), bus, name.strip())
        return True

    def _footer(self, line: str) -> bool:
        bounds, average = _BOUNDS.search(line), _AVERAGE.search(line)
        if bounds:
            self.now.bounds_failed = int(bounds.group(1))
            if bounds.group(2) == "FAILED":
                self.now.bounds_failed = max(1, self.now.bounds_failed)
        elif average:
            self.now.average_failed = average.group(1) == "FAILED"
        concluded = "Collective test concluded" in line
        self.now.ended = self.now.ended or bool(bounds or average) or concluded
        return bool(bounds or average) or concluded

    def _message(self, line: str) -> None:
        version, library = _VERSION.search(line), _LIBRARY.search(line)
        starting, program = _STARTING.search(line), _PROGRAM.search(line)
        if starting or version:
            table = self._begin() if self.now.columns or self.now.announced else self.now
            if starting:
                table.program = starting.group(1)
        if version:
            self.now.tests_version = version.group(1)
            self.now.library = version_text(int(version.group(2)))
        elif library:
            self.now.library = library.group(1)
        elif program and not starting:
            table = self._begin() if self.now.rows else self.now
            table.program = table.program or program.group(1)
        if _FAILURE.search(line) and len(self.now.failures) < MOST_MESSAGES:
            self.now.failures.append(" ".join(line.split())[:200])


def _row(
    size: int, count: int, dtype: str, fields: List[str], columns: List[str]
) -> Optional[TableRow]:
    """Return the row, or None where its fields are not as many as the columns, or of one half.

    Before 2.13.0 the column redop of a collective that reduces nothing is empty: where it should
    stand a word, there is the next column's number.
    """
    names = ["time" if name == "cputime" else name for name in columns]
    if "time" not in names:
        return None
    first = names.index("time")
    second = names.index("time", first + 1) if names.count("time") > 1 else len(names)
    place = names.index("redop") if "redop" in names[:first] else -1
    if 0 <= place < len(fields) and _NUMBER.match(fields[place]):
        fields = [*fields[:place], "none", *fields[place:]]
    if names[-1] == "timestamp":  # a date and a time of day
        names, fields = names[:-1], fields[: len(names) - 1]
        second = min(second, len(names))
    if len(fields) not in (second, len(names)):
        return None
    lead = dict(zip(names[:first], fields))  # noqa: B905 (Python 3.8)
    try:
        halves = [
            _half(names[start:], fields[start:]) if len(fields) > start else None
            for start in (first, second)
        ]
        root = int(lead["root"]) if "root" in lead else None
    except (ValueError, OverflowError):
        return None
    return TableRow(size, count, dtype, lead.get("redop"), root, halves[0], halves[1])


def _usual(fields: List[str]) -> List[str]:
    """Return the columns of a row without a header: those of every version since 2.13.0."""
    return ["redop", "root"] + 2 * ["time", "algbw", "busbw", "#wrong"] if len(fields) == 10 else []


def _half(names: List[str], fields: List[str]) -> Half:
    """Return one half; raises ValueError for a field that is no number."""
    if names[1:3] != ["algbw", "busbw"] or len(names) < len(HALF):
        raise ValueError("no half starts here")
    time_us, algbw, busbw = (_number(field) for field in fields[:3])
    checked = _number(fields[3])
    ratio = None
    if algbw and busbw is not None and algbw > _rounding(fields[1]):
        one, other = _rounding(fields[1]), _rounding(fields[2])
        ratio = (max(0.0, busbw - other) / (algbw + one), (busbw + other) / (algbw - one))
    if names[3] == "error":
        return Half(time_us, algbw, busbw, None, checked, ratio)
    if checked is not None and (checked < 0 or checked % 1):
        raise ValueError("no count of elements")
    wrong = None if checked is None else int(checked)
    return Half(time_us, algbw, busbw, wrong, None, ratio)


def _number(field: str) -> Optional[float]:
    if field in ("N/A", "nan", "-nan", "inf"):
        return None
    if not _NUMBER.match(field):
        raise ValueError(field[:40])
    return float(field)


def _rounding(field: str) -> float:
    """Return half of the last digit of a number as it was printed."""
    match = _NUMBER.match(field)
    decimals, exponent = match.groups() if match else (None, None)
    return 0.5 * 10.0 ** (int(exponent or 0) - len(decimals or ""))


def _integer(pattern: re.Pattern[str], text: str) -> Optional[int]:
    match = pattern.search(text)
    return int(match.group(1)) if match else None


def _merge_copies(stream_tables: List[Table], tables: List[Table]) -> None:
    """Make one of the tables that several processes printed into one stream at once.

    Their headers come one after the other without a row between them, and then every size comes
    as often as there were headers.
    """
    empty: List[Table] = []
    for table in stream_tables:
        if not table.columns:
            continue
        if not table.rows:
            empty.append(table)
            continue
        copies = len(empty) + 1
        if set(Counter(row.size_bytes for row in table.timed).values()) == {copies}:
            table.copies = copies
            for each in empty:
                table.devices.update(each.devices)
                tables.remove(each)
        empty = []
