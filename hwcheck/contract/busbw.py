"""The one table of busbw: what it is of algbw, by collective and number of ranks.

Source: NVIDIA/nccl-tests, doc/PERFORMANCE.md, and the function GetBw of each src/<collective>.cu.
"""

from __future__ import annotations

from typing import Mapping

PASSES: Mapping[str, int] = {
    "all_reduce": 2,
    "all_gather": 1,
    "reduce_scatter": 1,
    "alltoall": 1,
    "alltoallv": 1,
    "gather": 1,
    "scatter": 1,
    "broadcast": 0,
    "reduce": 0,
    "sendrecv": 0,
}
"""How often (n-1)/n of the data goes through the slowest link of n ranks: busbw is algbw times
both. 0: busbw is algbw, however many ranks there are."""


def busbw_factor(collective: str, ranks: int) -> float:
    """Return busbw over algbw; 1 for a collective that is not in the table."""
    passes = PASSES.get(collective, 0)
    return passes * (ranks - 1) / ranks if passes else 1.0
