import pytest

pytest.importorskip("torch")

from hwcheck.node.collective import pattern
from hwcheck.node.collective.runtime import torch


def test_sums_stay_exact_up_to_the_bound_on_ranks() -> None:
    def largest_sum(ranks: int) -> int:
        return pattern.PERIOD * sum(pattern.weight(rank) for rank in range(ranks))

    assert largest_sum(pattern.MAX_RANKS) < 2**24 <= largest_sum(pattern.MAX_RANKS + 1)


@pytest.mark.parametrize("count", [1, 100, 8191, 8192, 3 * 8191, 3 * 8191 + 5])
def test_filled_data_is_right_and_a_change_anywhere_is_seen(count: int) -> None:
    period = pattern.row(3, 2, "cpu")
    buffer = torch.empty(count)
    pattern.fill(buffer, period)
    assert pattern.count_wrong(buffer, period) == 0
    assert [int(x) for x in buffer[:2]] == [3 * ((i + 2 * 977) % 8191 + 1) for i in range(2)][
        :count
    ]
    for place in {0, count // 2, count - 1}:
        changed = buffer.clone()
        changed[place] += 1
        assert pattern.count_wrong(changed, period) == 1


@pytest.mark.parametrize("power", range(31))
def test_no_move_by_a_power_of_two_goes_unseen(power: int) -> None:
    assert 2**power % pattern.PERIOD != 0
