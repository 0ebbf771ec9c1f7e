"""What a run is asked for, whole and typed: from a command's words, into the plan and run.json.

What values a ``run.json`` may hold of them follows from the type of each field
(``results.options_schema``). Where that would bear too much, ``Annotated`` around the whole type
says what else a value must be, as JSON Schema does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Annotated, Any

from hwcheck.contract.model_shape import MODELS, ModelShape
from hwcheck.contract.wire import DTYPES, LOAD_DTYPES, Timing
from hwcheck.node.training.strategies import NAMES
from hwcheck.text import length

ENGINES = ("torch", "nccl-tests")
"""What times the collectives."""
SCOPES = ("pairs", "all", "rails")
"""What hosts do together."""
LAUNCHERS = ("ssh", "slurm")
"""What reaches the hosts."""
TRAINING_DTYPES = ("bf16", "fp32")
"""What a model is trained in."""
ASKED = ("checks", "profile", "inventory", "limit", "timing", "site", "sweep", "acceptance")
"""What ``run.json`` says once: among the options, or beside the rest in runs of former versions."""
FilledIn = Annotated[float | None, {"type": "number"}]
"""Seconds that ``make_plan`` fills in where nothing is asked: in a record it is a number."""
ALWAYS_SAID = ("profile", "duration_s", "load_dtype", "engine")
"""What ``in_words`` says of every run."""
SAID_BESIDE = (
    *("checks", "inventory", "limit", "variables", "forks", "timeout_s"),
    *("sweep", "acceptance"),
)
"""What ``in_words`` leaves out: a plan says it, as hosts, checks and times."""
CPU_WARMUP = 2
"""A CPU has no clocks that rise at first, and the four steps of the parity have gone before."""


@dataclass(frozen=True)
class MultiHostOptions:
    """What the operator asks of runs over hosts; what is empty or None is left to the backend.

    ``sizes`` are bytes, as nccl-tests prints them; pairs take the largest. ``leg`` is ``site``,
    ``default``, or empty for the first where a host has NCCL settings.
    """

    collectives: tuple[str, ...] = ("all_reduce",)
    sizes: Annotated[tuple[int, ...], {"maxItems": 1000}] = ()
    iterations: int | None = None
    warmups: int | None = None
    dtype: Annotated[str, {"enum": [*DTYPES]}] = DTYPES[0]
    leg: str = ""


@dataclass(frozen=True)
class TrainingOptions:
    """``ranks`` are the numbers of ranks to train on; empty: all GPUs, or 2 where there is none.

    ``global_batch`` is in sequences; 0: a micro-batch for each rank. ``prove`` adds the strategies
    that are wrong on purpose. ``named`` are the options that somebody gave a value and no default.
    """

    model: ModelShape
    strategies: Annotated[tuple[str, ...], {"maxItems": 1000}] = NAMES
    legs: tuple[str, ...] = ("default", "p2p_off")
    ranks: Annotated[tuple[int, ...], {"maxItems": 100_000}] = ()
    steps: int = 40
    repeats: int = 5
    warmup: int = 10
    parity_steps: int = 4
    micro_batch: int = 4
    global_batch: int = 0
    dtype: Annotated[str, {"enum": [*TRAINING_DTYPES]}] = TRAINING_DTYPES[0]
    tf32: bool = True
    prove: bool = False
    silence_s: float = 120.0
    start_s: float = 300.0
    named: tuple[str, ...] = ()

    def without_gpus(self) -> TrainingOptions:
        """Return the options for hosts that have no GPU: what was not ``named`` is small."""
        named = self.named
        return replace(
            self,
            model=self.model if "model" in named else MODELS["tiny"],
            dtype=self.dtype if "dtype" in named else "fp32",
            tf32=False,
            micro_batch=self.micro_batch if "micro_batch" in named else 1,
            warmup=self.warmup if "warmup" in named else CPU_WARMUP,
            legs=self.legs[:1],
        )

    def sequences(self, ranks: int) -> int:
        """Return the global batch on so many ranks."""
        return self.global_batch or self.micro_batch * ranks

    def batch_problem(self, ranks: int) -> str:
        """Return why the global batch cannot be split over so many ranks, or an empty text."""
        if self.sequences(ranks) % (ranks * self.micro_batch) == 0:
            return ""
        return (
            f"a global batch of {self.global_batch} is no multiple of {ranks * self.micro_batch} "
            f"({ranks} ranks x micro-batch {self.micro_batch})"
        )


@dataclass(frozen=True)
class Options:
    """All that a run is asked for; ``run.json`` has it whole, so it holds no secret.

    ``checks`` are those of each node by itself (``gate_proof`` among them is ``--prove``),
    ``scopes`` what the hosts do together. ``timing`` is how collectives are timed on a node,
    ``over_hosts`` how over several, ``training`` asks for a training benchmark in place of both.
    ``duration_s`` is how long the load lasts, ``timeout_s`` how long a visit may; None: as the
    profile says, which ``make_plan`` fills in. So it does with ``inventory``, ``limit`` and
    ``variables``, the names that ``--extra-vars`` gave a value, and with ``site``, the files of the
    site's folder, each with its SHA-256. ``sweep`` has the ``id`` and the ``level`` of the sweep
    that the run is part of, ``acceptance`` likewise the ``id`` and the ``stage``.
    """

    checks: tuple[str, ...] = ()
    scopes: Annotated[tuple[str, ...], {"maxItems": 10, "items": {"enum": [*SCOPES]}}] = ()
    profile: str = "quick"
    duration_s: FilledIn = None
    load_dtype: str = LOAD_DTYPES[0]
    engine: Annotated[str, {"enum": [*ENGINES]}] = ENGINES[0]
    timing: Timing = field(default_factory=Timing)
    over_hosts: MultiHostOptions = field(default_factory=MultiHostOptions)
    training: TrainingOptions | None = None
    force: bool = False
    forks: int = 32
    timeout_s: FilledIn = None
    launcher: Annotated[str, {"enum": [*LAUNCHERS]}] = LAUNCHERS[0]
    accept_new_host_keys: bool = False
    require_coverage_percent: float | None = None
    inventory: str = ""
    limit: str = ""
    variables: Annotated[
        tuple[str, ...], {"maxItems": 100_000, "items": {"$ref": "#/$defs/argument"}}
    ] = ()
    site: Mapping[str, str] = field(default_factory=dict)
    sweep: Mapping[str, str] = field(default_factory=dict)
    acceptance: Mapping[str, str] = field(default_factory=dict)

    def in_words(self) -> list[str]:
        """Return the options that are not the usual ones, and those of ``ALWAYS_SAID``.

        Each is ``name value``; what is ``SAID_BESIDE`` is not among them.
        """
        return [text for name, text in _words(self, Options()) if name not in SAID_BESIDE]


def _words(options: Any, usual: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    for option in fields(options):
        name, value = f"{prefix}{option.name}", getattr(options, option.name)
        default = getattr(usual, option.name)
        if is_dataclass(value) and is_dataclass(default):
            yield from _words(value, default, f"{name}.")
        elif value != default or (name in ALWAYS_SAID and value is not None):
            yield name, f"{name.removesuffix('_s')} {_word(name, value)}"


def _word(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_s"):
        return length(value)
    if isinstance(value, Mapping):
        return ", ".join(map(str, value))
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)
