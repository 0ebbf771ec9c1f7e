"""Real ranks on gloo with faults in some legs; every leg of one run is looked at by one test."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

from hwcheck.node.collective import serve
from hwcheck.node.collective.spec import LEGS, MIB, SYSTEM_CONF_NOTE, LegPlan, Spec
from hwcheck.wire import Leg

SEGMENT = f"/dev/shm/nccl-{uuid.uuid4().hex}"
NOT_OURS = f"/dev/shm/nccl-{uuid.uuid4().hex}"

Run = Callable[[Spec], list[Leg]]
Small = Callable[..., Spec]


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
    assert (leg.state, leg.reason, leg.log_tail) == ("done", "", "")
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
    assert (leg.state, leg.reason) == ("failed", reason)
    assert [size.size_bytes for size in leg.sizes] == [MIB]


def test_the_log_of_a_failed_leg_shows_where(legs: dict[str, Leg]) -> None:
    assert "the wire" in legs["fail"].log_tail
    assert "in crash" in legs["crash"].log_tail


@pytest.mark.parametrize("name", ["hang", "deaf_hang"])
def test_a_hung_leg_is_killed_and_keeps_its_finished_sizes(hung: dict[str, Leg], name: str) -> None:
    leg = hung[name]
    assert leg.state == "hang"
    assert leg.reason.endswith("after 1 MiB was finished")
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
    slow = tuple(LegPlan(plan.name, {"FAULT": "drag"}) for plan in LEGS)
    orders = small(*slow, budget_s=6.0, max_bytes=1024 * MIB)
    start = time.monotonic()
    found = run_faulty(orders)
    assert time.monotonic() - start < 6.0 + 10.0  # import of torch on a busy machine
    assert [leg.state for leg in found] == ["done"] * 3
    assert "does not fit the time budget" in found[0].notes[-1]
    largest = [leg.sizes[-1] for leg in found]
    assert all(size.size_bytes <= largest[0].size_bytes for size in largest)
    assert all(size.iterations == 20 for size in largest)


def test_memory_bounds_the_sizes(run_faulty: Run, small: Small) -> None:
    # 16 MiB for two ranks, half of it for buffers: 4 MiB each.
    orders = small(LEGS[0], memory_available_bytes=16 * MIB, max_bytes=64 * MIB)
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


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        ("NCCL_P2P_DISABLE=1\n", True),
        ("# a comment with a = in it\n", False),
        ("", False),
        (None, False),
    ],
)
def test_a_file_that_sets_something_for_every_leg_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, noted: bool
) -> None:
    conf = tmp_path / "nccl.conf"
    if text is not None:
        conf.write_text(text)
    monkeypatch.setattr(serve, "SYSTEM_CONF", str(conf))
    spec = Spec("all_reduce", 8, 8, 45.0, 1 << 34)
    assert (SYSTEM_CONF_NOTE in serve.notes(spec)) == noted


def test_a_file_that_cannot_be_read_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "SYSTEM_CONF", str(tmp_path))  # a folder: reading it fails
    assert SYSTEM_CONF_NOTE in serve.notes(Spec("all_reduce", 8, 8, 45.0, 1 << 34))
