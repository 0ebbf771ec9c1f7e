from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from hwcheck.contract.reasons import Reason
from hwcheck.node.multi_host.order import Order
from hwcheck.run.multi_host.orders import GLOO, NCCL, Ready, Sizing, merged, orders

MIB = 1024 * 1024
READY = {
    "a": Ready("10.0.0.1", 7001, "eth0", 8),
    "b": Ready("10.0.0.2", 7002, "eth0", 4),
    "c": Ready("10.0.0.3", 7003, "eth0", 0),
}


def answer(**changes: Any) -> dict[str, Any]:
    size = {"size_bytes": MIB, "times_us": [100.0, 300.0, 200.0], "wrong": 0}
    return {
        "id": 1,
        "state": "done",
        "reason": "",
        "aborted": False,
        "library": "gloo",
        "transport": {},
        "sizes": [size],
        "exchanges": [],
        "ranks": [],
        "left_over": [],
        "log_tail": "",
        "duration_s": 1.0,
        **changes,
    }


def timed(*times_us: float, wrong: int = 0) -> dict[str, Any]:
    return answer(sizes=[{"size_bytes": MIB, "times_us": list(times_us), "wrong": wrong}])


ASKED = orders(1, ["b", "c"], READY, [MIB], GLOO)


def test_ranks_are_numbered_over_the_hosts_and_meet_at_the_first() -> None:
    made = orders(5, ["b", "a"], READY, [MIB], NCCL)
    assert [(o["rank0"], o["devices"]) for o in made.values()] == [
        (0, [0, 1, 2, 3]),
        (4, list(range(8))),
    ]
    assert {(o["world"], *o["store"]) for o in made.values()} == {(12, "10.0.0.2", 7002)}
    for order in made.values():
        assert set(order) <= {field.name for field in fields(Order)}
        assert Order.from_dict(order).devices == tuple(order["devices"])


def test_one_device_of_each_host_and_one_rank_without_gpus() -> None:
    assert {tuple(o["devices"]) for o in orders(1, ["a", "b"], READY, [1], NCCL, 3).values()} == {
        (3,)
    }
    assert orders(1, ["c", "a"], READY, [1], GLOO)["c"]["devices"] == [0]


def test_the_deadline_grows_with_the_sizes_and_ends_at_the_floor() -> None:
    sizing = Sizing((MIB,), (MIB,), floor_gbps=0.001, start_s=10.0, warmups=1, iterations=5)
    assert sizing.deadline_s([MIB]) == pytest.approx(10 + (2 * 8 + 2) * MIB / 1e6)
    assert NCCL.deadline_s(NCCL.whole_sizes) > NCCL.deadline_s(NCCL.pair_sizes)


def test_figures_are_those_of_the_slowest_host() -> None:
    run = merged("pairs", 2, ASKED, {"b": timed(100, 300, 200), "c": timed(250, 100, 100)}, {})
    (size,) = run.sizes
    assert (run.state, run.ranks, run.round) == ("done", 5, 2)
    assert size.time_us == 250, "of 250, 300, 200"
    assert size.algbw_gbps == pytest.approx(MIB / 250e-6 / 1e9)
    assert size.busbw_gbps == pytest.approx(size.algbw_gbps * 2 * 4 / 5), "nccl-tests' factor"
    assert size.best_gbps == pytest.approx(size.busbw_gbps * 250 / 200)
    assert run.outcome.kind == "ok"


def test_wrong_elements_of_one_host_are_the_runs() -> None:
    run = merged("all", 0, ASKED, {"b": timed(1, 1), "c": timed(1, 1, wrong=3)}, {})
    assert run.sizes[0].wrong == 3
    assert run.outcome.kind == "wrong"


@pytest.mark.parametrize(
    "answers",
    [
        {"b": timed(1.0, 2.0), "c": timed(1.0)},
        {"b": timed(1.0), "c": answer(sizes=[])},
        {"b": answer(sizes=[]), "c": answer(sizes=[])},
    ],
)
def test_answers_that_do_not_fit_together_are_no_figure(answers: dict[str, Any]) -> None:
    run = merged("all", 0, ASKED, answers, {})
    assert run.outcome.kind == "failed"
    assert run.sizes == ()


def test_a_host_that_gives_no_answer_holds_up_the_others() -> None:
    hung = answer(state="hang", sizes=[], reason="before the first size was finished", log_tail="x")
    run = merged(
        "all", 0, ASKED, {"c": hung}, {"b": Reason("silent", "run: no sign of life for 8 s")}
    )
    assert run.state == "hang"
    assert [one.hosts for one in run.blamed] == [("b",)]
    assert run.logs == {"c": "x"}
    assert run.reason.startswith("b: run: no sign of life for 8 s; c: before")


def test_a_rank_that_died_is_blamed_for_the_hang_of_the_others() -> None:
    dead = answer(state="failed", sizes=[], reason="rank 0 was killed by SIGKILL")
    run = merged("all", 0, ASKED, {"b": dead, "c": answer(state="hang", sizes=[])}, {})
    assert [(one.hosts, one.kind) for one in run.blamed] == [(("b",), "failed")]
