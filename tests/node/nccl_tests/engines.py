"""The engine on programs that stand in for nccl-tests."""

from pathlib import Path

from hwcheck.contract.collective_spec import MIB, CollectiveSpec
from hwcheck.node.nccl_tests import engine

PAYLOAD = str(Path(__file__).parents[3])


def spec(**changes):
    """Return orders for four GPUs, up to 64 MiB."""
    base = {
        "collectives": ("all_reduce",),
        "ranks": 4,
        "gpus": 4,
        "budget_s": 60.0,
        "memory_available_bytes": 1 << 34,
        "max_bytes": 64 * MIB,
        "grace_s": 10.0,
    }
    return CollectiveSpec(**{**base, **changes})


def run(folder, **changes):
    """Return the legs and the lines of progress."""
    progress = []
    legs = list(engine.run_legs(spec(**changes), str(folder), PAYLOAD, progress.append))
    return legs, progress
