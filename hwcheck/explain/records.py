"""What a file says. ``to_dict`` of each record is its object in ``explain --json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hwcheck.explain.command_line import CommandLine
from hwcheck.node.collective.nccl_info import NcclInfo
from hwcheck.node.nccl_tests.records import Table

OUT_OF_PLACE, IN_PLACE = "out of place", "in place"


@dataclass(frozen=True)
class BenchmarkRun:
    """One run of an nccl-tests program; None stands for what the log does not say.

    ``peak_busbw_gbps`` is the better half (out of place or in place) at the largest size, in 1e9
    bytes/s; never an average. ``peak_place`` says which half that is. ``wrong`` counts elements.
    ``state`` is done, unchecked (nobody compared the data), corrupt, hang (a table without rows),
    launch-failed (it failed or was killed, before the first row or before its end), damaged (none
    of its rows can be read) or single-rank (busbw is 0 by arithmetic). ``table`` is what it was
    read from. ``no_proof`` says why its rows do not prove a run that came to its end; empty where
    nothing speaks against it.
    """

    collective: str | None
    ranks: int | None
    peak_busbw_gbps: float | None
    peak_place: str | None
    peak_bytes: int | None
    wrong: int | None
    state: str
    notes: tuple[str, ...]
    table: Table = field(repr=False, compare=False)
    no_proof: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the run as plain JSON types, without its table."""
        names = (
            *("collective", "ranks", "peak_busbw_gbps", "peak_place", "peak_bytes", "wrong"),
            "state",
        )
        return {name: getattr(self, name) for name in names} | {"notes": list(self.notes)}


@dataclass(frozen=True)
class Benchmarks:
    """A log of nccl-tests; ``info`` is what NCCL said in between, ``commands`` what started it."""

    file: str
    runs: tuple[BenchmarkRun, ...]
    info: NcclInfo
    notes: tuple[str, ...] = ()
    kind: str = "nccl-tests"
    commands: tuple[CommandLine, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON types."""
        runs = [run.to_dict() for run in self.runs]
        return {"file": self.file, "kind": self.kind, "runs": runs, "notes": list(self.notes)}


@dataclass(frozen=True)
class TopologyMatrix:
    """A matrix of ``nvidia-smi topo``: ``kind`` is topology (``-m``) or p2p-status (``-p2p``).

    ``cells`` are those that the file shows, by row and column, without the diagonal. ``nvlink``
    says how many of the GPU pairs that it shows are joined by NVLink: all, some or none; None
    where that cannot be told. ``nics`` are in the order of the columns, under their own names
    where a legend gives them.
    """

    file: str
    kind: str
    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    cells: Mapping[str, Mapping[str, str]]
    nvlink: str | None
    notes: tuple[str, ...] = ()
    complete: bool = True

    def way(self, one: str, other: str) -> str:
        """Return the cell of a pair, from either of its rows; empty where neither shows it."""
        here = self.cells.get(one, {}).get(other, "")
        return here or self.cells.get(other, {}).get(one, "")

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON types."""
        head: dict[str, Any] = {"file": self.file, "kind": self.kind, "gpus": len(self.gpus)}
        if self.kind == "topology":
            head["nvlink"] = self.nvlink
        head["matrix"] = {row: dict(cells) for row, cells in self.cells.items()}
        if self.kind == "topology":
            head["nics"] = list(self.nics)
        return head | {"notes": list(self.notes)}


@dataclass(frozen=True)
class Graph:
    """NCCL's view of the node (``NCCL_DEBUG_SUBSYS=GRAPH``).

    ``cpus`` are (architecture, vendor, model) as NCCL numbers them; ``links_gbps`` the speeds of
    each kind of link, ``paths`` the GPU pairs by kind of path.
    """

    cpus: tuple[tuple[int, int, int], ...] = ()
    links_gbps: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    paths: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class NcclLog:
    """A log of NCCL without a table of nccl-tests."""

    file: str
    info: NcclInfo
    graph: Graph
    notes: tuple[str, ...] = ()
    kind: str = "nccl-info"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON types."""
        info = {name: _plain(value) for name, value in vars(self.info).items()}
        graph = {name: _plain(value) for name, value in vars(self.graph).items()}
        return {
            "file": self.file,
            "kind": self.kind,
            **info,
            "graph": graph,
            "notes": [*self.notes],
        }


@dataclass(frozen=True)
class KernelEvent:
    """Events of one device that mean the same.

    ``kind`` and ``action`` are those of ``hwcheck.checks.shared.xids.XidEvent``; ``code`` is None
    for words of the driver without a number.
    """

    kind: str
    code: int | None
    pci_address: str
    count: int
    meaning: str
    action: str

    @property
    def name(self) -> str:
        """``Xid 79 of 0000:18:00.0``."""
        words = {"xid": "Xid", "sxid": "SXid", "driver": "a start of the GPU that failed"}
        return " ".join(filter(None, [words[self.kind], str(self.code or "")])) + (
            f" of {self.pci_address}"
        )


@dataclass(frozen=True)
class KernelLogEvents:
    """A kernel log; ``events`` are those that no reset of their GPU settled, the gravest first.

    ``incidents`` counts bursts of all events; None where their times are not in the log.
    """

    file: str
    events: tuple[KernelEvent, ...]
    settled: int
    incidents: int | None
    notes: tuple[str, ...] = ()
    kind: str = "kernel-log"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON types."""
        return {
            "file": self.file,
            "kind": self.kind,
            "events": [dict(vars(event)) for event in self.events],
            "settled": self.settled,
            "incidents": self.incidents,
            "notes": [*self.notes],
        }


@dataclass(frozen=True)
class Unknown:
    """A file that no reader knows, or that cannot be read."""

    file: str
    notes: tuple[str, ...]
    kind: str = "unknown"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON types."""
        return {"file": self.file, "kind": self.kind, "notes": list(self.notes)}


Entry = Benchmarks | TopologyMatrix | NcclLog | KernelLogEvents | Unknown


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return (
        {key: _plain(each) for key, each in value.items()} if isinstance(value, Mapping) else value
    )
