"""The default leg against the leg without P2P."""

import pytest

from hwcheck.judge.p2p import judge_p2p
from hwcheck.wire import Leg, SizeTiming


def leg(name: str, busbw: float, *, spread: float = 0.01, wrong: int = 0, **other: object) -> Leg:
    size = SizeTiming(1 << 30, 20, 1.0, 1.0, spread, busbw, busbw, wrong)
    return Leg("all_reduce", name, "nccl", 8, "done", sizes=(size,), **other)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("p2p_off", "spread", "outcome"),
    [(5.2, 0.01, "pass"), (25.0, 0.01, "warn"), (23.9, 0.01, "pass"), (25.0, 0.2, "pass")],
    ids=["P2P wins", "P2P loses", "within 10 %", "within the spread"],
)
def test_p2p_gain(p2p_off: float, spread: float, outcome: str) -> None:
    legs = [leg("default", 22.0, spread=spread), leg("p2p_off", p2p_off, spread=spread)]
    (finding,) = judge_p2p("n", "all_reduce", legs)
    assert finding.outcome == outcome
    assert finding.value == pytest.approx(22.0 / p2p_off, abs=1e-3)


@pytest.mark.parametrize(
    "legs",
    [
        [leg("default", 1.0, exercise=True), leg("p2p_off", 9.0, exercise=True)],
        [leg("default", 1.0, wrong=3), leg("p2p_off", 9.0)],
        [leg("default", 1.0)],
    ],
    ids=["gloo", "wrong data", "one leg"],
)
def test_no_verdict_without_two_clean_nccl_legs(legs: list[Leg]) -> None:
    assert judge_p2p("n", "all_reduce", legs) == []
