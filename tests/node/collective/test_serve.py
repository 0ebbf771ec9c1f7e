"""Real ranks on gloo with faults in some legs; every leg of one run is looked at by one test."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from hwcheck.contract.busbw import busbw_factor
from hwcheck.contract.collective_spec import (
    EVERY_NODE_LEGS,
    MIB,
    CollectiveSpec,
    LegPlan,
)
from hwcheck.contract.reasons import GPU_EXCLUSIVE
from hwcheck.contract.wire import COLLECTIVES, Leg
from hwcheck.node.collective import serve
from hwcheck.node.collective.hangs import Driver, Hangs, nobody
from hwcheck.node.collective.leg_run import Taken
from hwcheck.node.collective.log import READ_BYTES
from hwcheck.node.collective.operations import load
from hwcheck.node.collective.rank import Turn
from hwcheck.node.collective.watch import TimedSize

SEGMENT = f"/dev/shm/nccl-{uuid.uuid4().hex}"
NOT_OURS = f"/dev/shm/nccl-{uuid.uuid4().hex}"

Run = Callable[[CollectiveSpec], list[Leg]]
Small = Callable[..., CollectiveSpec]


def fault(name: str, **env: str) -> LegPlan:
    return LegPlan(name, {"FAULT": name, **env})


@pytest.fixture(scope="module")
def legs(run_faulty: Run, small: Small) -> dict[str, Leg]:
    plans = (
        LegPlan("before", {}),
        *(fault(name) for name in ("corrupt", "nan", "leave", "crash", "fail")),
        LegPlan("after", {}),
    )
    return {leg.leg: leg for leg in run_faulty(small(*plans))}


@pytest.fixture(scope="module")
def hung(run_faulty: Run, small: Small) -> Iterator[dict[str, Leg]]:
    Path(NOT_OURS).touch()
    plans = (
        fault("hang"),
        fault("deaf_hang", SEGMENT=SEGMENT),
        LegPlan("after", {}),
    )
    try:
        orders = small(*plans, budget_s=9.0, grace_s=0.5)
        yield {leg.leg: leg for leg in run_faulty(orders)}
    finally:
        Path(NOT_OURS).unlink()
        Path(SEGMENT).unlink(missing_ok=True)


@pytest.mark.parametrize("name", ["before", "after"])
def test_a_healthy_leg_beside_faulty_ones_is_done(legs: dict[str, Leg], name: str) -> None:
    leg = legs[name]
    assert (leg.state, leg.reason.text, leg.log_tail) == ("done", "", "")
    assert [size.size_bytes for size in leg.sizes] == [MIB, 2 * MIB, 4 * MIB]
    assert all(size.wrong == 0 and size.iterations == 20 for size in leg.sizes)


@pytest.mark.parametrize("name", ["corrupt", "nan"])
def test_wrong_elements_are_counted_in_both_verified_runs(legs: dict[str, Leg], name: str) -> None:
    leg = legs[name]
    assert leg.state == "done"
    assert [size.wrong for size in leg.sizes] == [0, 2, 2]  # only rank 1, only above 1 MiB


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("leave", "rank 1 exited with code 7"),
        ("crash", "rank 1 was killed by SIGSEGV"),
        ("fail", "rank 1: RuntimeError: the wire is cut"),
    ],
)
def test_a_rank_that_ends_fails_the_leg_with_its_own_reason(
    legs: dict[str, Leg], name: str, reason: str
) -> None:
    leg = legs[name]
    assert (leg.state, leg.reason.text) == ("failed", reason)
    assert [size.size_bytes for size in leg.sizes] == [MIB]


def test_the_log_of_a_failed_leg_shows_where(legs: dict[str, Leg]) -> None:
    assert "the wire" in legs["fail"].log_tail
    assert "in crash" in legs["crash"].log_tail


@pytest.mark.parametrize("name", ["hang", "deaf_hang"])
def test_a_hung_leg_is_killed_and_keeps_its_finished_sizes(hung: dict[str, Leg], name: str) -> None:
    leg = hung[name]
    assert leg.state == "hang"
    assert leg.reason.text.endswith("after 1 MiB was finished")
    assert [size.size_bytes for size in leg.sizes] == [MIB]
    assert leg.duration_s < 10.0  # share 3 s (9 s for 3 legs), grace 0.5 s, stacks and kill


def test_after_hung_legs_the_next_is_still_measured(hung: dict[str, Leg]) -> None:
    assert hung["after"].state == "done"
    assert hung["after"].sizes[0].wrong == 0


def test_the_log_of_a_hung_leg_shows_where_every_rank_was(hung: dict[str, Leg]) -> None:
    first, second = hung["hang"].log_tail.split("-- stack of rank ")[1:]
    assert first.startswith("0\n")
    assert "in all_reduce" in first
    assert second.startswith("1\n")
    assert "in hang" in second


def test_a_rank_that_does_not_answer_is_said_to_be_stuck(hung: dict[str, Leg]) -> None:
    first, second = hung["deaf_hang"].log_tail.split("-- stack of rank ")[1:]
    assert "in all_reduce" in first
    assert "no answer within" in second


def test_shared_memory_of_a_killed_leg_is_removed(hung: dict[str, Leg]) -> None:
    assert hung["deaf_hang"].state == "hang"
    assert not Path(SEGMENT).exists()
    assert Path(NOT_OURS).exists()


def test_the_budget_bounds_the_run(run_faulty: Run, small: Small) -> None:
    slow = tuple(LegPlan(plan.name, {"FAULT": "drag"}) for plan in EVERY_NODE_LEGS)
    orders = small(*slow, budget_s=6.0, max_bytes=1024 * MIB)
    start = time.monotonic()
    found = run_faulty(orders)
    assert time.monotonic() - start < 6.0 + 10.0  # import of torch on a busy machine
    assert [leg.state for leg in found] == ["done"] * 3
    assert "does not fit the time budget" in found[0].notes[-1]
    largest = [leg.sizes[-1] for leg in found]
    assert all(size.size_bytes <= largest[0].size_bytes for size in largest)
    assert all(size.iterations == 20 for size in largest)


def test_a_start_costs_nothing_and_one_that_does_not_end_is_told_from_a_hang(
    run_faulty: Run, small: Small
) -> None:
    plans = (
        LegPlan("late", {"JOIN_S": "2.5"}),
        LegPlan("never", {"JOIN_S": "600"}),
        fault("hang_at_once"),
    )
    orders = small(*plans, budget_s=6.0, start_s=6.0, connect_s=2.0)
    found = {leg.leg: leg for leg in run_faulty(orders)}
    late, never, hangs = (found[plan.name] for plan in plans)
    assert late.state == "done", late.reason
    # With its start taken off, nothing would be left for a second size.
    assert late.sizes[-1].size_bytes > MIB, late.notes
    assert late.start_s is not None
    assert late.start_s > 2.5, "more than its share of the budget"
    assert (never.state, never.sizes, never.driver) == ("not_started", (), "answers")
    assert never.reason.text == "no communicator after 6 s, before the first size was finished"
    assert "in join_late" in never.log_tail
    assert (hangs.state, hangs.sizes) == ("hang", ())
    assert hangs.reason.code == "hang"
    assert "in hang" in hangs.log_tail


def test_memory_bounds_the_sizes(run_faulty: Run, small: Small) -> None:
    # 16 MiB for two ranks, half of it for buffers: 4 MiB each.
    orders = small(EVERY_NODE_LEGS[0], memory_available_bytes=16 * MIB, max_bytes=64 * MIB)
    (leg,) = run_faulty(orders)
    assert leg.sizes[-1].size_bytes == 4 * MIB
    assert leg.notes[-1] == "stopped at 4 MiB: the next size does not fit in free memory"


def test_later_legs_stop_at_the_first_legs_largest_size(run_faulty: Run, small: Small) -> None:
    first = LegPlan("first", {"FAULT": "drag"})  # 0.02 s x 27 for 1 MiB of a share of 1 s
    orders = small(first, LegPlan("second", {}), budget_s=3.0, max_bytes=64 * MIB)
    found = run_faulty(orders)
    largest = found[0].sizes[-1].size_bytes
    assert found[1].sizes[-1].size_bytes == largest < 64 * MIB
    assert found[1].notes[-1].endswith("the largest size of leg first")


@pytest.mark.parametrize("dtype", ["float", pytest.param("bfloat16", marks=pytest.mark.wide)])
def test_every_collective_for_real(run_faulty: Run, small: Small, dtype: str) -> None:
    orders = small(
        EVERY_NODE_LEGS[0], collectives=COLLECTIVES, ranks=3, max_bytes=2 * MIB, dtype=dtype
    )
    found = run_faulty(orders)
    assert [(leg.collective, leg.state, leg.dtype) for leg in found] == [
        (name, "done", dtype) for name in COLLECTIVES
    ]
    for leg in found:
        whole = leg.collective in ("all_reduce", "broadcast", "sendrecv")
        assert [size.size_bytes for size in leg.sizes] == (
            [MIB, 2 * MIB] if whole else [MIB - 16, 2 * MIB - 32]  # 3 chunks of whole 16 bytes
        )
        both = leg.collective in ("all_gather", "reduce_scatter")
        assert all((size.in_place is not None) == both for size in leg.sizes)
        assert all(size.all_wrong == 0 for size in leg.sizes)
        factor = busbw_factor(leg.collective, 3)
        for size in leg.sizes:
            assert size.busbw_gbps == pytest.approx(size.algbw_gbps * factor)


def test_wrong_data_is_found_in_every_collective(run_faulty: Run, small: Small) -> None:
    orders = small(fault("corrupt"), collectives=COLLECTIVES, ranks=3, max_bytes=2 * MIB)
    found = run_faulty(orders)
    assert len(found) == len(COLLECTIVES)
    for leg in found:
        last = leg.sizes[-1]
        assert last.wrong == 2, leg.collective  # of rank 1, in both verified runs
        assert last.in_place is None or last.in_place.wrong == 2, leg.collective


def test_a_leg_that_breaks_starts_anew_for_the_next_collective(
    run_faulty: Run, small: Small
) -> None:
    once = LegPlan("once", {"FAULT": "leave", "FAULT_OF": "all_reduce"})
    found = run_faulty(
        small(once, EVERY_NODE_LEGS[0], collectives=("all_reduce", "broadcast"), turns=2)
    )
    states = {(leg.collective, leg.leg): leg.state for leg in found}
    assert states == {
        ("all_reduce", "once"): "failed",
        ("all_reduce", "default"): "done",
        ("broadcast", "once"): "done",
        ("broadcast", "default"): "done",
    }
    assert all(leg.sizes[-1].passes == 2 for leg in found if leg.state == "done")


class Ranks:
    """Stands in for the ranks of every leg: each size takes so many seconds."""

    def __init__(
        self,
        took_s: float = 0.0,
        hangs_in: tuple[tuple[str, int], ...] = (),
        exclusive: bool = False,
        start_s: float = 0.0,
        stopped: str = "hang",
    ) -> None:
        self.stopped = stopped
        self.start_s, self.shares_s = start_s, list[float]()
        self.took_s, self.hangs_in, self.exclusive = took_s, hangs_in, exclusive
        self.turns: list[tuple[str, str, tuple[int, ...]]] = []
        self.there: set[str] = set()
        self.told: list[str] = []

    def of(self, spec: CollectiveSpec, plan: LegPlan, close_fds: list[int]) -> Ranks.OneLeg:
        return self.OneLeg(self, spec, plan)

    class OneLeg:
        def __init__(self, ranks: Ranks, spec: CollectiveSpec, plan: LegPlan) -> None:
            self.ranks, self.spec, self.plan = ranks, spec, plan

        def take(self, turn: Turn, factor: float, on_size: object) -> Taken:
            self.ranks.there.add(self.plan.name)
            if self.ranks.exclusive and len(self.ranks.there) > 1:
                self.end()
                reason = "rank 0: CUDA error: CUDA-capable device(s) is/are busy or unavailable"
                return Taken("failed", reason, [], "", "", 0, "", [], "", 0.0, code=GPU_EXCLUSIVE)
            turns = self.ranks.turns
            turns.append((turn.collective, self.plan.name, turn.sizes))
            self.ranks.shares_s.append(turn.bounds.share_s)
            nth = len([one for one in turns if one[:2] == (turn.collective, self.plan.name)])
            state = "done"
            if (self.plan.name, nth) in self.ranks.hangs_in:
                state = self.ranks.stopped
            largest = self.spec.max_bytes if self.plan.name == "default" else 32 * MIB
            sizes = turn.sizes or (MIB, min(largest, turn.bounds.max_bytes))
            time_us = 100.0 * nth
            timed = [
                TimedSize(size, size, False, [time_us] * 20, 0, self.ranks.took_s) for size in sizes
            ]
            start_s = self.ranks.start_s
            return Taken(
                *(state, "", timed, "", "", sizes[-1], "", [], "", start_s), start_s=start_s
            )

        def second_try(self, reason: str) -> bool:
            return False

        def end(self) -> None:
            self.ranks.there.discard(self.plan.name)


def served(
    ranks: Ranks, monkeypatch: pytest.MonkeyPatch, driver: Driver = nobody, **changes: object
) -> list[Leg]:
    monkeypatch.setattr(serve, "LegRun", ranks.of)
    orders = {"max_bytes": 64 * MIB, "turns": 3, **changes}
    spec = CollectiveSpec(("all_reduce", "alltoall"), 2, 0, 45.0, 1 << 34, **orders)  # type: ignore[arg-type]
    said: list[Leg] = []

    def send(message: dict[str, Any]) -> None:
        if message["kind"] == "leg":
            said.append(Leg.from_dict(message["leg"]))
        else:
            ranks.told.append(message["text"])

    serve.serve(spec, [load(name) for name in spec.collectives], send, [], Hangs(driver))
    return said


def test_legs_take_turns_and_what_is_compared_is_timed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranks = Ranks()
    found = served(ranks, monkeypatch)
    names = [plan.name for plan in EVERY_NODE_LEGS]
    order = [(name, leg) for name in ("all_reduce", "alltoall") for leg in names]
    assert [turn[:2] for turn in ranks.turns] == order * 3
    again = {(32 * MIB, 64 * MIB) if leg == "default" else (32 * MIB,) for leg in names}
    assert {sizes for *_, sizes in ranks.turns[6:]} == again
    assert [(leg.collective, leg.leg) for leg in found] == order
    for leg in found:
        last = leg.sizes[-1]
        assert (last.passes, last.iterations, last.time_us) == (3, 60, 200.0)
        assert last.pass_spread == pytest.approx((300 - 100) / 200)
        assert leg.sizes[0].passes == 1


@pytest.mark.parametrize(("took_s", "turns"), [(6.5, 1), (5.0, 2), (1.0, 3)])
def test_the_budget_decides_how_often_it_is_timed_again(
    monkeypatch: pytest.MonkeyPatch, took_s: float, turns: int
) -> None:
    # 6 sizes are known to be timed again, then 8: with a quarter for noise of a budget of 45 s.
    ranks = Ranks(took_s=took_s)
    assert [leg.sizes[-1].passes for leg in served(ranks, monkeypatch)] == [turns] * 6
    assert len(ranks.turns) == 6 * turns


def test_what_a_leg_takes_to_start_is_not_taken_from_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranks = Ranks(start_s=60.0)
    found = served(ranks, monkeypatch)
    assert ranks.shares_s[:6] == pytest.approx([45.0 * 0.6 / n for n in range(6, 0, -1)])
    assert [leg.sizes[-1].passes for leg in found] == [3] * 6
    assert {leg.start_s for leg in found} == {60.0}


def test_a_leg_that_did_not_start_takes_no_further_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks(hangs_in=(("net", 1),), stopped="not_started")
    found = {(leg.collective, leg.leg): leg for leg in served(ranks, monkeypatch)}
    assert found["all_reduce", "net"].state == "not_started"
    assert found["all_reduce", "net"].driver == "answers"
    assert found["alltoall", "net"].reason.text == (
        "leg net did not start in all_reduce: not tried again in this visit"
    )


def test_a_leg_that_hangs_once_takes_no_further_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks(hangs_in=(("p2p_off", 2), ("net", 1)))
    found = served(ranks, monkeypatch)
    states = {(leg.collective, leg.leg): leg.state for leg in found}
    assert states == {
        ("all_reduce", "default"): "done",
        ("all_reduce", "p2p_off"): "hang",
        ("all_reduce", "net"): "hang",
        ("alltoall", "default"): "done",
        ("alltoall", "p2p_off"): "done",
        ("alltoall", "net"): "not_run",
    }
    assert ranks.told == ["all_reduce net: hang", "all_reduce p2p_off: hang"]
    taken = [leg for name, leg, _ in ranks.turns if name == "alltoall"]
    assert [taken.count(plan.name) for plan in EVERY_NODE_LEGS] == [3, 1, 0]
    (untried,) = [leg for leg in found if leg.state == "not_run"]
    assert untried.reason.text == "leg net hung in all_reduce: not tried again in this visit"
    assert {leg.driver for leg in found if leg.state == "hang"} == {"answers"}


@pytest.mark.parametrize("nth", [1, 2])
def test_once_the_driver_is_gone_nothing_more_is_run(
    monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    asked: list[int] = []

    def driver() -> str:
        asked.append(len(ranks.turns))
        return "the driver does not answer (NVML did not answer within 10 s)"

    ranks = Ranks(hangs_in=(("p2p_off", nth),))
    found = served(ranks, monkeypatch, driver)
    states = [leg.state for leg in sorted(found, key=lambda leg: leg.collective)]
    later = ["not_run"] * 4 if nth == 1 else ["done"] * 4
    assert sorted(states) == sorted(["done", "hang", *later])
    assert len(found) == 6
    assert asked == [len(ranks.turns)] == [2 if nth == 1 else 8]
    (hung,) = [leg for leg in found if leg.state == "hang"]
    assert (hung.collective, hung.driver) == (
        "all_reduce",
        "the driver does not answer (NVML did not answer within 10 s)",
    )
    for leg in found:
        assert leg.state != "not_run" or leg.reason.text == (
            f"after leg p2p_off of all_reduce was killed, {hung.driver}: reboot the node"
        )


def test_where_a_gpu_takes_one_process_legs_come_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = served(Ranks(exclusive=True), monkeypatch)
    assert [(leg.state, leg.sizes[-1].passes) for leg in found] == [("done", 3)] * 6


def test_a_leg_that_cannot_differ_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks()
    legs = (EVERY_NODE_LEGS[0], LegPlan("nvlink_only", {}, "no pair of GPUs has NVLinks"))
    found = {leg.leg: leg for leg in served(ranks, monkeypatch, legs=legs)}
    assert (found["nvlink_only"].state, found["default"].state) == ("not_run", "done")
    assert found["nvlink_only"].reason.text == "no pair of GPUs has NVLinks"
    assert {leg for _, leg, _ in ranks.turns} == {"default"}


def test_a_leg_that_is_slow_at_its_first_size_is_no_hang(run_faulty: Run, small: Small) -> None:
    slow = LegPlan("slow", {"FAULT": "drag"})  # 20 ms each run
    start = time.monotonic()
    (leg,) = run_faulty(small(slow, iterations=5000, budget_s=2.0, grace_s=3.0))
    assert time.monotonic() - start < 60.0
    assert (leg.state, leg.sizes, leg.driver) == ("not_run", (), "")
    assert "data still moved after" in leg.reason.text
    assert "before the first size was finished; take a smaller -b or -n" in leg.reason.text


def test_a_smallest_size_that_does_not_fit_is_not_run(run_faulty: Run, small: Small) -> None:
    (leg,) = run_faulty(small(EVERY_NODE_LEGS[0], memory_available_bytes=3 * MIB))
    assert (leg.state, leg.sizes) == ("not_run", ())
    assert leg.reason.text == "the smallest size, 1 MiB, does not fit in free memory"


def test_sizes_of_a_few_bytes_are_those_of_nccl_tests(run_faulty: Run, small: Small) -> None:
    names = ("all_reduce", "all_gather", "alltoall")
    legs = run_faulty(
        small(EVERY_NODE_LEGS[0], collectives=names, min_bytes=8, max_bytes=64, iterations=3)
    )
    assert [(leg.collective, leg.state) for leg in legs] == [(name, "done") for name in names]
    assert [[size.size_bytes for size in leg.sizes] for leg in legs] == [
        [8, 16, 32, 64],
        [32, 64],  # 16 bytes for each of two ranks, or nothing
        [32, 64],
    ]
    assert not any(size.all_wrong for leg in legs for size in leg.sizes)
    (leg,) = run_faulty(
        small(EVERY_NODE_LEGS[0], collectives=names[1:2], min_bytes=8, max_bytes=16)
    )
    assert (leg.state, leg.sizes) == ("not_run", ())


def test_the_raw_log_has_how_a_leg_began(
    run_faulty: Run, small: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = {"FAULT": "talk", "TALK_BYTES": str(2 * READ_BYTES)}
    (leg,) = run_faulty(small(LegPlan("talk", talk), max_bytes=MIB, iterations=1, warmups=0))
    assert leg.state == "done"
    said = capsys.readouterr().err
    assert "the first words" in said
    assert "bytes left out" in said
    assert "the last words" in said
