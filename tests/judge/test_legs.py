from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck.judge.legs import compare, is_broken, is_clean, largest, wrong_elements
from hwcheck.wire import Leg
from tests.factories import MIB, hung, leg, wrong


def _peak(peak_gbps: float, spread: float = 0.02) -> Leg:
    return leg(peak_gbps=peak_gbps, spread=spread)


@pytest.mark.parametrize(
    ("base", "other", "base_wins", "other_wins"),
    [
        (100.0, 100.0, False, False),
        (100.0, 109.0, False, False),
        (100.0, 112.0, False, True),
        (112.0, 100.0, True, False),
        (109.0, 100.0, False, False),
    ],
)
def test_a_difference_counts_beyond_ten_percent(
    base: float, other: float, base_wins: bool, other_wins: bool
) -> None:
    compared = compare(_peak(base), _peak(other))
    assert compared is not None
    assert (compared.base_wins, compared.other_wins) == (base_wins, other_wins)
    assert compared.differs == (base_wins or other_wins)
    assert compared.ratio == pytest.approx(other / base)


def test_a_difference_within_the_spread_does_not_count() -> None:
    noisy = compare(_peak(100.0, spread=0.2), _peak(130.0, spread=0.15))
    assert noisy is not None
    assert noisy.threshold == pytest.approx(0.35)
    assert not noisy.differs
    calm = compare(_peak(100.0, spread=0.1), _peak(130.0, spread=0.15))
    assert calm is not None
    assert calm.other_wins


def test_the_largest_common_size_is_compared() -> None:
    compared = compare(leg(largest=256 * MIB), leg("p2p_off", 40.0, largest=64 * MIB))
    assert compared is not None
    assert compared.size_bytes == 64 * MIB


def test_a_size_with_too_few_iterations_is_not_judged() -> None:
    full = leg(largest=4 * MIB)
    hasty = replace(full, sizes=(*full.sizes[:-1], replace(full.sizes[-1], iterations=19)))
    compared = compare(full, hasty)
    assert compared is not None
    assert compared.size_bytes == 2 * MIB


@pytest.mark.parametrize(
    "other",
    [
        leg(collective="all_gather"),
        leg(ranks=4),
        leg(backend="gloo"),
        leg(sizes=()),
        hung(),
        leg(ranks=1),
    ],
)
def test_nothing_to_compare(other: Leg) -> None:
    assert compare(leg(ranks=other.ranks) if other.ranks == 1 else leg(), other) is None


@pytest.mark.parametrize("busbw", [0.0, 1e-9, 1e9, float("inf"), float("nan")])
def test_a_figure_that_cannot_be_is_left_out(busbw: float) -> None:
    lying = leg(sizes=tuple(replace(size, busbw_gbps=busbw) for size in leg().sizes))
    assert compare(leg(), lying) is None
    assert largest(lying) is None


def test_clean_and_broken() -> None:
    assert is_clean(leg())
    assert not is_broken(leg())
    assert is_broken(hung())
    assert not is_clean(hung())
    assert wrong_elements(wrong(elements=7)) == 7
    assert is_broken(wrong())
    assert not is_clean(wrong())
    failed = leg(state="failed", sizes=())
    assert not is_clean(failed)
    assert not is_broken(failed)
    assert not is_clean(leg(sizes=()))
