"""From hosts to orders of training, and from answers to runs."""

from __future__ import annotations

from typing import Any

import pytest

from hwcheck.contract.model_shape import MODELS
from hwcheck.contract.reasons import Reason
from hwcheck.node.training.order import TrainingOrder
from hwcheck.results.options import TrainingOptions
from hwcheck.results.training import TrainingRun
from hwcheck.run.multi_host.orders import Ready
from hwcheck.run.training.orders import (
    TrainingCase,
    compared,
    merged,
    orders,
    single,
    spread,
    with_turn,
)

READY = {
    "a": Ready("10.0.0.1", 4000, "eth0", 4),
    "b": Ready("10.0.0.2", 4001, "eth0", 4),
    "c": Ready("10.0.0.3", 4002, "eth0", 0),
}
OPTIONS = TrainingOptions(MODELS["tiny"], steps=3, warmup=1, dtype="fp32")
UNIT = TrainingCase("ddp", "p2p_off", 8, 32, 32)


def answer(**changes: Any) -> dict[str, Any]:
    return {
        "id": 1,
        "state": "done",
        "reason": "",
        "aborted": False,
        "unproven": "",
        "library": "NCCL 2.27.3",
        "transport": {"SHM": 2},
        "losses": [{"rank": 0, "losses": [2.0, 1.0]}],
        "repeats": [{"times_s": [0.1, 0.2, 0.3], "begin_s": 1.0, "end_s": 2.0}],
        "peak_bytes": [100, 200],
        "gpus": [{"subject": "gpu0", "power_w": 300.0}],
        "left_over": [],
        "log_tail": "",
        "duration_s": 3.0,
        **changes,
    }


def test_ranks_are_alike_on_every_host() -> None:
    assert spread(["a", "b"], READY, 8) == {"a": [0, 1, 2, 3], "b": [0, 1, 2, 3]}
    assert spread(["c"], READY, 2) == {"c": [0, 0]}
    with pytest.raises(ValueError, match="65 ranks on c, which has no GPU: at most 64"):
        spread(["c"], READY, 65)
    assert spread(["a", "b"], READY, 1) == {"a": [0]}
    with pytest.raises(ValueError, match="6 ranks on a, which has 4 GPUs"):
        spread(["a", "b"], READY, 12)
    with pytest.raises(ValueError, match="7 ranks cannot be split alike over 2 hosts"):
        spread(["a", "b"], READY, 7)


def test_each_host_has_an_order_that_its_node_takes() -> None:
    made = orders(7, "a/8", UNIT, ["a", "b"], READY, OPTIONS, 2, 4)
    taken = {host: TrainingOrder.from_dict(order) for host, order in made.items()}
    assert [taken["a"].rank0, taken["b"].rank0] == [0, 4]
    assert {order.store for order in taken.values()} == {("10.0.0.1", 4000)}
    assert taken["b"].env == {"NCCL_P2P_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"}
    assert (taken["a"].world, taken["a"].hosts, taken["a"].repeats) == (8, 2, 2)
    assert (taken["a"].strategy, taken["a"].steps, taken["a"].warmup) == ("ddp", 3, 1)


def two(one: dict[str, Any], other: dict[str, Any]) -> TrainingRun:
    made = orders(1, "a/8", UNIT, ["a", "b"], READY, OPTIONS, 1, 4)
    return merged(UNIT, made, {"a": one, "b": other}, {})


def test_a_step_takes_as_long_as_its_slowest_rank() -> None:
    slow = [{"times_s": [0.2, 0.1, 0.4], "begin_s": 5.0, "end_s": 6.0}]
    run = two(answer(), answer(repeats=slow, losses=[{"rank": 4, "losses": [4.0, 3.0]}]))
    assert run.state == "done"
    assert run.times_s == ((0.2, 0.2, 0.4),)
    assert run.losses == (3.0, 2.0)
    assert run.peak_bytes == (100, 200, 100, 200)
    assert [gpu.host for gpu in run.gpus] == ["a", "b"]
    assert run.transport == {"SHM": 2}


def test_who_broke_is_named_before_who_waited() -> None:
    broke = answer(state="failed", reason="rank 5: ValueError: planted", repeats=[], losses=[])
    waited = answer(state="hang", reason="after 60 s, rank 0: silent", repeats=[], losses=[])
    run = two(waited, broke)
    assert (run.state, run.reason) == ("failed", "b: rank 5: ValueError: planted")
    full = answer(state="out_of_memory", reason="rank 4: 9 GiB at the peak", repeats=[], losses=[])
    assert two(waited, full).state == "out_of_memory"
    assert two(waited, waited).state == "hang"


def test_who_lost_the_one_that_broke_is_not_named_beside_it() -> None:
    broke = answer(state="failed", reason="rank 5 was killed by SIGKILL", repeats=[], losses=[])
    words = "rank 0: RuntimeError: Connection closed by peer [10.0.0.2]:59577"
    echo = answer(state="failed", reason=words, repeats=[], losses=[])
    assert two(echo, broke).reason == "b: rank 5 was killed by SIGKILL"
    assert two(broke, echo).reason == "a: rank 5 was killed by SIGKILL"
    hang = answer(state="hang", reason="after 60 s, rank 5: silent", repeats=[], losses=[])
    waited = two(echo, hang)
    assert (waited.state, waited.reason) == ("hang", "b: after 60 s, rank 5: silent")
    assert two(hang, broke).state == "failed"
    assert two(echo, echo).reason == f"a: {words}; b: {words}", "nobody else says why"
    assert two(broke, broke).reason.count("SIGKILL") == 2
    made = orders(1, "a/8", UNIT, ["a", "b"], READY, OPTIONS, 1, 4)
    lost = merged(
        UNIT, made, {"a": echo}, {"b": Reason("visit_ended", "its connection was lost: timed out")}
    )
    assert lost.reason == "b: its connection was lost: timed out"


def test_a_lost_host_fails_the_run() -> None:
    made = orders(1, "a/8", UNIT, ["a", "b"], READY, OPTIONS, 1, 4)
    run = merged(
        UNIT,
        made,
        {"a": answer(state="hang", reason="silent")},
        {"b": Reason("silent", "no sign of life")},
    )
    assert (run.state, run.reason, run.times_s) == ("failed", "b: no sign of life", ())


def test_a_leg_without_proof_has_no_time() -> None:
    run = two(answer(unproven="NCCL used P2P"), answer())
    assert (run.state, run.reason) == ("unproven", "a: NCCL used P2P")
    assert compared(run, [2.0, 1.0], 1e-4).times_s == ()


def test_a_loss_that_differs_has_no_time() -> None:
    run = two(answer(), answer())
    right, wrong = compared(run, [2.0, 1.00005], 1e-4), compared(run, [2.0, 1.001], 1e-4)
    assert (right.state, right.times_s) == ("done", run.times_s)
    assert (wrong.state, wrong.times_s) == ("wrong_loss", ())
    assert "loss 1 after 2 steps, 1.001 in one process" in wrong.reason
    assert compared(run, [], 1e-4).state == "failed"


def test_turns_are_added_and_a_broken_one_ends_the_run() -> None:
    run = two(answer(), answer())
    more = with_turn(run, two(answer(peak_bytes=[150, 150]), answer()))
    assert len(more.times_s) == 2
    assert more.peak_bytes == (150, 200, 100, 200)
    assert more.losses == run.losses
    hang = answer(state="hang", reason="silent", repeats=[], losses=[])
    ended = with_turn(run, two(hang, hang))
    assert (ended.state, ended.times_s) == ("hang", ())
    assert ended.reason.startswith("in a repetition: a: silent")


def test_one_gpu_times_the_share_of_a_rank() -> None:
    assert single(32, 8) == TrainingCase("single", "default", 1, 4, 32)


@pytest.mark.parametrize(
    ("ranks", "batch", "problem"),
    [(2, 0, ""), (2, 16, ""), (2, 12, "a global batch of 12 is no multiple of 8"), (4, 8, "16")],
)
def test_a_batch_is_split_evenly(ranks: int, batch: int, problem: str) -> None:
    options = TrainingOptions(MODELS["tiny"], global_batch=batch)
    assert problem in options.batch_problem(ranks)
    assert bool(problem) == bool(options.batch_problem(ranks))
