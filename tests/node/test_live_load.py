"""What LiveNode loads: once, alone, and not while somebody works on the node."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from hwcheck.contract.check import CouldNotMeasure, Remedy, check
from hwcheck.contract.load_run import CollectiveRun, GpuWork
from hwcheck.contract.reasons import AT_WORK, NONE, Reason
from hwcheck.contract.wire import Leg, Sample
from hwcheck.node import live, load_lock
from hwcheck.node.live import LiveNode, Recorded
from hwcheck.node.load import launch, run
from hwcheck.node.load.run import Times
from hwcheck.node.load.spec import BurnSpec
from hwcheck.node.main import run_check
from hwcheck.node.node import Node
from hwcheck.node.together import launch as collective
from tests.node.live_nodes import ADDRESSES, live_node
from tests.node.roots import Root


class Burn:
    """A burn that is at work at once, or cannot be started."""

    backend = "cuda"
    made: ClassVar[list[Burn]] = []

    def __init__(self, spec: BurnSpec, python: str, payload: str) -> None:
        self.spec, self.library = spec, ""
        Burn.made.append(self)

    def start(self) -> None:
        with pytest.raises(load_lock.BusyError), load_lock.held():
            raise AssertionError("the load does not hold the lock")
        if self.spec.gpus[0].uuid == "GPU-none":
            raise CouldNotMeasure("no torch")
        self.library = "torch 2.8.0"

    def stop(self) -> tuple[GpuWork, ...]:
        return (GpuWork("gpu0", "bf16", 8192, 1000),)

    def problem(self) -> str:
        return ""

    def give_up(self, why: str) -> None:
        raise AssertionError(why)


Loading = Callable[..., LiveNode]


@pytest.fixture
def loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loading:
    root = Root(tmp_path)
    root.write("proc/meminfo", "MemAvailable: 4 kB\n")
    root.device(ADDRESSES[0])
    monkeypatch.setattr(Burn, "made", [])
    monkeypatch.setattr(launch, "Burn", Burn)
    monkeypatch.setattr(run, "times", lambda request, gpus: Times(0.0, 0.0, 0.0))

    def node(uuid: str, pids: Any = (), use: Any = 0, **request: Any) -> LiveNode:
        gpu = {"pci_address": ADDRESSES[0], "uuid": uuid, "mig_mode": None}
        gpu["utilization_percent"] = use
        return live_node(tmp_path, {"gpus": [{**gpu, "compute_processes": pids}]}, **request)

    return node


def test_the_load_runs_once_and_is_handed_on_once(loading: Loading) -> None:
    node, recorded = loading("GPU-aaaa"), list[Recorded]()
    node._recorded = recorded.append
    assert node.reported_under_load() is None
    load = node.load()
    assert node.load() is load
    assert recorded == [load]
    assert (len(Burn.made), load.work[0].products) == (1, 1000)
    assert Burn.made[0].spec.gpus[0].uuid == "GPU-aaaa"
    assert node.reported_under_load() is not None


def test_a_load_that_cannot_be_run_is_not_tried_again(
    loading: Loading,
) -> None:
    node, recorded = loading("GPU-none"), list[Recorded]()
    node._recorded = recorded.append
    for _ in range(2):
        with pytest.raises(CouldNotMeasure, match="no torch"):
            node.load()
    assert (len(Burn.made), recorded) == (1, [])
    assert node.reported_under_load() is None, "nothing was loaded"


def test_what_begins_after_the_load_takes_nothing_from_what_it_showed(loading: Loading) -> None:
    node = loading("GPU-aaaa")
    asked = check(metrics=[], remedy=Remedy("c", "f"), load=True)(products)
    first = run_check(asked, node)
    node._nvml = loading("GPU-aaaa", [7])._nvml
    assert node.busy() == "gpu0 is in use by process 7"
    with load_lock.held():
        second = run_check(asked, node)
    assert (first.state, second.state) == ("done", "done")
    assert first.samples == second.samples == (Sample("products", 1000),)


def products(node: Node) -> Iterator[Sample]:
    """Say what the load did."""
    yield Sample("products", sum(work.products for work in node.load().work))


def legs(node: Node) -> Iterator[Leg]:
    """Time a collective."""
    yield from node.legs("all_reduce")


@pytest.mark.parametrize("function", [products, legs])
@pytest.mark.parametrize("force", [False, True])
def test_only_force_loads_a_node_at_work(
    loading: Loading,
    monkeypatch: pytest.MonkeyPatch,
    function: Callable[[Node], Iterator[Sample | Leg]],
    force: bool,
) -> None:
    monkeypatch.setattr(collective, "run_legs", held_legs)
    node = loading("GPU-aaaa", [7], force=force)
    asked = check(metrics=[], remedy=Remedy("c", "f"), load=True)(function)
    result = run_check(asked, node)
    assert result.state == ("done" if force else "busy")
    busy = Reason(AT_WORK, "gpu0 is in use by process 7")
    assert result.reason == (NONE if force else busy)
    assert bool(result.samples or result.legs) == force
    assert (node.reported_under_load() is not None) == force
    with load_lock.held():  # it is free again
        result = run_check(asked, loading("GPU-aaaa", force=force))
    assert (result.state, result.samples, result.legs) == ("busy", (), ())
    assert result.reason == Reason(AT_WORK, "another hwcheck is loading this node")


def held_legs(*_: object) -> Iterator[Leg]:
    with pytest.raises(load_lock.BusyError), load_lock.held():
        raise AssertionError("the legs do not hold the lock")
    yield Leg("all_reduce", "default", "nccl", 2, "done")


def test_a_gpu_in_use_by_nobody_that_is_named_is_not_loaded(
    loading: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collective, "run_legs", held_legs)
    monkeypatch.setattr(load_lock, "TRAIL_S", 0.0)
    asked = check(metrics=[], remedy=Remedy("c", "f"), load=True)(legs)
    result = run_check(asked, loading("GPU-aaaa", use=97))
    assert result.state == "busy"
    assert (
        result.reason.text
        == "gpu0 is 97 % in use by a process that draws, or that NVML does not name"
    )
    assert run_check(asked, loading("GPU-aaaa", use=97, force=True)).state == "done"
    assert run_check(asked, loading("GPU-aaaa", use=20)).state == "done"


@pytest.fixture
def child() -> Iterator[int]:
    pid = os.fork()
    if pid == 0:
        signal.pause()
    yield pid
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.fixture
def stranger() -> Iterator[int]:
    with subprocess.Popen(["/bin/sleep", "600"], start_new_session=True) as process:
        yield process.pid
        process.kill()


def ended_pid() -> int:
    with subprocess.Popen(["/bin/true"]) as process:
        return process.pid


def test_processes_of_this_visit_that_are_still_leaving_are_waited_for(
    loading: Loading, monkeypatch: pytest.MonkeyPatch, child: int, stranger: int
) -> None:
    monkeypatch.setattr(collective, "run_legs", held_legs)
    monkeypatch.setattr(live, "LOOK_S", 0.0)
    asked = check(metrics=[], remedy=Remedy("c", "f"), load=True)(legs)

    def state(*answers: list[int], loaded: bool = True) -> str:
        node = loading("GPU-aaaa", pids={"then": list(answers)})
        node._loaded = loaded
        gpus = node.gpus()  # each answers one read after the other
        monkeypatch.setattr(node._nvml, "gpus", lambda: gpus)
        return str(run_check(asked, node).reason) or "idle"

    leaving = [[child, ended_pid()]] * 4
    assert state(*leaving, [child], []) == "idle"
    assert state(*leaving, [stranger], [stranger], []).startswith("gpu0 is in use by process")
    assert state([child], [], loaded=False) == f"gpu0 is in use by process {child}"
    monkeypatch.setattr(load_lock, "LEAVE_S", 0.0)
    assert state([child], []) == f"gpu0 is in use by process {child}"


def test_what_has_just_ended_may_fade(loading: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collective, "run_legs", held_legs)
    monkeypatch.setattr(live, "LOOK_S", 0.0)
    asked = check(metrics=[], remedy=Remedy("c", "f"), load=True)(legs)
    assert run_check(asked, loading("GPU-aaaa", use={"then": [99, 99, 3]})).state == "done"


def test_a_refused_load_is_refused_to_every_check(loading: Loading) -> None:
    node = loading("GPU-aaaa", [7])
    with pytest.raises(load_lock.BusyError, match="process 7"):
        node.load()
    node._nvml = loading("GPU-aaaa")._nvml
    assert node.busy() == ""
    with pytest.raises(load_lock.BusyError, match="process 7"):
        node.load()
    assert node.reported_under_load() is None


class Told:
    """A GPU that counts how often it was read."""

    subject = "gpu0"

    def __init__(self) -> None:
        self.twice = threading.Event()
        self.reads = 0

    def sample(self, depth: int) -> dict[str, float]:
        self.reads += 1
        if self.reads >= 2:
            self.twice.set()
        return {"power_w": 250.0, "depth": depth}


@pytest.mark.parametrize("state", ["done", "not_run"])
def test_nvml_is_read_through_the_collectives(
    loading: Loading, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    gpu = Told()

    def run_legs(*arguments: Any) -> Iterator[Leg]:
        yield Leg("all_reduce", "default", "nccl", 1, state)
        assert gpu.twice.wait(20)

    monkeypatch.setattr(collective, "run_legs", run_legs)
    node, recorded = loading("GPU-aaaa"), list[Recorded]()
    node._nvml.sampled = lambda: [gpu]  # type: ignore[method-assign,list-item,return-value]
    node._recorded = recorded.append
    assert node.collective_run() is None
    assert [leg.state for leg in node.legs("all_reduce")] == [state]
    if state == "not_run":
        assert (node.collective_run(), recorded) == (None, []), "nothing was run"
        return
    run = node.collective_run()
    assert isinstance(run, CollectiveRun)
    assert recorded == [run]
    assert set(run.series.columns["gpu0"]["power_w"]) == {250.0}
    assert 0 <= run.series.time_s[0] < run.series.time_s[1] <= run.end_s
    reads = gpu.reads
    list(node.legs("all_reduce"))
    assert gpu.reads == reads, "it has ended"
