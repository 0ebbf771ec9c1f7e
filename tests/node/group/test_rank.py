from __future__ import annotations

import pytest

pytest.importorskip("torch")

from hwcheck.node.collective.pattern import PERIOD
from hwcheck.node.group.rank import Large


@pytest.mark.parametrize("ranks", [64, 65, 800, Large.MAX_RANKS])
def test_the_sum_of_many_ranks_is_exact(ranks: int) -> None:
    data = Large("float", ranks, "cpu")
    total = data.summand(0, 0, 3) * 0
    for rank in range(ranks):
        total += data.summand(rank, 0, 3)
    assert bool((total == data.total(0, 3)).all())
    assert float(data.total(0, 3).max()) < 2**24, "where fp32 holds every integer"


def test_a_summand_that_is_another_or_none_shows() -> None:
    data = Large("float", 100, "cpu")
    total, without = data.total(0, 0), data.total(0, 0) - data.summand(7, 0, 0)
    assert int((total != without).sum()) == PERIOD
    assert int((without + data.summand(6, 0, 0) != total).sum()) == PERIOD
    assert int((data.total(0, 1) != total).sum()) == PERIOD, "an earlier round's"


def test_more_ranks_than_that_would_not_be_exact() -> None:
    assert (Large.MAX_RANKS + 2) * 1.5 * PERIOD >= 2**24
