from __future__ import annotations

from itertools import combinations

import pytest

from hwcheck.node.tournament import rounds
from tests.run.multi_host.planted import names


@pytest.mark.parametrize("amount", range(17))
def test_every_pair_meets_once_and_nobody_twice_in_a_round(amount: int) -> None:
    hosts = names(amount)
    made = rounds(hosts)
    met = [frozenset(pair) for pairs in made for pair in pairs]
    assert sorted(map(sorted, met)) == sorted(map(sorted, combinations(hosts, 2)))
    for pairs in made:
        busy = [name for pair in pairs for name in pair]
        assert len(set(busy)) == len(busy) == amount - amount % 2, "all at work, one bye if odd"


def test_as_few_rounds_as_there_can_be() -> None:
    assert [len(rounds(names(amount))) for amount in (2, 3, 4, 7, 8)] == [1, 3, 3, 7, 7]
