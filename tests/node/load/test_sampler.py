"""sampler.py: with GPUs that hang or are lost, and over the simulated NVML."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.reasons import NONE
from hwcheck.node.load import sampler as module
from hwcheck.node.load.sampler import OFTEN_TICKS, SELDOM_TICKS, Sampler
from hwcheck.node.nvml.reader import GpuLost
from hwcheck.node.nvml.samples import EACH, OFTEN, SELDOM
from tests.lab.scenario import load

pytestmark = pytest.mark.urgent
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for every answer: this machine may be busy, and no GPU here is slow by chance."""
    monkeypatch.setattr(module, "ANSWER_S", 20.0)


class Gpu:
    """Says what it is told to; hangs while ``hung`` is clear."""

    def __init__(self, index: int) -> None:
        self.subject = f"gpu{index}"
        self.says: Mapping[str, float] | Exception = {"temperature_c": 40 + index}
        self.depths: list[int] = []
        self.free = threading.Event()
        self.free.set()

    def sample(self, depth: int) -> Mapping[str, float]:
        self.depths.append(depth)
        assert self.free.wait(60)
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


class Clock:
    """Goes on by a tick of the sampler when told to."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def gpus() -> Iterator[list[Gpu]]:
    made = [Gpu(index) for index in range(4)]
    yield made
    for gpu in made:
        gpu.free.set()


def ticking(gpus: list[Gpu], clock: Callable[[], float] | None = None) -> Sampler:
    return Sampler(gpus, clock or Clock())


def test_a_row_has_what_every_gpu_said(gpus: list[Gpu]) -> None:
    sampler = ticking(gpus)
    sampler.tick()
    gpus[2].says = {"temperature_c": 50, "power_w": 300.0}
    sampler.tick()
    columns = sampler.series(1000.0).columns
    assert columns["gpu0"] == {"temperature_c": (40, 40)}
    assert columns["gpu2"] == {"temperature_c": (42, 50), "power_w": (None, 300.0)}
    assert sampler.latest()["gpu2"].values == {"temperature_c": 50, "power_w": 300.0}


def test_costly_questions_are_rare_and_take_turns(gpus: list[Gpu]) -> None:
    sampler, ticks = ticking(gpus), 2 * SELDOM_TICKS + 1
    for _ in range(ticks):
        sampler.tick()
    assert {gpu.depths[0] for gpu in gpus} == {OFTEN}, "the first asks for the counters"
    for gpu in gpus:
        assert gpu.depths.count(SELDOM) == 2
        often = [tick for tick, depth in enumerate(gpu.depths) if depth != EACH]
        assert all(b - a <= OFTEN_TICKS for a, b in pairwise(often))
    for tick in range(1, ticks):
        assert sum(gpu.depths[tick] == SELDOM for gpu in gpus) <= 1


def test_a_gpu_that_hangs_costs_only_itself(
    gpus: list[Gpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = Sampler(gpus)
    sampler.tick()
    monkeypatch.setattr(module, "ANSWER_S", 0.01)
    gpus[1].free.clear()
    sampler.tick()
    monkeypatch.setattr(module, "ANSWER_S", 20.0)
    before = sampler.latest()["gpu1"].at_s
    asked = len(gpus[1].depths)
    for line in sampler._lines[1:]:
        line.begin(lambda source: EACH)
        assert line.ended(20.0)
    monkeypatch.setattr(module, "ANSWER_S", 0.2)
    for _ in range(3):
        sampler.tick()
    columns = sampler.series(0).columns
    for other in ("gpu0", "gpu2", "gpu3"):
        assert columns[other]["temperature_c"][-3:] == (40 + int(other[3:]),) * 3
    assert columns["gpu1"]["temperature_c"][1:] == (None,) * 4
    assert sampler.latest()["gpu1"].at_s == before
    assert len(gpus[1].depths) == asked, "it is not asked again while its answer is awaited"
    monkeypatch.setattr(module, "ANSWER_S", 20.0)
    gpus[1].free.set()
    sampler.tick()
    sampler.tick()
    assert sampler.series(0).columns["gpu1"]["temperature_c"][-1] == 41
    assert sampler.latest()["gpu1"].at_s > before


def test_two_gpus_that_hang(gpus: list[Gpu], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.1)
    sampler = Sampler(gpus)
    gpus[0].free.clear()
    gpus[2].free.clear()
    told = sampler.latest()
    ticks = 0
    while not (told["gpu1"].values and told["gpu3"].values):
        sampler.tick()
        ticks += 1
        assert ticks < 50
    assert [name for name, own in told.items() if not own.values] == ["gpu0", "gpu2"]
    assert 43 in sampler.series(0).columns["gpu3"]["temperature_c"]


def test_a_lost_gpu_is_told_and_the_others_go_on(gpus: list[Gpu]) -> None:
    clock = Clock()
    sampler = ticking(gpus, clock)
    sampler.tick()
    gpus[3].says = GpuLost("gpu3: temperature: GPU is lost")
    gpus[0].says = CouldNotMeasure("gpu0: temperature: Unknown Error")
    clock.now_s += 7
    sampler.tick()
    told = sampler.latest()
    assert told["gpu3"].lost
    assert told["gpu3"].problem.text == "gpu3: temperature: GPU is lost"
    assert (told["gpu0"].lost, told["gpu0"].at_s) == (False, 1000.0)
    assert told["gpu1"].at_s == 1007.0
    gpus[0].says = {"temperature_c": 44}
    sampler.tick()
    assert (told["gpu0"].problem, told["gpu0"].at_s) == (NONE, 1007.0)


def test_the_thread_ends_and_does_not_wait_for_a_gpu_that_hangs(
    gpus: list[Gpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.02)
    gpus[0].free.clear()
    sampler = Sampler(gpus)
    sampler.start()
    sampler.stop()
    assert not sampler._thread.is_alive()


def test_without_gpus_there_is_nothing_to_sample() -> None:
    sampler = Sampler(())
    sampler.start()
    sampler.stop()
    assert (sampler.series(0).time_s, dict(sampler.latest())) == ((), {})


WATCH = """
import json, sys, time
from hwcheck.node.load.sampler import Sampler
from hwcheck.node.nvml.nvml import Nvml
sampler = Sampler(Nvml().sampled())
sampler.start()
time.sleep(float(sys.argv[1]))
sampler.stop()
series = sampler.series(0)
print(json.dumps({"time_s": series.time_s, "columns": series.columns}))
"""


@pytest.fixture
def node(tmp_path: Path) -> Callable[..., Any]:
    def watch(seconds: float, **nvml: Any) -> Any:
        scenario = load("h100x8")
        environment, _ = replace(scenario, nvml={**(scenario.nvml or {}), **nvml}).install(
            tmp_path / "node"
        )
        done = subprocess.run(
            [sys.executable, "-c", WATCH, str(seconds)],
            env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return watch


def gaps(times: list[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(times)]


def test_no_gap_with_a_driver_that_waits_for_the_chip(node: Callable[..., Any]) -> None:
    said = node(6.0, delay_ms=2)
    assert len(said["time_s"]) >= 6 * 4
    assert max(gaps(said["time_s"])) < 0.5
    own = said["columns"]["gpu7"]
    assert len(said["columns"]) == 8
    told = sum(value is not None for value in own["temperature_c"])
    assert told >= 0.8 * len(said["time_s"])
    assert set(own) >= {
        "power_w", "power_average_w", "temperature_c", "memory_temperature_c", "sm_clock_mhz",
        "memory_clock_mhz", "clock_events", "pcie_generation", "pcie_width",
        "utilization_percent", "ecc_uncorrected", "ecc_corrected", "pcie_replays",
    }  # fmt: skip


def test_one_gpu_of_a_driver_that_hangs(node: Callable[..., Any]) -> None:
    gpus = [dict(gpu) for gpu in (load("h100x8").nvml or {})["gpus"]]
    gpus[5]["hang"] = ["nvmlDeviceGetTemperature"]
    said = node(3.0, gpus=gpus)
    assert max(gaps(said["time_s"])) < 0.5
    assert "gpu5" not in said["columns"]
    for other in ("gpu0", "gpu6", "gpu7"):
        heat = said["columns"][other]["temperature_c"]
        assert sum(value is None for value in heat) <= 2
