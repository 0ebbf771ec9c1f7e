"""What one table of nccl-tests says, whichever way it was written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple

from hwcheck.contract.busbw import PASSES


@dataclass(frozen=True)
class Half:
    """The out-of-place or the in-place half of a row; None where it says N/A.

    Rates are 1e9 bytes/s. ``wrong`` counts elements (the column ``#wrong``). ``delta`` is the
    largest deviation (the column ``error`` of nccl-tests before 2.13.0), which counts nothing.
    ``ratio`` bounds busbw over algbw as far as their rounding tells it.
    """

    time_us: Optional[float]
    algbw_gbps: Optional[float]
    busbw_gbps: Optional[float]
    wrong: Optional[int] = None
    delta: Optional[float] = None
    ratio: Optional[Tuple[float, float]] = None


@dataclass(frozen=True)
class TableRow:
    """One message size. ``root`` is None where the table has no such column."""

    size_bytes: int
    count: int
    dtype: str
    redop: Optional[str]
    root: Optional[int]
    out_of_place: Optional[Half]
    in_place: Optional[Half]

    @property
    def halves(self) -> List[Half]:
        """The halves that are there."""
        return [half for half in (self.out_of_place, self.in_place) if half is not None]


@dataclass(frozen=True)
class RankDevice:
    """One line of the device list: a rank and its GPU (``index`` on ``host``, ``bus`` address)."""

    rank: int
    host: str
    index: int
    bus: str
    name: str = ""


@dataclass(eq=False)
class Table:
    """One run of one program: what it said before, in and after its rows.

    ``columns`` are those after ``type``; empty where no header line was seen. None stands for what
    was not said. ``bounds_failed`` is the footer's count of failed checks (not of elements).
    ``ranks_each`` is how many ranks an entry of the device list stands for. ``failures`` are
    messages of the program or its launcher. ``damaged`` counts rows that other output ran into or
    that do not agree with the header, ``misfit`` says how one of these has more columns than the
    header. ``copies`` is how many processes printed this table into one stream.
    """

    program: str = ""
    columns: List[str] = field(default_factory=list)
    announced: bool = False
    min_bytes: Optional[int] = None
    max_bytes: Optional[int] = None
    iterations: Optional[int] = None
    validation: Optional[int] = None
    devices: Dict[int, RankDevice] = field(default_factory=dict)
    ranks_each: int = 1
    rows: List[TableRow] = field(default_factory=list)
    bounds_failed: Optional[int] = None
    average_failed: bool = False
    ended: bool = False
    failures: List[str] = field(default_factory=list)
    damaged: int = 0
    misfit: str = ""
    copies: int = 1
    stream: str = ""
    library: str = ""
    tests_version: str = ""

    @property
    def timed(self) -> List[TableRow]:
        """The rows that moved data."""
        return [row for row in self.rows if row.size_bytes > 0]


def version_text(code: int) -> str:
    """Return ``2.27.3`` for 22703 (NVIDIA/nccl, src/nccl.h.in, NCCL_VERSION; 1000s before 2.9)."""
    major = 10000 if code >= 10000 else 1000
    return "%d.%d.%d" % (code // major, code % major // 100, code % 100)


SLACK = 1e-6  # of what JSON rounds, and of ours


def listed_ranks(table: Table) -> Optional[int]:
    """Return the ranks of the device list; lines may be missing, so the last one counts."""
    return max(table.devices) + table.ranks_each if table.devices else None


def computed_ranks(table: Table, collective: str) -> Optional[Tuple[int, int]]:
    """Return the fewest and the most ranks that busbw over algbw allows, as far as it tells.

    None where the factor does not depend on the ranks, or the rows contradict each other.
    """
    ratios = [half.ratio for row in table.timed for half in row.halves if half.ratio]
    passes = PASSES.get(collective, 0)
    if not ratios or not passes:
        return None
    low, high = max(each[0] for each in ratios), min(each[1] for each in ratios)
    if low > high + SLACK or high >= passes or low < 0:
        return None
    # passes x (n-1)/n = ratio, so n = passes / (passes - ratio).
    fewest, greatest = (passes / (passes - ratio) for ratio in (low, high))
    first = max(1, int(fewest * (1 - SLACK)) + (fewest % 1 > SLACK))
    last = int(greatest * (1 + SLACK))
    return (first, last) if first <= last else None
