"""Runs of nccl-tests as legs."""

from __future__ import annotations

import pytest

from hwcheck.contract.wire import Leg
from hwcheck.explain.explain import explain
from hwcheck.explain.legs import UNCHECKED, legs_of
from hwcheck.explain.records import Benchmarks
from hwcheck.explain.sources import LogFile
from hwcheck.judge.legs import leg_problem, planned_env
from tests.node.nccl_tests import logs
from tests.node.nccl_tests.logs import FOOTER, MIB, header, row, started

VIA = "node7:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via {}\n"
OFF = "node7:1:2 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.\n"


def log(*lines: str) -> Benchmarks:
    (entry,) = explain(LogFile("f", "\n".join(lines)))
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


KILLED = "mpirun noticed that process rank 3 on node n1 exited on signal 9 (Killed)."


def test_a_run_that_did_not_come_to_its_end_is_no_clean_leg() -> None:
    rows = (header(), row(64 * MIB))
    killed = one("default", log(started(), *rows, KILLED))
    assert (killed.state, killed.reason.text) == ("failed", "it broke off after 64 MiB: " + KILLED)
    cut = one("default", log(started(high=512 * MIB), *rows))
    assert cut.state == "failed"
    assert "the rows end at 64 MiB of 512 MiB" in cut.reason.text
    assert one("default", log(started(), *rows)).state == "done"
    turns = (log(started(), *rows, FOOTER), log(started(), *rows, KILLED))
    assert one("default", *turns).state == "failed", "a turn that broke stands for all"


def test_wrong_data_counts_though_the_run_was_killed() -> None:
    leg = one("default", log(started(), header(), row(64 * MIB, checks=("3", "0")), KILLED))
    assert (leg.state, leg.sizes[-1].all_wrong) == ("done", 3)


@pytest.mark.parametrize(
    ("name", "command", "env"),
    [
        ("default", "./build/all_reduce_perf -b 8", {}),
        ("default", "NCCL_P2P_DISABLE=1 ./build/all_reduce_perf -b 8", {"NCCL_P2P_DISABLE": "1"}),
        ("default", "mpirun -x NCCL_ALGO=Tree ./all_reduce_perf -b 8", {"NCCL_ALGO": "Tree"}),
        ("default", "NCCL_DEBUG=INFO NCCL_TESTS_MIN_BW=5 ./all_reduce_perf -b 8", {}),
        ("p2p_off", "", {"NCCL_P2P_DISABLE": "1"}),
        ("p2p_off", "NCCL_P2P_DISABLE=1 ./all_reduce_perf -b 8", {"NCCL_P2P_DISABLE": "1"}),
        ("p2p_off", "NCCL_P2P_DISABLE=0 ./all_reduce_perf -b 8", {"NCCL_P2P_DISABLE": "0"}),
        ("p2p_off", "mpirun -x NCCL_P2P_DISABLE ./all_reduce_perf", {"NCCL_P2P_DISABLE": "1"}),
        ("p2p_off", "./all_reduce_perf -b 8", {}),
        ("site", "NCCL_ALGO=Tree ./all_reduce_perf -b 8", {"NCCL_ALGO": "Tree"}),
    ],
)
def test_the_environment_of_a_leg_is_that_of_its_command(
    name: str, command: str, env: dict[str, str]
) -> None:
    leg = one(name, log(f"$ {command}\n" + logs.log()))
    assert leg.env == env
    planned = planned_env(name)
    assert bool(leg_problem(leg, planned)) is (env != planned and name != "site")


def test_turns_with_other_variables_are_no_turns_of_one_leg() -> None:
    off = log("$ NCCL_P2P_DISABLE=1 ./all_reduce_perf -b 8\n" + logs.log())
    for turns in ((log(logs.log()), off), (off, log(logs.log()))):
        assert "it ran with NCCL_P2P_DISABLE=1" in leg_problem(one("default", *turns), {})


def test_the_type_of_the_elements_is_part_of_a_leg() -> None:
    half = log(logs.log().replace("float", "half "))
    assert one("default", half).dtype == "half"
    assert one("default", log(logs.log())).dtype == "float"


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
