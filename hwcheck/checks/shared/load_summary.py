"""What the checks of a load have in common: its steady part, and each GPU against its like."""

from __future__ import annotations

from statistics import median
from typing import (
    Callable,
    Counter,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from hwcheck.contract.check import CouldNotMeasure, Metric, NotApplicable
from hwcheck.contract.limits import AtLeast
from hwcheck.contract.load_run import Bits, CollectiveRun, Column, GpuWork, LoadRun, Series
from hwcheck.contract.reasons import COUNT_IN_DOUBT
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import of_boards, per_gpu
from hwcheck.node.node import Gpu, Node

LEAST_SAMPLES = 5

Points = List[Tuple[float, float]]
"""Times in seconds, as in the series, and the values that were told then."""


class Loaded:
    """One GPU of a load, and of the collectives before it where there were any."""

    def __init__(self, gpu: Gpu, run: LoadRun, before: Optional[CollectiveRun] = None) -> None:
        self.gpu = gpu
        self.run = run
        self.before = before
        self.subject = gpu.subject

    def work(self) -> GpuWork:
        """Return what the GPU did. Raises CouldNotMeasure where the load did not reach it."""
        for work in self.run.work:
            if work.subject == self.subject:
                return work
        raise CouldNotMeasure("%s: the load did not reach it" % self.subject)

    def figure(self, figure: Optional[float], name: str) -> float:
        """Return a figure of the work. Raises CouldNotMeasure, with the reason, for None."""
        if figure is None:
            why = self.work().reason or self.run.stopped or "it was not measured"
            raise CouldNotMeasure("%s: no %s: %s" % (self.subject, name, why))
        return figure

    def has(self, quantity: str) -> bool:
        """Whether this GPU tells the quantity at all."""
        return quantity in self._columns(self.run.series)

    def points(self, quantity: str, begin_s: float, end_s: float) -> Points:
        """Return samples from ``begin_s`` to ``end_s`` of the load, as they were told; or none."""
        return self._points(self.run.series, quantity, begin_s, end_s)

    def in_collectives(self, quantity: str) -> Points:
        """Return samples of the time in which the collectives ran; empty where none did."""
        if self.before is None:
            return []
        return self._points(self.before.series, quantity, 0.0, self.before.end_s)

    def bits(self, begin_s: float = 0.0) -> Bits:
        """Return how often each value of the clock-event bits was told, from then to the end.

        Raises CouldNotMeasure.
        """
        self._enough("clock_events", begin_s)
        return self._bits(self.run.series, begin_s, self.run.load_end_s)

    def bits_in_collectives(self) -> Bits:
        """Return the same of the collectives; empty where none ran."""
        return self._bits(self.before.series, 0.0, self.before.end_s) if self.before else {}

    def extreme(self, quantity: str, worst: Callable[[List[float]], float]) -> float:
        """Return the highest or the lowest (``max``, ``min``) under load. Raises CouldNotMeasure.

        No sample is left out, however long the load was.
        """
        self._enough(quantity, 0.0)
        column = self.run.series.columns[self.subject][quantity]
        points = self._samples(self.run.series, column, 0.0, self.run.load_end_s)
        return worst([value for _, value in points])

    def under_load(self, quantity: str) -> List[float]:
        """Return what was told from the begin of the load to its end. Raises CouldNotMeasure."""
        return self._enough(quantity, 0.0)

    def slowdown_margin_c(self) -> float:
        """Return how near it came to its slowdown threshold, as it says itself if it does.

        Raises CouldNotMeasure where the board gives none.
        """
        if self.has("thermal_margin_c"):
            return self.extreme("thermal_margin_c", min)
        return self.gpu.temperature_slowdown_c() - self.extreme("temperature_c", max)

    def steady(self, quantity: str) -> List[float]:
        """Return what was told in the steady part. Raises CouldNotMeasure where that is little.

        It begins where the temperatures had settled, and in the middle of the load at the latest.
        """
        return self._enough(quantity, self.steady_s)

    @property
    def steady_s(self) -> float:
        """When the steady part begins."""
        middle = self.run.load_end_s / 2
        settled = self.run.settled_s
        return middle if settled is None else min(settled, middle)

    def _enough(self, quantity: str, begin_s: float) -> List[float]:
        if not self.has(quantity):
            raise CouldNotMeasure("%s: %s: NVML does not tell it" % (self.subject, quantity))
        values = [value for _, value in self.points(quantity, begin_s, self.run.load_end_s)]
        if len(values) < LEAST_SAMPLES:
            words = "%s: %s: told %d times under load" % (self.subject, quantity, len(values))
            raise CouldNotMeasure("%s, %d are needed" % (words, LEAST_SAMPLES))
        return values

    def _points(self, series: Series, quantity: str, begin_s: float, end_s: float) -> Points:
        return self._samples(series, self._columns(series).get(quantity, ()), begin_s, end_s)

    def _samples(self, series: Series, column: Column, begin_s: float, end_s: float) -> Points:
        points = zip(series.time_s, column)  # noqa: B905 - Python 3.8
        return [(at_s, v) for at_s, v in points if v is not None and begin_s <= at_s <= end_s]

    def _bits(self, series: Series, begin_s: float, end_s: float) -> Bits:
        counts: Counter[int] = Counter()
        if self.subject in series.bits:
            for at_s, bits in zip(series.time_s, series.bits[self.subject]):  # noqa: B905
                if begin_s <= at_s <= end_s:
                    counts.update(bits)
        else:
            points = self._points(series, "clock_events", begin_s, end_s)
            counts.update(int(value) for _, value in points)
        return counts

    def _columns(self, series: Series) -> Mapping[str, Column]:
        return (series.typical or series.columns).get(self.subject, {})


def load_of(node: Node) -> LoadRun:
    """Return the load of this visit. Raises CouldNotMeasure, also where it was no GPU's."""
    run = node.load()
    if run.exercise:
        words = "the load ran on %s, which says nothing about GPUs" % run.backend
        raise CouldNotMeasure(words, COUNT_IN_DOUBT)
    return run


def per_loaded_gpu(node: Node, read: Callable[[Loaded], Iterator[Sample]]) -> Iterator[Sample]:
    """Yield what ``read`` yields for each GPU of the node; see ``per_gpu``."""
    run, before = load_of(node), node.collective_run()
    yield from per_gpu(node, lambda gpu: read(Loaded(gpu, run, before)))


def per_loaded_board(node: Node, read: Callable[[Loaded], Iterator[Sample]]) -> Iterator[Sample]:
    """Yield what ``read`` yields for each GPU but vGPUs; see ``of_boards``."""
    run, before = load_of(node), node.collective_run()
    yield from of_boards(node, lambda gpu: read(Loaded(gpu, run, before)))


class FigureOfKind(NamedTuple):
    """A figure of one GPU; GPUs of one ``kind`` (model and PCI ids) are alike."""

    subject: str
    kind: str
    value: float


def kinds(node: Node, of_boards: bool = True) -> Dict[str, str]:
    """Return the kind of each GPU by its subject; one that does not say is the only one of its.

    Without ``of_boards`` it is that of the chips: whoever made the board, they compute alike.
    """
    by_subject = {}
    for gpu in node.gpus():
        try:
            ids = gpu.board_id()
            by_subject[gpu.subject] = "%s %s" % (gpu.name(), ids if of_boards else ids.split()[0])
        except CouldNotMeasure:
            by_subject[gpu.subject] = gpu.subject
    return by_subject


def usual(
    figure: FigureOfKind, figures: Sequence[FigureOfKind], with_itself: bool = False
) -> Optional[float]:
    """Return the median of the other GPUs of its kind, None where there are none.

    ``with_itself`` it is that of all of the kind: where two halves of a node differ by their place,
    the middle of the others would lie in the other half.
    """
    alike = [one for one in figures if one.kind == figure.kind]
    others = [one for one in alike if one.subject != figure.subject]
    return median(one.value for one in (alike if with_itself else others)) if others else None


def with_peers(
    node: Node,
    read: Callable[[Loaded], Iterator[Sample]],
    metric: str,
    compare: Callable[[FigureOfKind, float], Sample],
    with_itself: bool = False,
) -> Iterator[Sample]:
    """Yield what ``read`` yields for each GPU but vGPUs, then ``metric`` against its peers.

    ``compare`` makes the sample of a GPU's figure and of what is ``usual`` in the node; a GPU that
    has no such peer gives none. Raises what ``of_boards`` raises.
    """
    kind, figures, problem = kinds(node), [], None
    try:
        for sample in per_loaded_board(node, read):
            yield sample
            if sample.metric == metric:
                figure = FigureOfKind(sample.subject, kind[sample.subject], float(sample.value))
                figures.append(figure)
    except CouldNotMeasure as error:
        problem = error
    for figure in figures:
        median_of_others = usual(figure, figures, with_itself)
        if median_of_others is not None:
            yield compare(figure, median_of_others)
    if problem is not None:
        raise problem


def among_peers(
    node: Node,
    read: Callable[[Loaded], Iterator[Sample]],
    metric: str,
    compare: Callable[[FigureOfKind, float], Sample],
    with_itself: bool = False,
) -> Iterator[Sample]:
    """Yield what ``with_peers`` does. Raises NotApplicable where no GPU has a peer."""
    compared = set()

    def counted(figure: FigureOfKind, of_peers: float) -> Sample:
        compared.add(figure.subject)
        return compare(figure, of_peers)

    yield from with_peers(node, read, metric, counted, with_itself)
    if not compared:
        raise NotApplicable("no two GPUs of this node are of one kind")


def percent(metric: str) -> Callable[[FigureOfKind, float], Sample]:
    """Return the comparison that says how many % of its peers' figure a GPU has."""

    def compare(figure: FigureOfKind, of_peers: float) -> Sample:
        share = 100.0 * figure.value / of_peers if of_peers else 100.0
        return Sample(metric, round(share, 1), "%", figure.subject)

    return compare


def peers_metric(
    name: str, meaning: str, source: str, warn: float, fail: Optional[float] = None
) -> Metric:
    """Return the metric that ``percent`` makes, with its limits in %."""
    of = "%s, in %% of the median of the node's other GPUs of its kind" % meaning
    limit = AtLeast(source, fail=fail, warn=warn, confidence="derived")
    return Metric(name, "%", of, (limit,))


def share_percent(bits: Bits, wanted: Callable[[int], bool]) -> float:
    """Return in how many % of the samples (not empty) ``wanted`` holds of the bits."""
    held = sum(count for value, count in bits.items() if wanted(value))
    return round(100.0 * held / sum(bits.values()), 1)
