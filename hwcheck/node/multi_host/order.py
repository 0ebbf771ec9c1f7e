"""One order of the controller, as the node takes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Tuple

WORKS: Mapping[str, Tuple[str, str]] = {
    "collectives": ("hwcheck.node.multi_host.launcher", "answer"),
    "training": ("hwcheck.node.training.launcher", "trained"),
}
"""What a session is for: the launcher that serves it, and what its answers are called."""


@dataclass(frozen=True)
class Order:
    """A collective of ``world`` ranks over some hosts; this one has ranks from ``rank0`` on.

    ``devices`` are the GPUs of this host's ranks (0 for the CPU), ``store`` is where the ranks
    meet. Sizes are in bytes, as nccl-tests prints them. The ranks are killed ``deadline_s`` after
    they were started. ``leg`` is ``site``, NCCL as the node is set, or ``default``.
    """

    id: int
    collective: str
    rank0: int
    world: int
    devices: Tuple[int, ...]
    store: Tuple[str, int]
    sizes: Tuple[int, ...]
    deadline_s: float
    warmups: int = 1
    iterations: int = 5
    env: Mapping[str, str] = field(default_factory=dict)
    keep_log: bool = False
    dtype: str = "float"
    leg: str = "default"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Order:
        """Rebuild from JSON; raises TypeError when a key is unknown or missing."""
        rest = dict(data)
        host, port = rest["store"]
        rest["store"] = (str(host), int(port))
        rest["devices"], rest["sizes"] = tuple(rest["devices"]), tuple(rest["sizes"])
        return cls(**rest)
