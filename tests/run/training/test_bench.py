"""One strategy after another, leg by leg: what is ordered, and what is never."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwcheck.contract.model_shape import MODELS
from hwcheck.contract.reasons import Reason
from hwcheck.results.options import TrainingOptions
from hwcheck.results.training import TrainingRecord, read_training
from hwcheck.run.multi_host.orders import Ready
from hwcheck.run.multi_host.participants import RunStoppedError
from hwcheck.run.training.bench import Bench, Recorder, bench, fit_together
from tests.run.training.test_orders import answer

Script = Callable[[Mapping[str, Any]], dict[str, Any]]


class Scripted:
    """Participants that answer by a script."""

    def __init__(self, script: Script, gpus: int = 2, torch: str = "2.13.0") -> None:
        self.ready = {"a": Ready("127.0.0.1", 4000, "lo", gpus, "NVIDIA TITAN RTX", torch=torch)}
        self.absent: dict[str, Reason] = {}
        self.asked: list[Mapping[str, Any]] = []
        self._script = script

    @property
    def present(self) -> tuple[str, ...]:
        return tuple(name for name in self.ready if name not in self.absent)

    def ask(self, order_by_host: Mapping[str, Mapping[str, Any]]) -> tuple[Any, Any]:
        order = order_by_host["a"]
        self.asked.append(order)
        return {"a": self._script(order)}, {}


def well(order: Mapping[str, Any]) -> dict[str, Any]:
    times = [{"times_s": [0.1] * order["steps"], "begin_s": 0.0, "end_s": 1.0}]
    losses = [{"rank": 0, "losses": [2.0, 1.0]}] if order["parity_steps"] else []
    return answer(repeats=times * order["repeats"], losses=losses)


def run(
    folder: Path, script: Script = well, gpus: int = 2, torch: str = "2.13.0", **asked: Any
) -> tuple[TrainingRecord, list[tuple[str, str, int]], Scripted]:
    """Return the record, and strategy, leg and ranks of each order."""
    wanted = {"strategies": ("single", "ddp", "zero1"), "repeats": 2, "steps": 3, **asked}
    options = TrainingOptions(MODELS["tiny"], **wanted)
    members = Scripted(script, gpus, torch)
    recorder = Recorder(folder, ["a"], options)
    Bench(members, ("a",), options, recorder, lambda _: None).run()  # type: ignore[arg-type]
    recorder.finish({}, finished=True)
    record = read_training(folder)
    assert record is not None
    turns = [(order["strategy"], order["leg"], order["world"]) for order in members.asked]
    return record, turns, members


def test_legs_take_turns(tmp_path: Path) -> None:
    record, turns, members = run(tmp_path)
    legs = ["default", "p2p_off"] * 2
    assert turns == [
        ("single", "default", 1),
        *(("ddp", leg, 2) for leg in legs),
        *(("zero1", leg, 2) for leg in legs),
    ]
    assert {each.state for each in record.runs} == {"done"}
    assert {len(each.times_s) for each in record.runs} == {2}
    assert [order["parity_steps"] for order in members.asked[1:5]] == [4, 4, 0, 0]
    assert members.asked[0]["sequences"] == 4
    assert members.asked[0]["parity_sequences"] == 8


def test_a_leg_keeps_its_ranks_until_something_breaks(tmp_path: Path) -> None:
    def hangs(order: Mapping[str, Any]) -> dict[str, Any]:
        if (order["strategy"], order["leg"]) == ("ddp", "p2p_off"):
            return answer(state="hang", reason="silent", repeats=[], losses=[])
        return well(order)

    record, turns, members = run(tmp_path, hangs)
    assert turns.count(("ddp", "p2p_off", 2)) == 1
    states = {(each.strategy, each.leg): each.state for each in record.runs}
    assert states.pop(("ddp", "p2p_off")) == "hang"
    assert set(states.values()) == {"done"}
    launches = [order["launch"] for order in members.asked if order["leg"] == "default"][1:]
    assert launches[0] != launches[1] == launches[2] == launches[3]


def test_a_wrong_loss_has_no_further_turn_and_no_time(tmp_path: Path) -> None:
    def wrong(order: Mapping[str, Any]) -> dict[str, Any]:
        made = well(order)
        if order["strategy"] == "ddp":
            made["losses"] = [{"rank": 0, "losses": [2.0, 1.1]}]
        return made

    record, turns, _ = run(tmp_path, wrong)
    ddp = [each for each in record.runs if each.strategy == "ddp"]
    assert [each.state for each in ddp] == ["wrong_loss"] * 2
    assert not any(each.times_s for each in ddp)
    assert len([turn for turn in turns if turn[0] == "ddp"]) == 2


def test_without_a_loss_of_one_process_nothing_is_started(tmp_path: Path) -> None:
    def full(order: Mapping[str, Any]) -> dict[str, Any]:
        return answer(state="out_of_memory", reason="rank 0: 9 GiB", repeats=[], losses=[])

    record, turns, _ = run(tmp_path, full)
    assert turns == [("single", "default", 1)]
    assert {each.state for each in record.runs[1:]} == {"not_run"}
    words = "one process has no loss to compare with: out of memory: a: rank 0: 9 GiB"
    assert record.runs[1].reason == words


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"ranks": (4,)}, "4 ranks on a, which has 2 GPUs"),
        ({"global_batch": 12}, "a global batch of 12 is no multiple of 8"),
        ({"strategies": ("hsdp",)}, "HSDP takes 4 ranks or more"),
        ({"torch": "2.5.1", "strategies": ("zero3",)}, "torch 2.5: ZeRO-3 runs from 2.6 on"),
    ],
)
def test_what_does_not_fit_is_not_started(
    tmp_path: Path, asked: dict[str, Any], reason: str
) -> None:
    record, turns, _ = run(tmp_path, **asked)
    assert not [turn for turn in turns if turn[2] > 1]
    refused = [each for each in record.runs if each.state == "not_applicable"]
    assert refused
    assert all(each.reason.startswith(reason) for each in refused)


def test_without_gpus_there_is_one_leg(tmp_path: Path) -> None:
    record, turns, members = run(tmp_path, gpus=0, ranks=(2, 4), strategies=("ddp",))
    assert turns == [
        ("single", "default", 1),
        ("ddp", "default", 2),
        ("single", "default", 1),
        ("ddp", "default", 4),
    ]
    assert [order["repeats"] for order in members.asked] == [2] * 4
    alone = [(each.ranks, each.parity_sequences) for each in record.runs if each.strategy != "ddp"]
    assert alone == [(1, 8), (1, 16)]


def test_what_cannot_train_with_the_others_is_left_out() -> None:
    members = Scripted(well)
    members.ready = {
        "a": Ready("10.0.0.1", 4000, "eth0", 2),
        "b": Ready("10.0.0.2", 4000, "eth0", 0),
        "c": Ready("127.0.0.1", 4000, "lo", 2),
    }
    assert fit_together(members) == ("a",)  # type: ignore[arg-type]
    assert members.absent["b"].text == "it has no GPU, and others have"
    assert "loopback" in members.absent["c"].text


def test_the_control_is_trained_where_it_is_asked_for(tmp_path: Path) -> None:
    _, turns, _ = run(tmp_path, prove=True, strategies=("ddp",))
    assert ("ddp_over_tp", "default", 2) in turns


def test_hosts_by_themselves_have_a_set_each_and_one_that_is_stopped_is_said(
    tmp_path: Path,
) -> None:
    def stopped(order: Mapping[str, Any]) -> dict[str, Any]:
        raise RunStoppedError

    options = TrainingOptions(MODELS["tiny"], strategies=("single", "ddp"), repeats=1, steps=1)
    for script, finished in ((well, True), (stopped, False)):
        members: Any = Scripted(script)
        record = bench(members, tmp_path, options, together=False)
        assert [each.hosts for each in record.sets] == [("a",)]
        assert record.finished is finished
        assert read_training(tmp_path) == record


def test_without_gpus_what_was_not_named_is_small() -> None:
    options = TrainingOptions(MODELS["gpt2"], dtype="bf16", micro_batch=4)
    small = replace(options, named=("dtype",)).without_gpus()
    assert (small.model.name, small.dtype, small.tf32, small.micro_batch, small.legs) == (
        *("tiny", "bf16", False, 1, ("default",)),
    )
    assert (small.warmup, replace(options, named=("warmup",)).without_gpus().warmup) == (2, 10)
