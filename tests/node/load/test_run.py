"""run.py with a clock of its own: how a load begins, ends, and is ended."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.load_run import GpuWork
from hwcheck.contract.reasons import GPU_LOST, Reason
from hwcheck.contract.wire import Request
from hwcheck.node.load import sampler
from hwcheck.node.load.run import EXERCISE, Load, Times, orders, times, words
from hwcheck.node.load.sampler import Latest, Sampler
from hwcheck.node.load.spec import Target
from hwcheck.node.load_lock import BusyError
from hwcheck.node.nvml.reader import GpuLost
from hwcheck.testing.fake_gpu import FakeGpu

QUICK = Times(3.0, 20.0, 10.0)
WORK = (GpuWork("gpu0", "bf16", 8192, 1000), GpuWork("gpu1", "bf16", 8192, 1000))


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for every answer: this machine may be busy, and no GPU here is slow by chance."""
    monkeypatch.setattr(sampler, "ANSWER_S", 20.0)


class Bench:
    """Two GPUs, a burn and a clock: who waits lets time go on, and the sampler tick."""

    backend, library = "cuda", "torch 2.8.0"

    def __init__(self, heat: Callable[[float], float] = lambda at_s: 40.0) -> None:
        self.now_s, self.zero_s, self.end_s = 500.0, math.inf, math.inf
        self.heat = heat
        self.says: dict[str, Callable[[float], Mapping[str, float]]] = {}
        self.said: list[str] = []
        self.stops = 0
        self.ended_early = self.gave_up = ""
        self.stop_error: Exception | None = None
        self.gpus = [FakeGpu(index, {"temperature_slowdown_c": 90}) for index in range(2)]
        self.sampler = Sampler([Source(self, gpu.subject) for gpu in self.gpus], lambda: self.now_s)
        self.sampler.start = lambda: None  # type: ignore[method-assign]

    def at_s(self) -> float:
        return self.now_s - self.zero_s if self.zero_s < math.inf else -1.0

    def wait(self, seconds: float) -> None:
        self.sampler.tick()
        self.now_s += seconds

    def start(self) -> None:
        for _ in range(25):
            self.wait(0.2)  # torch is imported
        self.zero_s = self.now_s

    def give_up(self, why: Reason) -> None:
        self.gave_up = why

    def problem(self) -> str:
        return self.ended_early

    def stop(self) -> tuple[GpuWork, ...]:
        self.stops += 1
        self.end_s = self.now_s
        self.now_s += 0.5
        if self.stop_error:
            raise self.stop_error
        return WORK

    def load(self, times: Times = QUICK) -> Load:
        return Load(
            self.gpus, self, self.sampler, times, self.said.append, lambda: self.now_s, self.wait
        )


class Source:
    """One GPU of the bench."""

    def __init__(self, bench: Bench, subject: str) -> None:
        self.bench, self.subject = bench, subject

    def sample(self, depth: int) -> Mapping[str, float]:
        own = self.bench.says.get(self.subject, lambda at_s: {})(self.bench.at_s())
        heat = self.bench.heat(self.bench.at_s())
        return {"temperature_c": heat, "power_w": 350.0, "ecc_uncorrected": 2, **own}


def test_a_load_has_its_baseline_its_time_and_its_cool_down() -> None:
    bench = Bench()
    run = bench.load().run()
    assert (run.backend, run.library, run.work, run.stopped) == ("cuda", "torch 2.8.0", WORK, "")
    assert bench.stops == 1
    assert run.load_end_s == pytest.approx(20, abs=0.3)
    assert run.cool_end_s - run.load_end_s == pytest.approx(10, abs=0.3)
    # 3 s of idle before the 5 s in which torch is imported.
    assert run.series.time_s[0] == pytest.approx(-8.0)
    assert run.series.time_s[-1] == pytest.approx(run.cool_end_s, abs=0.3)
    assert set(run.series.columns) == {"gpu0", "gpu1"}
    assert run.settled_s is None, "20 s are too short to say"


def test_it_says_where_it_is() -> None:
    bench = Bench()
    bench.says["gpu1"] = lambda at_s: {"temperature_c": 71, "power_w": 690.0}
    bench.load().run()
    assert bench.said[0] == "load: starting"
    assert "load: 12 of 20 s, hottest gpu1 71 C, 1.0 kW" in bench.said
    assert len(bench.said) == 1 + 10


def test_a_load_of_hours_says_little() -> None:
    bench = Bench()
    bench.load(Times(0.0, 4000.0, 0.0)).run()
    assert 400 < len(bench.said) <= 502


def ends_at(bench: Bench, why: str) -> float:
    run = bench.load().run()
    assert why in run.stopped
    assert bench.stops == 1
    assert run.work == WORK
    assert run.cool_end_s - run.load_end_s == pytest.approx(10, abs=0.3)
    return run.load_end_s


def test_heat_ends_it_within_two_looks() -> None:
    bench = Bench(heat=lambda at_s: 40 + 6 * max(at_s, 0))
    assert ends_at(bench, "gpu0 reached 88 C, and slows down at 90 C") == pytest.approx(8, abs=0.5)


def test_just_below_the_margin_it_goes_on() -> None:
    run = Bench(heat=lambda at_s: 87.0).load().run()
    assert (run.stopped, round(run.load_end_s)) == ("", 20)


def test_memory_errors_end_it() -> None:
    bench = Bench()
    bench.says["gpu1"] = lambda at_s: {"ecc_uncorrected": 3 if at_s >= 6 else 2}
    end_s = ends_at(bench, "gpu1 has uncorrectable memory errors (1 more than before the load)")
    assert 6 <= end_s <= 7.5


def test_a_gpu_that_is_lost_ends_it() -> None:
    bench = Bench()

    def falls_off(at_s: float) -> Mapping[str, float]:
        if at_s >= 4:
            raise GpuLost("gpu1: temperature: GPU is lost")
        return {}

    bench.says["gpu1"] = falls_off
    assert ends_at(bench, "GPU is lost") == pytest.approx(4, abs=0.5)


def test_a_gpu_that_falls_silent_ends_it() -> None:
    bench = Bench()

    def silent(at_s: float) -> Mapping[str, float]:
        if at_s >= 4:
            raise CouldNotMeasure("gpu0: temperature: Unknown Error")
        return {}

    bench.says["gpu0"] = silent
    assert ends_at(bench, "gpu0 told NVML nothing for") == pytest.approx(9, abs=0.6)


def test_danger_before_the_load_is_no_load() -> None:
    bench = Bench(heat=lambda at_s: 89.0)
    with pytest.raises(CouldNotMeasure, match="the load was not begun: gpu0 reached 89 C"):
        bench.load().run()
    assert (bench.stops, bench.zero_s) == (0, math.inf)


def test_a_gpu_that_is_lost_before_the_load_is_why_there_is_none() -> None:
    bench = Bench()

    def gone(at_s: float) -> Mapping[str, float]:
        raise GpuLost("gpu0: GPU is lost", GPU_LOST)

    bench.says["gpu0"] = gone
    with pytest.raises(CouldNotMeasure) as raised:
        bench.load().run()
    assert raised.value.reason == Reason(GPU_LOST, "the load was not begun: gpu0: GPU is lost")


def in_use(until_s: float, percent: float = 97) -> Bench:
    """A bench whose gpu1 is in use until so long after its first look, by nobody that is named."""
    bench = Bench()
    begin_s = bench.now_s
    bench.says["gpu1"] = lambda at_s: {
        "utilization_percent": percent if bench.now_s < begin_s + until_s else 0
    }
    return bench


def test_a_gpu_in_use_by_nobody_that_is_named_is_not_loaded() -> None:
    bench = in_use(math.inf)
    wanted = "^gpu1 is 97 % in use by a process that draws, or that NVML does not name$"
    with pytest.raises(BusyError, match=wanted):
        bench.load().run()
    assert (bench.stops, bench.zero_s) == (0, math.inf)


def test_force_loads_it() -> None:
    bench = in_use(math.inf)
    load = Load(
        *(bench.gpus, bench, bench.sampler, QUICK, bench.said.append, lambda: bench.now_s),
        bench.wait,
        force=True,
    )
    assert load.run().work == WORK


@pytest.mark.parametrize(("until_s", "percent"), [(1.0, 97), (math.inf, 20)])
def test_what_fades_and_a_desktop_are_no_work(until_s: float, percent: float) -> None:
    assert in_use(until_s, percent).load().run().work == WORK


def test_danger_while_it_is_made_ready() -> None:
    class Slow(Bench):
        def start(self) -> None:
            super().start()
            self.sampler.tick()
            while not self.gave_up:  # another thread looks meanwhile
                self.sampler.tick()
            raise CouldNotMeasure.of(self.gave_up)

    bench = Slow(heat=lambda at_s: 40.0 if at_s < 0 else 95.0)
    with pytest.raises(CouldNotMeasure, match="the load was stopped: gpu0 reached 95 C"):
        bench.load().run()


def test_work_that_ends_by_itself_ends_the_load_and_is_no_danger() -> None:
    bench = Bench()

    def fails(at_s: float) -> Mapping[str, float]:
        bench.ended_early = "gpu1: out of memory" if at_s >= 7 else ""
        return {}

    bench.says["gpu0"] = fails
    run = bench.load().run()
    assert (run.stopped, run.work, bench.stops) == ("", WORK, 1)
    assert run.load_end_s == pytest.approx(7, abs=0.5)


def test_nobody_reads_any_more() -> None:
    bench = Bench()

    def gone(text: str) -> None:
        if text != "load: starting":
            raise BrokenPipeError

    load = Load(bench.gpus, bench, bench.sampler, QUICK, gone, lambda: bench.now_s, bench.wait)
    with pytest.raises(BrokenPipeError):
        load.run()
    assert bench.stops == 1, "the work has ended all the same"
    assert bench.sampler._ending.is_set()


def test_what_cannot_be_ended_after_a_danger_names_both() -> None:
    bench = Bench(heat=lambda at_s: 95.0 if at_s > 3 else 40.0)
    bench.stop_error = CouldNotMeasure("the child is stuck")
    with pytest.raises(CouldNotMeasure, match=r"stopped: gpu0 reached 95 C.*; the child is stuck"):
        bench.load().run()


UNTIL = Times(3.0, 180.0, 10.0, until_settled=True)


def test_standard_ends_when_the_heat_has_settled() -> None:
    bench = Bench(heat=lambda at_s: round(70 - 38 * math.exp(-max(at_s, 0) / 15)))
    run = bench.load(UNTIL).run()
    assert run.settled_s is not None
    assert 60 < run.settled_s < 130
    assert run.load_end_s == pytest.approx(run.settled_s, abs=0.3)
    assert "load: 12 of at most 180 s" in next(text for text in bench.said if " 12 of" in text)


def test_standard_ends_at_its_budget_where_nothing_settles() -> None:
    run = Bench(heat=lambda at_s: round(40 + at_s / 5)).load(UNTIL).run()
    assert (run.settled_s, run.stopped) == (None, "")
    assert run.load_end_s == pytest.approx(180, abs=0.3)


def test_a_burn_in_goes_on_and_says_when_it_had_settled() -> None:
    run = Bench().load(Times(3.0, 300.0, 1.0)).run()
    assert run.settled_s == pytest.approx(46, abs=3)
    assert run.load_end_s == pytest.approx(300, abs=0.3)


def test_the_times_of_a_request() -> None:
    assert times(Request("t", ()), 0) == EXERCISE
    assert times(Request("t", ()), 8) == Times(3.0, 20.0, 10.0)
    standard = times(Request("t", (), profile="standard", load_s=180), 8)
    assert standard == Times(3.0, 180.0, 30.0, until_settled=True)
    hours = times(Request("t", (), profile="burn_in", load_s=7200), 8)
    assert hours == Times(3.0, 7200.0, 60.0)


def test_the_burn_is_told_every_gpu_and_the_cpus_near_it() -> None:
    says: Any = {"uuid": "GPU-a", "cpu_affinity": "0-31"}
    gpus = [FakeGpu(0, says), FakeGpu(1, {"uuid": "GPU-b"})]
    spec = orders(Request("t", ()), gpus, 1 << 30)
    assert spec.gpus == (Target("gpu0", "GPU-a", "0-31"), Target("gpu1", "GPU-b", ""))
    assert spec.seconds > 20
    assert orders(Request("t", ()), (), 1 << 30).backend == "cpu"


def test_words_without_a_sensor() -> None:
    assert words(1.2, EXERCISE, {}) == "load: 1 of 3 s"
    quiet = Latest(0.0)
    assert words(1.2, QUICK, {"gpu0": quiet}) == "load: 1 of 20 s"
    quiet.values["power_w"] = 640.0
    assert words(1.2, QUICK, {"gpu0": quiet}) == "load: 1 of 20 s, 640 W"
