"""One load of the node: burn and sampler together, an end for safety's sake, the cool-down."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from statistics import median
from typing import Callable, Mapping, Optional, Protocol, Sequence, Tuple

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.load_run import GpuWork, LoadRun
from hwcheck.contract.reasons import NONE, Reason
from hwcheck.contract.wire import Request
from hwcheck.node import load_lock
from hwcheck.node.affinity import near_cpus
from hwcheck.node.load.safety import SILENCE_LIMIT_S, START_SILENCE_LIMIT_S, Guard, Limited
from hwcheck.node.load.sampler import Latest, Sampler
from hwcheck.node.load.settle import QUANTITIES, WINDOW_S, settled
from hwcheck.node.load.spec import BurnSpec, Target
from hwcheck.node.node import Gpu

SLACK_S = 120.0
"""The burn is ended from here; by itself it would end so much later."""
LOOK_S = 0.2
SETTLE_LOOK_S = 2.0
USE_S = 2.5
"""Twice or three times the use of a GPU is read within it."""
SAY_EVERY_S, SAY_AT_MOST = 2.0, 500
"""A load of hours says where it is less often: all it says shall stay far below what is read."""


class RunningBurn(Protocol):
    """The work: ``launch.Burn`` has it."""

    @property
    def backend(self) -> str:
        """``cuda`` or ``cpu``."""

    @property
    def library(self) -> str:
        """Name and version of what does the products."""

    def start(self) -> None:
        """Put every GPU to work; return when all are at work. Raises CouldNotMeasure."""

    def stop(self) -> Tuple[GpuWork, ...]:
        """End the work and return what was done. Raises CouldNotMeasure."""

    def give_up(self, why: Reason) -> None:
        """Let ``start``, under way in another thread, end the work and raise ``why``."""

    def problem(self) -> str:
        """Return why it or a part of it ended by itself, or an empty text."""


@dataclass(frozen=True)
class Times:
    """Seconds before the load, of the load, and of the cool-down.

    With ``until_settled`` the load ends as soon as the temperatures have settled; ``load_s`` is
    then the most that it takes.
    """

    baseline_s: float
    load_s: float
    cool_s: float
    until_settled: bool = False


EXERCISE = Times(0.0, 3.0, 1.0)
"""On a node without GPUs: the code runs, nothing is measured."""
BASELINE_S = 3.0
COOL_S = {"quick": 10.0, "standard": 30.0, "burn_in": 60.0}


def times(request: Request, gpus: int) -> Times:
    """Return what a request means for a node with so many GPUs."""
    if not gpus:
        return EXERCISE
    cool_s = COOL_S.get(request.profile, COOL_S["quick"])
    return Times(BASELINE_S, request.load_s, cool_s, request.profile == "standard")


def orders(request: Request, gpus: Sequence[Gpu], memory_available_bytes: int) -> BurnSpec:
    """Return what the burn is told; without GPUs it exercises the CPU. Raises CouldNotMeasure."""
    targets = tuple(Target(gpu.subject, gpu.uuid(), near_cpus(gpu)) for gpu in gpus)
    seconds = times(request, len(gpus)).load_s + SLACK_S
    return BurnSpec(targets, seconds, request.load_dtype, memory_available_bytes)


class Load:
    """One load; ``run`` it once. ``now`` is a monotonic clock, ``wait`` waits so many seconds."""

    def __init__(
        self,
        gpus: Sequence[Limited],
        burn: RunningBurn,
        sampler: Sampler,
        times: Times,
        progress: Callable[[str], None],
        now: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
        force: bool = False,
    ) -> None:
        self._burn, self._sampler, self._times = burn, sampler, times
        self._guard = Guard(gpus)
        self._progress, self._now, self._wait, self._force = progress, now, wait, force
        self._zero_s = self._next_word_s = self._next_settle_s = 0.0
        self._settled_s: Optional[float] = None
        self._stopped = NONE

    def run(self) -> LoadRun:
        """Load the node; whatever is raised, the work has ended then.

        Raises CouldNotMeasure, and BusyError where a GPU turns out to be in use.
        """
        self._sampler.start()
        try:
            self._baseline()
            self._progress("load: starting")
            self._start()
            self._zero_s = self._now()
            self._sampler.hold()
            work, load_end_s = self._work()
            self._pause(load_end_s + self._times.cool_s)
        finally:
            self._sampler.stop()
        return LoadRun(
            backend=self._burn.backend,
            library=self._burn.library,
            work=work,
            series=self._sampler.series(self._zero_s),
            load_end_s=load_end_s - self._zero_s,
            cool_end_s=self._now() - self._zero_s,
            settled_s=self._settled_s,
            stopped=self._stopped.text,
        )

    def _baseline(self) -> None:
        self._pause(self._now() + self._times.baseline_s)
        why = self._danger()
        if why:
            raise CouldNotMeasure.of(why.about("the load was not begun"))
        columns = self._sampler.last(USE_S, ("utilization_percent",), 0.0).columns
        for subject in () if self._force else columns:
            use = [
                each for column in columns[subject].values() for each in column if each is not None
            ]
            if use and median(use) > load_lock.IDLE_PERCENT:
                raise load_lock.BusyError(load_lock.IN_USE % (subject, median(use)))

    def _start(self) -> None:
        """Start the burn: some GPUs are at work while others are still made ready."""
        started = threading.Event()
        watch = threading.Thread(target=self._watch_start, args=(started,), daemon=True)
        watch.start()
        try:
            self._burn.start()
        finally:
            started.set()
            watch.join()

    def _watch_start(self, started: threading.Event) -> None:
        while not started.wait(LOOK_S):
            why = self._danger(START_SILENCE_LIMIT_S)
            if why:
                self._burn.give_up(why.about("the load was stopped"))
                return

    def _work(self) -> Tuple[Tuple[GpuWork, ...], float]:
        """Watch until the load ends; return the work, and when it ended."""
        try:
            while not self._ended():
                self._wait(LOOK_S)
        finally:
            load_end_s = self._now()
            work = self._end()
        return work, load_end_s

    def _ended(self) -> bool:
        at_s = self._now() - self._zero_s
        self._stopped = self._danger()
        if self._stopped or self._burn.problem() or at_s >= self._times.load_s:
            return True
        if at_s >= self._next_word_s:
            self._next_word_s = at_s + max(SAY_EVERY_S, self._times.load_s / SAY_AT_MOST)
            self._progress(words(at_s, self._times, self._sampler.latest()))
        if self._settled_s is None and at_s >= self._next_settle_s:
            self._next_settle_s = at_s + SETTLE_LOOK_S
            window = self._sampler.last(WINDOW_S + 1.0, QUANTITIES, self._zero_s)
            if settled(window, at_s):
                self._settled_s = at_s
        return self._times.until_settled and self._settled_s is not None

    def _end(self) -> Tuple[GpuWork, ...]:
        try:
            return self._burn.stop()
        except CouldNotMeasure as error:
            if not self._stopped:
                raise
            stopped = self._stopped.about("the load was stopped")
            raise CouldNotMeasure("%s; %s" % (stopped, error), stopped.code) from None

    def _danger(self, silence_limit_s: float = SILENCE_LIMIT_S) -> Reason:
        return self._guard.danger(self._sampler.latest(), self._now(), silence_limit_s)

    def _pause(self, end_s: float) -> None:
        while self._now() < end_s:
            self._wait(min(LOOK_S, end_s - self._now()))


def words(at_s: float, times: Times, latest: Mapping[str, Latest]) -> str:
    """Return where a load is, in one line."""
    end = "at most %.0f s" if times.until_settled else "%.0f s"
    parts = ["load: %.0f of %s" % (at_s, end % times.load_s)]
    heat = {subject: sample.values.get("temperature_c") for subject, sample in latest.items()}
    temperatures = {subject: value for subject, value in heat.items() if value is not None}
    if temperatures:
        hottest = max(temperatures, key=lambda subject: temperatures[subject])
        parts.append("hottest %s %.0f C" % (hottest, temperatures[hottest]))
    power_w = sum(sample.values.get("power_w", 0.0) for sample in latest.values())
    if power_w:
        parts.append("%.1f kW" % (power_w / 1e3) if power_w >= 1e3 else "%.0f W" % power_w)
    return ", ".join(parts)
