"""The default leg against the leg without P2P."""

import pytest

from hwcheck.contract.wire import Leg
from hwcheck.judge.p2p import judge_p2p, p2p_gains
from tests.factories import MIB, leg, wrong
from tests.judge.nodes import host_case, node


@pytest.mark.parametrize(
    ("p2p_off", "spread", "outcome"),
    [(5.2, 0.01, "pass"), (25.0, 0.01, "warn"), (23.9, 0.01, "pass"), (25.0, 0.2, "pass")],
    ids=["P2P wins", "P2P loses", "within 10 %", "within the spread"],
)
def test_p2p_gain(p2p_off: float, spread: float, outcome: str) -> None:
    legs = [leg("default", 22.0, spread=spread), leg("p2p_off", p2p_off, spread=spread)]
    (finding,) = p2p_gains("n", "all_reduce", legs)
    assert list(judge_p2p(host_case(node("n", legs)))) == [finding]
    assert finding.outcome == outcome
    assert finding.value == pytest.approx(22.0 / p2p_off, abs=1e-3)


def test_latency_is_no_bandwidth() -> None:
    small = [leg(peak_gbps=1.0, largest=32 * MIB), leg("p2p_off", 9.0)]
    assert p2p_gains("n", "all_reduce", small) == []
    enough = [leg(peak_gbps=1.0, largest=64 * MIB), leg("p2p_off", 9.0)]
    assert [finding.outcome for finding in p2p_gains("n", "all_reduce", enough)] == ["warn"]


@pytest.mark.parametrize(
    "legs",
    [
        [leg("default", 1.0, exercise=True), leg("p2p_off", 9.0, exercise=True)],
        [wrong("default", peak_gbps=1.0), leg("p2p_off", 9.0)],
        [leg("default", 1.0)],
        [leg("default", 1.0), leg("p2p_off", 9.0, env={})],
    ],
    ids=["gloo", "wrong data", "one leg", "P2P was not off"],
)
def test_no_verdict_without_two_clean_nccl_legs(legs: list[Leg]) -> None:
    assert p2p_gains("n", "all_reduce", legs) == []
