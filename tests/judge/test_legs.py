from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwcheck.contract.busbw import busbw_factor
from hwcheck.contract.collective_spec import EVERY_NODE_LEGS, SOME_NODE_LEGS
from hwcheck.contract.wire import Leg, SizeTiming
from hwcheck.judge.legs import (
    compare,
    is_broken,
    is_clean,
    largest,
    leg_problem,
    planned_env,
    wrong_elements,
)
from hwcheck.node.collective.timing import summarize
from tests.factories import MIB, gloo_legs, hung, leg, wrong

CASES = sorted(Path(__file__).parent.parent.glob("cases/all_reduce/*.json"))


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
    assert compared.ratio == pytest.approx(other / base)


def test_a_difference_within_the_spread_does_not_count() -> None:
    noisy = compare(_peak(100.0, spread=0.2), _peak(130.0, spread=0.15))
    assert noisy is not None
    assert noisy.threshold == pytest.approx(0.35)
    assert (noisy.base_wins, noisy.other_wins) == (False, False)
    calm = compare(_peak(100.0, spread=0.1), _peak(130.0, spread=0.15))
    assert calm is not None
    assert calm.other_wins


def test_what_the_turns_differ_by_counts_as_spread() -> None:
    drifting = replace(
        _peak(130.0), sizes=tuple(replace(s, pass_spread=0.4) for s in _peak(130.0).sizes)
    )
    compared = compare(_peak(100.0), drifting)
    assert compared is not None
    assert compared.threshold == pytest.approx(0.42)
    assert (compared.base_wins, compared.other_wins) == (False, False)


def test_wrong_elements_in_place_count() -> None:
    last = leg(sizes=_both(wrong=3)[-1:])
    assert wrong_elements(last) == 3
    assert is_broken(last)


def test_the_largest_common_size_is_compared() -> None:
    compared = compare(leg(largest=256 * MIB), leg("p2p_off", 40.0, largest=64 * MIB))
    assert compared is not None
    assert compared.size_bytes == 64 * MIB


def test_a_smaller_size_does_not_stand_in_for_one_with_too_few_iterations() -> None:
    full = leg(largest=4 * MIB)
    hasty = replace(full, sizes=(*full.sizes[:-1], replace(full.sizes[-1], iterations=19)))
    assert compare(full, hasty) is None
    assert largest(hasty) is None
    assert compare(full, full) is not None


@pytest.mark.parametrize(
    "other",
    [
        leg(collective="all_gather"),
        leg(dtype="bfloat16"),
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
    for neither in (leg(state="failed", sizes=()), leg(state="not_engaged")):
        assert not is_clean(neither)
        assert not is_broken(neither)
    assert not is_clean(leg(sizes=()))


def _problem(leg: Leg) -> str:
    return leg_problem(leg, planned_env(leg.leg))


def _each(**changes: Any) -> tuple[SizeTiming, ...]:
    return tuple(replace(size, **changes) for size in leg().sizes)


def _both(**changes: Any) -> tuple[SizeTiming, ...]:
    """Timings out of place and in place, of which the latter are changed."""
    return tuple(replace(s, in_place=replace(s, **changes)) for s in leg().sizes)


def _recorded() -> Sequence[Leg]:
    legs = (json.loads(file.read_text("utf-8"))["node"].get("legs", ()) for file in CASES)
    return [Leg.from_dict({"collective": "all_reduce", **each}) for some in legs for each in some]


def test_recorded_legs_have_no_problem() -> None:
    assert len(_recorded()) > 20
    assert [_problem(leg) for leg in _recorded()] == [""] * len(_recorded())


@pytest.mark.parametrize(
    "honest",
    [
        *(leg(plan.name) for plan in (*EVERY_NODE_LEGS, *SOME_NODE_LEGS)),
        leg("site", env={"NCCL_ALGO": "Ring", "NCCL_P2P_LEVEL": "LOC"}),
        leg(sizes=_both()),
        leg(state="not_engaged"),
        *gloo_legs(2),
        leg(ranks=1),
        leg(largest=MIB),
        leg(spread=12.0),
        hung(library=""),
        hung(sizes=leg(largest=4 * MIB).sizes),
        wrong(),
        leg(state="failed", sizes=(), library=""),
        leg(state="not_run", sizes=()),
    ],
)
def test_an_honest_leg_has_no_problem(honest: Leg) -> None:
    assert _problem(honest) == ""


@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 63])
def test_what_the_node_sums_up_has_no_problem(ranks: int) -> None:
    factor = busbw_factor("all_reduce", ranks)
    times = [[0.5 + 0.37 * i + 1e3 * rank for i in range(20)] for rank in range(ranks)]
    sizes = tuple(summarize(MIB << n, times, factor, 0) for n in range(11))
    assert _problem(leg(ranks=ranks, sizes=sizes)) == ""


def test_a_leg_of_alltoallv_is_judged_by_the_formula_of_alltoall() -> None:
    one = leg(collective="alltoall")
    sizes = tuple(
        replace(size, busbw_gbps=size.algbw_gbps * busbw_factor("alltoallv", one.ranks))
        for size in one.sizes
    )
    assert _problem(replace(one, collective="alltoallv", sizes=sizes)) == ""
    wrong_factor = tuple(replace(size, busbw_gbps=size.algbw_gbps) for size in one.sizes)
    assert "busbw is not algbw" in _problem(
        replace(one, collective="alltoallv", sizes=wrong_factor)
    )
    assert "without a known formula" in _problem(replace(one, collective="hypercube"))


@pytest.mark.parametrize(
    ("lying", "words"),
    [
        (leg(sizes=()), "no message size"),
        (leg(sizes=leg().sizes[-1:] * 3), "do not grow"),
        (leg(sizes=leg().sizes[::-1]), "do not grow"),
        (leg(sizes=_each(size_bytes=0)[:1]), "do not grow"),
        (leg(sizes=_each(time_us=0.0)), "a time of 0.0 us at 1 MiB"),
        (leg(sizes=_each(time_us=float("nan"))), "a time of nan us"),
        (leg(sizes=_each(time_us=float("inf"))), "algbw is not"),
        (leg(sizes=_each(time_us=1e-308)), "algbw is not"),
        (leg(sizes=tuple(replace(s, time_us=s.time_us * 1.02) for s in leg().sizes)), "algbw is"),
        (leg(sizes=_each(busbw_gbps=999999.0)), "busbw is not algbw times 1.75"),
        (leg(ranks=1, sizes=leg(ranks=2).sizes), "busbw is not algbw times 0"),
        (leg(ranks=4, sizes=leg().sizes), "busbw is not algbw times 1.5"),
        (leg(sizes=_each(iterations=19)), "fewer than 20 times"),
        (leg(sizes=(*leg().sizes[:-1], _each(iterations=1)[-1])), "fewer than 20 times"),
        (leg(exercise=True), "nccl is called an exercise"),
        (leg(backend="gloo"), "gloo is called no exercise"),
        (replace(leg(), ranks=0), "0 ranks of nccl"),
        (replace(gloo_legs()[0], ranks=1), "1 rank of gloo"),
        (leg("p2p_off", env={}), "it ran with no variable, and its plan is NCCL_P2P_DISABLE=1"),
        (leg(env={"NCCL_ALGO": "Ring"}), "it ran with NCCL_ALGO=Ring"),
        (leg("net", env={"NCCL_P2P_DISABLE": "1"}), "NCCL_SHM_DISABLE=1"),
        (hung(env={"NCCL_P2P_DISABLE": "1"}), "it ran with NCCL_P2P_DISABLE=1"),
        (leg(library=""), "without a name"),
        (leg(library="gloo"), "it ran with gloo"),
        (leg("nvlink"), "no leg of this name"),
        (leg("p2p_sys", env={}), "it ran with no variable, and its plan is NCCL_P2P_LEVEL=SYS"),
        (leg("site", env={"LD_PRELOAD": "x"}), "it ran with LD_PRELOAD=x"),
        (leg(sizes=_both(busbw_gbps=9e5)), "in place: busbw is not algbw times 1.75 at 1 MiB"),
        (leg(sizes=_both(size_bytes=7)), "7 B in place at 1 MiB"),
        (leg(collective="magic"), "without a known formula"),
        (leg(collective="alltoall"), "busbw is not algbw times 0.875"),
    ],
)
def test_what_is_no_measurement(lying: Leg, words: str) -> None:
    assert words in _problem(lying)
