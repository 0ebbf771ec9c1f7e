"""Runs of nccl-tests as legs."""

from __future__ import annotations

import pytest

from hwcheck.explain.explain import explain
from hwcheck.explain.legs import UNCHECKED, legs_of
from hwcheck.explain.records import Benchmarks
from hwcheck.explain.sources import Source
from hwcheck.judge.legs import leg_problem
from hwcheck.wire import Leg
from tests.node.nccl_tests import logs
from tests.node.nccl_tests.logs import FOOTER, MIB, header, row, started

VIA = "node7:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via {}\n"
OFF = "node7:1:2 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.\n"


def log(*lines: str) -> Benchmarks:
    (entry,) = explain(Source("f", "\n".join(lines)))
    assert isinstance(entry, Benchmarks)
    return entry


def one(name: str, *found: Benchmarks, reference: tuple[Leg, ...] = ()) -> Leg:
    (leg,) = legs_of(name, found, reference)
    return leg


def test_a_clean_run_is_a_leg_that_our_judge_takes() -> None:
    leg = one("p2p_off", log(logs.log()))
    assert (leg.collective, leg.ranks, leg.state) == ("all_reduce", 4, "done")
    assert leg.library == "NCCL 2.28.9"
    assert leg.sizes[-1].iterations == 25
    assert leg_problem(leg, {"NCCL_P2P_DISABLE": "1"}) == ""


def test_turns_become_one_leg_with_their_middle_and_spread() -> None:
    turns = [log(started(), header(), row(64 * MIB, busbw=busbw), FOOTER) for busbw in (20, 22, 24)]
    leg = one("default", *turns)
    assert leg.sizes[-1].busbw_gbps == pytest.approx(22.0, rel=0.01)
    assert leg.sizes[-1].passes == 3
    assert leg.sizes[-1].pass_spread == pytest.approx(22 / 20 - 22 / 24, rel=0.05)
    assert leg_problem(leg, {}) == ""


def test_a_turn_that_broke_stands_for_all() -> None:
    leg = one("default", log(logs.log()), log(started(), header()))
    assert leg.state == "hang"


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ((header(), row(MIB), row(2 * MIB, checks=("5", "1"))), [0, 6]),
        ((header(), row(MIB), row(2 * MIB), "# Out of bounds values : 1 FAILED"), [0, 1]),
    ],
)
def test_wrong_data_has_wrong_elements(lines: tuple[str, ...], wrong: list[int]) -> None:
    leg = one("default", log(started(), *lines))
    assert leg.state == "done"
    assert [size.all_wrong for size in leg.sizes] == wrong


def test_data_that_nobody_compared_is_said() -> None:
    leg = one("default", log(header(), row(MIB, checks=("N/A", "N/A"))))
    assert (leg.state, leg.notes) == ("done", (UNCHECKED,))


def test_what_a_broken_run_does_not_say_is_that_of_the_legs_beside_it() -> None:
    reference = (one("default", log(logs.log())),)
    leg = one("p2p_off", log(header(), "# nothing more"), reference=reference)
    assert (leg.collective, leg.ranks, leg.state) == ("all_reduce", 4, "hang")
    assert list(legs_of("p2p_off", [log(header())])) == []


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("", "done"),
        (OFF + VIA.format("SHM/direct/direct"), "done"),
        (OFF + VIA.format("P2P/CUMEM"), "not_engaged"),
        (VIA.format("P2P/CUMEM"), "not_engaged"),
    ],
)
def test_a_log_that_says_that_the_leg_is_another_one(said: str, state: str) -> None:
    leg = one("p2p_off", log(said + logs.log()))
    assert leg.state == state, leg.reason
