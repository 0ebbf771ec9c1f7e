"""What one table of nccl-tests says, whichever way it was written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple


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
class Row:
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
class Device:
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
    ``failures`` are messages of the program or its launcher. ``damaged`` counts rows that other
    output ran into. ``copies`` is how many processes printed this table into one stream.
    """

    program: str = ""
    columns: List[str] = field(default_factory=list)
    announced: bool = False
    min_bytes: Optional[int] = None
    max_bytes: Optional[int] = None
    iterations: Optional[int] = None
    validation: Optional[int] = None
    devices: Dict[int, Device] = field(default_factory=dict)
    rows: List[Row] = field(default_factory=list)
    bounds_failed: Optional[int] = None
    average_failed: bool = False
    ended: bool = False
    failures: List[str] = field(default_factory=list)
    damaged: int = 0
    copies: int = 1
    stream: str = ""
    library: str = ""
    tests_version: str = ""

    @property
    def timed(self) -> List[Row]:
        """The rows that moved data."""
        return [row for row in self.rows if row.size_bytes > 0]


def version_text(code: int) -> str:
    """Return ``2.27.3`` for 22703 (NVIDIA/nccl, src/nccl.h.in, NCCL_VERSION; 1000s before 2.9)."""
    major = 10000 if code >= 10000 else 1000
    return "%d.%d.%d" % (code // major, code % major // 100, code % 100)
