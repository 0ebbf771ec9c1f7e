"""NVML over time: every GPU is read a few times a second, for as long as it is wanted."""

from __future__ import annotations

import threading
import time
from typing import (
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Protocol,
    Sequence,
    Tuple,
    Union,
)

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.load_run import Series
from hwcheck.contract.reasons import NONE
from hwcheck.node.load.rows import Rows
from hwcheck.node.nvml.reader import GpuLost
from hwcheck.node.nvml.samples import EACH, OFTEN, SELDOM
from hwcheck.node.threads import BackgroundCall, UnderWayError

PERIOD_S = 0.2
OFTEN_TICKS, SELDOM_TICKS = 5, 25
"""Counters once a second, PCIe throughput every 5 s; GPUs take turns, so that no tick is heavy."""
ANSWER_S = 0.15
"""How long a tick waits; a GPU that takes longer gets its answer into a later row."""
END_LIMIT_S = 1.0

Answer = Union[Mapping[str, float], CouldNotMeasure]


class SampleSource(Protocol):
    """What is needed of a GPU: ``nvml_samples.SampleReader`` has it."""

    @property
    def subject(self) -> str:
        """``gpu3``."""

    def sample(self, depth: int) -> Mapping[str, float]:
        """Return what it says now. Raises CouldNotMeasure, of it GpuLost."""


class Latest:
    """What one GPU told last: the newest value of each quantity, and when it told anything.

    ``problem`` is why its last reading failed, none while it answers; with ``lost`` it is gone.
    """

    def __init__(self, since_s: float) -> None:
        self.values: Dict[str, float] = {}
        self.at_s = since_s
        self.problem = NONE
        self.lost = False


class _GpuReader:
    """GPUs that are read one after the other, in a thread beside the sampler's."""

    def __init__(self, sources: Sequence[SampleSource]) -> None:
        self.sources = list(sources)
        self.at: Optional[SampleSource] = None
        self.cut = False
        self._answers: List[Tuple[str, Answer]] = []
        self._job: Optional[BackgroundCall] = None

    def begin(self, depth: Callable[[SampleSource], int]) -> None:
        """Begin a round, unless one is under way."""
        if self._job is None:
            self.cut = False
            self._job = BackgroundCall(
                self._read, [(source, depth(source)) for source in self.sources]
            )

    def ended(self, within_s: float) -> bool:
        """Return whether the round has ended, waiting so long for it."""
        if self._job is not None:
            try:
                self._job.result(within_s)
            except UnderWayError:
                return False
            self._job = None
        return True

    def answers(self) -> List[Tuple[str, Answer]]:
        """Return what came since the last call: subjects with values or what was raised."""
        answered = []
        while self._answers:
            answered.append(self._answers.pop(0))
        return answered

    def _read(self, orders: Sequence[Tuple[SampleSource, int]]) -> None:
        for source, depth in orders:
            self.at = source
            try:
                answer: Answer = source.sample(depth)
            except CouldNotMeasure as error:
                answer = error
            self._answers.append((source.subject, answer))
            if self.cut:
                return  # the others have a line of their own by now
        self.at = None


class Sampler:
    """Reads all GPUs a few times a second, from a thread of its own.

    They are read one after the other by a second thread: one thread each would cost more than the
    reading. A GPU that does not answer in time is left to that thread, and another takes over the
    rest: it costs only itself. ``now`` is a monotonic clock in seconds.
    """

    def __init__(
        self, sources: Sequence[SampleSource], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._places = {source.subject: place for place, source in enumerate(sources)}
        self._lines = [_GpuReader(sources)] if sources else []
        self._now = now
        self._rows = Rows()
        self._latest = {source.subject: Latest(now()) for source in sources}
        self._ticks = 0
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Sample from now on."""
        if self._lines:
            self._thread.start()

    def stop(self) -> None:
        """Sample no more. A GPU that hangs is not waited for."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(END_LIMIT_S)

    def latest(self) -> Mapping[str, Latest]:
        """Return what each GPU told last, by its subject."""
        return self._latest

    def hold(self) -> None:
        """Keep all samples of the next minute, however long it goes on: the work begins."""
        with self._lock:
            self._rows.hold()

    def series(self, zero_s: float) -> Series:
        """Return everything, times counted from ``zero_s`` of the clock."""
        with self._lock:
            return self._rows.series(zero_s)

    def last(self, seconds: float, quantities: Iterable[str], zero_s: float) -> Series:
        """Return the last so many seconds of these quantities."""
        with self._lock:
            return self._rows.last(seconds, quantities, zero_s)

    def tick(self) -> None:
        """Take one row."""
        started = self._now()
        for line in self._lines:
            line.begin(self._depth)
        self._ticks += 1
        for line in list(self._lines):
            if not line.ended(max(0.0, started + ANSWER_S - self._now())):
                self._leave_behind(line)
        row = dict(self._taken())
        with self._lock:
            self._rows.append(started, row)

    def _depth(self, source: SampleSource) -> int:
        place = self._places[source.subject]
        if self._ticks and (self._ticks + 3 * place) % SELDOM_TICKS == 0:
            return SELDOM
        # All of it the first time: counters are held against what they were before the load.
        return EACH if self._ticks and (self._ticks + place) % OFTEN_TICKS else OFTEN

    def _leave_behind(self, line: _GpuReader) -> None:
        stuck = line.at
        others = [source for source in line.sources if source is not stuck]
        if stuck is not None and others:
            line.cut, line.sources = True, [stuck]
            self._lines.append(_GpuReader(others))

    def _taken(self) -> Iterator[Tuple[str, Mapping[str, float]]]:
        for line in self._lines:
            for subject, answer in line.answers():
                latest = self._latest[subject]
                if isinstance(answer, CouldNotMeasure):
                    latest.problem, latest.lost = answer.reason, isinstance(answer, GpuLost)
                elif answer:
                    latest.values.update(answer)
                    latest.at_s, latest.problem, latest.lost = self._now(), NONE, False
                    yield subject, answer

    def _run(self) -> None:
        due = self._now()
        while not self._ending.wait(max(0.0, due - self._now())):
            self.tick()
            # After a stall go on from now: rows that are late are not made up for.
            due = max(due + PERIOD_S, self._now())
