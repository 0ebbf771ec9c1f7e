"""One order of the controller: train a model by one strategy, as the node takes it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Dict, Mapping, Tuple

from hwcheck.contract.model_shape import ModelShape


@dataclass(frozen=True)
class TrainingOrder:
    """Train by ``strategy`` on ``world`` ranks over so many hosts; this one's begin at ``rank0``.

    ``devices`` are the GPUs of this host's ranks (0 for the CPU), at ``store`` all meet. Ranks of
    one ``launch`` stay for further orders of it. ``sequences`` is the global batch of a timed
    step and ``parity_sequences`` that of the ``parity_steps`` whose losses are compared; a GPU goes
    through ``micro_batch`` of them at a time. Then come ``warmup`` and ``steps`` timed ones,
    ``repeats`` times. Ranks that are silent for ``silence_s`` hang; the first step has ``start_s``.
    ``leg`` names the environment, which ``env`` makes.
    """

    id: int
    launch: str
    strategy: str
    rank0: int
    world: int
    hosts: int
    devices: Tuple[int, ...]
    store: Tuple[str, int]
    model: ModelShape
    sequences: int
    parity_sequences: int
    micro_batch: int
    parity_steps: int = 4
    warmup: int = 10
    steps: int = 40
    repeats: int = 1
    dtype: str = "bf16"
    tf32: bool = True
    leg: str = "default"
    env: Mapping[str, str] = field(default_factory=dict)
    start_s: float = 180.0
    silence_s: float = 60.0
    deadline_s: float = 600.0

    def to_dict(self) -> Dict[str, Any]:
        """Return the order as plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TrainingOrder:
        """Rebuild from JSON; raises TypeError when a key is unknown or missing."""
        rest = dict(data)
        host, port = rest["store"]
        rest["store"] = (str(host), int(port))
        rest["devices"] = tuple(rest["devices"])
        rest["model"] = ModelShape.from_dict(rest["model"])
        return cls(**rest)
