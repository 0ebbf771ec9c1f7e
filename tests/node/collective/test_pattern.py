import pytest

pytest.importorskip("torch")

from hwcheck.node.collective import pattern
from hwcheck.node.collective.runtime import torch


def test_sums_stay_exact_up_to_the_bound_on_ranks() -> None:
    def largest_sum(ranks: int) -> int:
        return pattern.PERIOD * sum(rank + 1 for rank in range(ranks))

    assert largest_sum(pattern.MAX_RANKS) < 2**24 <= largest_sum(pattern.MAX_RANKS + 1)


@pytest.mark.parametrize("count", [1, 100, 8191, 8192, 3 * 8191, 3 * 8191 + 5])
def test_filled_data_is_right_and_a_change_anywhere_is_seen(count: int) -> None:
    period = pattern.Pattern("float", 3, "cpu").summand(2, 0, 2)
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
    for period in (pattern.PERIOD, pattern.BF16_PERIOD, *pattern.PERIODS.values()):
        assert 2**power % period != 0


def test_every_number_is_held_exactly() -> None:
    for dtype, highest in (("float", 2**24), ("bfloat16", 2**8)):
        data = pattern.Pattern(dtype, pattern.MAX_RANKS, "cpu")
        for period in (data.copied(9, 9), data.summand(62, 9, 9), data.total(9, 9)):
            assert period.dtype == pattern.DTYPES[dtype]
            assert 1 <= period.min() <= period.max() <= highest
            assert bool((period == period.to(torch.float64).round()).all())
        assert len(set(data.copied(9, 9).tolist())) == pattern.PERIODS[dtype]


def test_a_large_buffer_is_compared_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern, "COMPARED_AT_ONCE", 4 * pattern.PERIOD)
    period = pattern.Pattern("float", 2, "cpu").summand(0, 0, 0)
    buffer = torch.empty(11 * pattern.PERIOD + 5)
    pattern.fill(buffer, period)
    assert pattern.count_wrong(buffer, period) == 0
    buffer[:: pattern.PERIOD] = 0
    assert pattern.count_wrong(buffer, period) == 12
