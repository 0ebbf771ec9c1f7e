from __future__ import annotations

import pytest

from hwcheck.contract.busbw import PASSES, busbw_factor
from hwcheck.contract.wire import COLLECTIVES

# NVIDIA/nccl-tests, doc/PERFORMANCE.md, in figures.
FACTORS = {
    "all_reduce": {1: 0.0, 2: 1.0, 3: 4 / 3, 4: 1.5, 8: 1.75, 16: 1.875},
    "all_gather": {1: 0.0, 2: 0.5, 3: 2 / 3, 4: 0.75, 8: 0.875, 16: 0.9375},
    "reduce_scatter": {2: 0.5, 16: 0.9375},
    "alltoall": {2: 0.5, 16: 0.9375},
    "alltoallv": {2: 0.5, 16: 0.9375},
    "gather": {2: 0.5},
    "scatter": {2: 0.5},
    "broadcast": {1: 1.0, 2: 1.0, 16: 1.0},
    "reduce": {2: 1.0},
    "sendrecv": {2: 1.0, 16: 1.0},
}


@pytest.mark.parametrize("collective", PASSES)
def test_the_factors_of_nccl_tests(collective: str) -> None:
    for ranks, factor in FACTORS[collective].items():
        assert busbw_factor(collective, ranks) == pytest.approx(factor)


def test_every_collective_that_is_timed_is_in_the_table() -> None:
    assert set(COLLECTIVES) <= set(PASSES)


def test_what_is_not_in_the_table_has_the_busbw_of_its_algbw() -> None:
    assert "hypercube" not in PASSES
    assert busbw_factor("hypercube", 8) == 1.0
