"""Two ranks on one card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hwcheck.contract.collective_spec import MIB, CollectiveSpec, LegPlan
from hwcheck.node.together import launch

ROOT = str(Path(launch.__file__).parents[3])


def two_ranks(*legs: LegPlan, **changes: Any) -> CollectiveSpec:
    """Over sockets: each all_reduce takes milliseconds at any size."""
    orders = {"budget_s": 90.0, "grace_s": 60.0, "collectives": ("all_reduce",), **changes}
    return CollectiveSpec(
        ranks=2,
        gpus=1,
        one_gpu=True,
        memory_available_bytes=0,
        legs=legs,
        max_bytes=4 * MIB,
        **orders,
    )
