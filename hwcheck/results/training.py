"""``training.json`` of a run folder: what steps of training took, by strategy and leg."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from hwcheck.contract.model_shape import ModelShape
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import Value, to_json
from hwcheck.node.training.strategy import Degrees
from hwcheck.results.files import read_json, replace_text, writing_to
from hwcheck.results.multi_host import left_over_by_host, reasons_by_host

FORMAT = 1
FILE = "training.json"
STATES = (
    "done",
    "wrong_loss",
    "unproven",
    "hang",
    "failed",
    "out_of_memory",
    "not_applicable",
    "not_run",
)
"""What became of a strategy under a leg. wrong_loss: it computes something else than one process.
unproven: NCCL does not say that the data went the leg's way. Only done has figures."""
TOLERANCES = {"fp32": 1e-4, "tf32": 1e-3, "bf16": 2e-3}
"""By what share a loss may differ from that of one process, by what is computed in."""


@dataclass(frozen=True)
class GpuAtWork:
    """A GPU while steps were timed: medians, the highest temperature, all clock-event bits.

    None where it did not tell.
    """

    host: str
    subject: str
    power_w: float | None = None
    sm_clock_mhz: float | None = None
    temperature_c: float | None = None
    clock_events: int | None = None


@dataclass(frozen=True)
class TrainingRun:
    """One strategy under one leg, on ``ranks`` ranks over ``hosts``.

    ``sequences`` is the global batch of a timed step. ``losses`` are those of the first steps over
    ``parity_sequences`` and ``expected`` those of one process. ``times_s`` are the timed steps of
    each repetition, each step that of the slowest rank; ``peak_bytes`` the peak of memory by rank.
    ``left_over`` is what could not be ended or removed, and ``logs`` are the last lines and stacks,
    both by host, where it did not end well.
    """

    hosts: tuple[str, ...]
    strategy: str
    leg: str
    ranks: int
    state: str
    reason: str = ""
    degrees: Degrees = field(default_factory=Degrees)
    sequences: int = 0
    parity_sequences: int = 0
    losses: tuple[float, ...] = ()
    expected: tuple[float, ...] = ()
    times_s: tuple[tuple[float, ...], ...] = ()
    peak_bytes: tuple[int, ...] = ()
    gpus: tuple[GpuAtWork, ...] = ()
    library: str = ""
    transport: Mapping[str, Value] = field(default_factory=dict)
    left_over: Mapping[str, tuple[Reason, ...]] = field(default_factory=dict)
    logs: Mapping[str, str] = field(default_factory=dict)
    duration_s: float = 0.0


@dataclass(frozen=True)
class TrainingSet:
    """Hosts that trained together, or one by itself: ``gpu`` is the model, empty for the CPU.

    ``gpus`` counts them over all hosts; ``torch`` is the version.
    """

    hosts: tuple[str, ...]
    gpu: str
    gpus: int
    torch: str


@dataclass(frozen=True)
class TrainingRecord:
    """Everything that was trained. ``tolerance`` is by what share a loss may differ.

    ``strategies`` are those that were asked for; a record of a former version has none. One process
    is trained in any case, for what the others are held against.

    ``absent`` are hosts that took no part, or not to the end, each with the reason. ``finished`` is
    false while it goes on, and where it was cut short.
    """

    model: ModelShape
    dtype: str
    tf32: bool
    micro_batch: int
    warmup: int
    steps: int
    repeats: int
    tolerance: float
    hosts: tuple[str, ...]
    strategies: tuple[str, ...] = ()
    sets: tuple[TrainingSet, ...] = ()
    runs: tuple[TrainingRun, ...] = ()
    absent: Mapping[str, Reason] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    finished: bool = False
    format: int = FORMAT

    def began(self, host: str) -> bool:
        """Whether a host is of a set that trained, to its end or not."""
        return any(host in each.hosts for each in self.sets)

    def absence(self, host: str) -> str:
        """Say why an ``absent`` host took no part, or left before the end."""
        how = "left before the end" if self.began(host) else "took no part"
        return f"{how}: {self.absent[host].text}"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TrainingRecord:
        """Rebuild from the (schema-checked) content of ``training.json``."""
        rest = dict(data)
        rest["model"] = ModelShape.from_dict(rest["model"])
        rest["sets"] = tuple(
            TrainingSet(**{**each, "hosts": tuple(each["hosts"])}) for each in rest["sets"]
        )
        rest["runs"] = tuple(map(_run, rest["runs"]))
        rest["absent"] = reasons_by_host(rest["absent"])
        for name in ("hosts", "strategies", "notes"):
            rest[name] = tuple(rest.get(name, ()))
        return cls(**rest)


def _run(data: Mapping[str, Any]) -> TrainingRun:
    rest = dict(data)
    rest["degrees"] = Degrees(**rest["degrees"])
    rest["times_s"] = tuple(map(tuple, rest["times_s"]))
    rest["gpus"] = tuple(GpuAtWork(**gpu) for gpu in rest["gpus"])
    rest["left_over"] = left_over_by_host(rest["left_over"])
    for name in ("hosts", "losses", "expected", "peak_bytes"):
        rest[name] = tuple(rest[name])
    return TrainingRun(**rest)


def write_training(folder: Path, record: TrainingRecord) -> None:
    """Write ``training.json`` into a run folder. Raises DiskError."""
    with writing_to(folder):
        replace_text(folder / FILE, to_json(record) + "\n")


def read_training(folder: Path) -> TrainingRecord | None:
    """Read ``training.json``; None where nothing was trained. Raises UsageError."""
    data = read_json(folder, PurePath(FILE), "training")
    return None if data is None else TrainingRecord.from_dict(data)
