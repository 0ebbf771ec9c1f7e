"""``group.json`` of a run folder: what was run over several hosts, and who is suspected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from hwcheck.contract.reasons import (
    FABRIC_BETWEEN,
    NO_PART,
    NOT_MEASURED,
    NOT_PINNED,
    Reason,
    of_former_run,
)
from hwcheck.contract.wire import Value, to_json
from hwcheck.fold import fold
from hwcheck.results.files import read_json, replace_text, writing_to

FORMAT = 1
FILE = "group.json"
KINDS = ("hang", "wrong", "failed", "slow")
"""What a host or a link can be suspected of, worst first."""

MNNVL_OFF = "mnnvl_off"
"""What a run is for that repeats another without NVLink between hosts (NCCL_MNNVL_ENABLE=0)."""

FABRIC = "the fabric between"
"""How reports name what connects groups of hosts."""

SLOW_SHARE = 0.6
"""A run below this share of what other hosts reach is slow. Between healthy nodes of one kind the
spread is a few percent; a link that lost half of its lanes, or one of two rails, falls below it."""


@dataclass(frozen=True)
class MultiHostOutcome:
    """``kind`` is ok, hang, wrong or failed; bandwidths are busbw of the largest size, 1e9 B/s.

    ``busbw_gbps`` is the median's, ``best_gbps`` that of the fastest iteration. Slow is no outcome
    of a run alone: it takes others to compare with.
    """

    kind: str
    busbw_gbps: float = 0.0
    best_gbps: float = 0.0

    def kind_against(self, reference_gbps: float) -> str:
        """Return the kind, or slow where the run is far below what is known to be possible.

        Even its fastest iteration must be: whatever else goes on may slow some, never all.
        """
        if self.kind == "ok" and self.best_gbps < SLOW_SHARE * reference_gbps:
            return "slow"
        return self.kind

    def text(self) -> str:
        """Say it in a word or a figure."""
        return f"{self.busbw_gbps:.3g} GB/s" if self.kind == "ok" else self.kind


@dataclass(frozen=True)
class Suspect:
    """One host, or two for the link between them; ``kind`` is one of KINDS, evidence in lines.

    ``direct``: one run proves it, without a second look.
    """

    hosts: tuple[str, ...]
    kind: str
    evidence: tuple[str, ...]
    direct: bool = False


def fabric_between(sides: Iterable[Sequence[str]], kind: str) -> Reason:
    """Say, for ``unresolved``, that groups of hosts are fine and what connects them is not."""
    groups = sorted((sorted(side) for side in sides), key=lambda side: side[0])
    return Reason(
        FABRIC_BETWEEN,
        f"{FABRIC} {' and '.join(map(fold, groups))}: {kind} wherever hosts of both run together, "
        "and each side is fine by itself",
    )


def worst_kind(kinds: Iterable[str]) -> str:
    """Return the worst of some kinds; ok when there is none."""
    return min((kind for kind in kinds if kind != "ok"), key=KINDS.index, default="ok")


@dataclass(frozen=True)
class MultiHostTiming:
    """One message size over all hosts of a run: times in us, bandwidths in 1e9 B/s.

    Each iteration's time is that of the slowest rank; ``best_gbps`` is the fastest iteration's
    busbw, the other figures are the median's. ``wrong`` counts elements over all ranks.
    """

    size_bytes: int
    iterations: int
    time_us: float
    spread: float
    algbw_gbps: float
    busbw_gbps: float
    best_gbps: float
    wrong: int


@dataclass(frozen=True)
class Transport:
    """What NCCL said of the way of the data, alike on these hosts.

    ``facts`` are those of a leg (``wire.Leg``), and the ``version`` of NCCL.
    """

    hosts: tuple[str, ...]
    facts: Mapping[str, Value]


@dataclass(frozen=True)
class MultiHostRun:
    """One collective over some hosts. ``state`` is done, hang or failed.

    ``why`` is what the run is for: a scope, MNNVL_OFF, or ``split`` and ``again`` of a search.
    Those of one ``round`` ran at the same time. ``blamed`` are suspects that the run itself shows;
    ``left_over`` is what could not be ended or removed, and ``logs`` the last lines and stacks,
    both by host, where it did not end well.
    """

    why: str
    round: int
    hosts: tuple[str, ...]
    collective: str
    ranks: int
    state: str
    reason: str = ""
    library: str = ""
    sizes: tuple[MultiHostTiming, ...] = ()
    blamed: tuple[Suspect, ...] = ()
    left_over: Mapping[str, tuple[Reason, ...]] = field(default_factory=dict)
    logs: Mapping[str, str] = field(default_factory=dict)
    duration_s: float = 0.0
    dtype: str = "float"
    transport: tuple[Transport, ...] = ()

    @property
    def outcome(self) -> MultiHostOutcome:
        """What the search for a culprit goes by: the largest size."""
        if self.state != "done":
            return MultiHostOutcome(self.state)
        if any(size.wrong for size in self.sizes):
            return MultiHostOutcome("wrong")
        if not self.sizes:
            return MultiHostOutcome("failed")
        return MultiHostOutcome("ok", self.sizes[-1].busbw_gbps, self.sizes[-1].best_gbps)


@dataclass(frozen=True)
class MultiHostRecord:
    """Everything that was run over several hosts.

    ``absent`` are hosts that took no part, or not to the end, each with the reason;
    ``unresolved`` says what went wrong and could be pinned on no host: ``fabric`` what connects
    groups of them, ``open_ends`` the rest. ``notes`` are what else a reader must know, and
    ``warnings`` what is amiss with a host that took part. ``not_compared`` are hosts that reach
    less than others and are unlike them, with the reason. ``leg`` is the environment of all runs,
    ``site`` or ``default``, and ``settings`` the NCCL variables in force by host.
    ``interface_gbps`` is the rate (Gb/s) of the interface toward the others by host, where the
    kernel knows it. ``finished`` is false while it goes on, and where it was cut short.
    """

    scopes: tuple[str, ...]
    hosts: tuple[str, ...]
    backend: str = ""
    runs: tuple[MultiHostRun, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    absent: Mapping[str, Reason] = field(default_factory=dict)
    unresolved: tuple[Reason, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: Mapping[str, str] = field(default_factory=dict)
    not_compared: Mapping[str, str] = field(default_factory=dict)
    leg: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    interface_gbps: Mapping[str, float] = field(default_factory=dict)
    finished: bool = False
    format: int = FORMAT

    @property
    def fabric(self) -> tuple[str, ...]:
        """What of ``unresolved`` is of what connects groups of hosts, and of no host; texts."""
        return tuple(reason.text for reason in self.unresolved if reason.code == FABRIC_BETWEEN)

    @property
    def open_ends(self) -> tuple[Reason, ...]:
        """The rest of ``unresolved``, which leaves every host unproven."""
        return tuple(reason for reason in self.unresolved if reason.code != FABRIC_BETWEEN)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MultiHostRecord:
        """Rebuild from the (schema-checked) content of ``group.json``."""
        rest = dict(data)
        rest["runs"] = tuple(_run(run) for run in rest["runs"])
        rest["suspects"] = _suspects(rest["suspects"])
        rest["absent"] = reasons_by_host(rest["absent"])
        rest["unresolved"] = tuple(map(_unresolved, rest["unresolved"]))
        for name in ("scopes", "hosts", "notes"):
            rest[name] = tuple(rest[name])
        return cls(**rest)


def reasons_by_host(data: Mapping[str, Any]) -> dict[str, Reason]:
    """Rebuild why hosts took no part; where a former version's words tell no more, ``NO_PART``."""
    absent = {host: Reason.from_json(reason) for host, reason in data.items()}
    return {
        host: Reason(NO_PART, reason.text)
        if isinstance(data[host], str) and reason.code in ("", NOT_MEASURED)
        else reason
        for host, reason in absent.items()
    }


def left_over_by_host(data: Any) -> dict[str, tuple[Reason, ...]]:
    """Rebuild what was left over; former versions have lines, each with its host in front."""
    if isinstance(data, Mapping):
        return {
            host: tuple(map(Reason.from_json, several)) for host, several in data.items() if several
        }
    by_host: dict[str, tuple[Reason, ...]] = {}
    for text in data:
        host, _, words = text.partition(": ")
        by_host[host] = (*by_host.get(host, ()), of_former_run(words))
    return by_host


def write_multi_host(folder: Path, record: MultiHostRecord) -> None:
    """Write ``group.json`` into a run folder. Raises DiskError."""
    with writing_to(folder):
        replace_text(folder / FILE, to_json(record) + "\n")


def read_multi_host(folder: Path) -> MultiHostRecord | None:
    """Read ``group.json``; None where the run was over single hosts only. Raises UsageError."""
    data = read_json(folder, PurePath(FILE), "group")
    return None if data is None else MultiHostRecord.from_dict(data)


def _run(data: Mapping[str, Any]) -> MultiHostRun:
    rest = dict(data)
    rest["sizes"] = tuple(MultiHostTiming(**size) for size in rest["sizes"])
    rest["blamed"] = _suspects(rest["blamed"])
    rest["hosts"], rest["left_over"] = tuple(rest["hosts"]), left_over_by_host(rest["left_over"])
    rest["transport"] = tuple(
        Transport(tuple(each["hosts"]), each["facts"]) for each in rest["transport"]
    )
    return MultiHostRun(**rest)


def _unresolved(data: Any) -> Reason:
    if not isinstance(data, str):
        return Reason.from_json(data)
    is_fabric = of_former_run(data).code == FABRIC_BETWEEN
    return Reason(FABRIC_BETWEEN if is_fabric else NOT_PINNED, data)


def _suspects(data: Any) -> tuple[Suspect, ...]:
    return tuple(
        Suspect(tuple(s["hosts"]), s["kind"], tuple(s["evidence"]), s["direct"]) for s in data
    )
