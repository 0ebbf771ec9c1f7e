"""The loops over the GPUs of a node, and over what else it has several of.

What cannot be read costs only itself.
"""

from __future__ import annotations

from typing import (
    Callable,
    Dict,
    Generic,
    Hashable,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Tuple,
    TypeVar,
    Union,
)

from hwcheck.contract.check import CouldNotMeasure, NotApplicable
from hwcheck.contract.reasons import NOT_IDLE, NOT_MEASURED, Reason, together
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Gpu, Node
from hwcheck.node.threads import side_by_side

A = TypeVar("A")
T = TypeVar("T", bound=Hashable)

NO_GPU = Reason(NOT_MEASURED, "NVML sees no GPU")


IDLE_UTILIZATION_PERCENT = 5
"""Monitoring agents make short kernels show as a few percent."""


def per_gpu(node: Node, read: Callable[[Gpu], Iterator[Sample]]) -> Iterator[Sample]:
    """Yield what ``read`` yields for each GPU, in order. The GPUs are read at the same time.

    A ``read`` that raises CouldNotMeasure keeps what it yielded until then. Raises
    CouldNotMeasure at the end, with the reason of every GPU that could not be measured, and when
    NVML sees no GPU at all.
    """
    gpus = node.gpus()
    if not gpus:
        raise CouldNotMeasure.of(NO_GPU)

    def of(gpu: Gpu) -> Tuple[List[Sample], Optional[Exception]]:
        samples: List[Sample] = []
        try:
            for sample in read(gpu):
                samples.append(sample)
        except Exception as error:  # raised below, after what came before it
            return samples, error
        return samples, None

    reasons = []
    for samples, error in side_by_side(of, gpus):
        yield from samples
        if isinstance(error, CouldNotMeasure):
            reasons.append(error.reason)
        elif error is not None:
            raise error
    if reasons:
        raise CouldNotMeasure.of(together(reasons))


def one_by_one(items: Iterable[A], read: Callable[[A], Iterator[Sample]]) -> Iterator[Sample]:
    """Yield what ``read`` yields for each item, in order.

    Raises CouldNotMeasure at the end, with the reason of every item that could not be measured.
    """
    reasons = []
    for item in items:
        try:
            yield from read(item)
        except CouldNotMeasure as error:
            reasons.append(error.reason)
    if reasons:
        raise CouldNotMeasure.of(together(reasons))


def where_supported(
    node: Node, read: Callable[[Gpu], Iterator[Sample]], missing: str
) -> Iterator[Sample]:
    """Yield what ``read`` yields for each GPU; one that does not have the thing yields nothing.

    Raises NotApplicable with ``missing`` where no GPU has it, and what ``per_gpu`` raises.
    """
    supported = False
    for sample in per_gpu(node, read):
        supported = True
        yield sample
    if not supported:
        raise NotApplicable(missing)


NO_VGPU = "GPUs that are no vGPU"
"""What checks of what only a board has name as optional."""
UP_NVLINKS = "of NVLinks that are up, which are counted"
"""Why some of the GPUs of one kind have a metric of NVLinks alone."""


def of_boards(node: Node, read: Callable[[Gpu], Iterator[Sample]]) -> Iterator[Sample]:
    """Yield what ``read`` yields for each GPU but vGPUs; raises as ``where_supported`` does.

    A vGPU is a share of a board that stays with the host: the guest is shown neither the board's
    sensors nor its limits and links, and the host says how fast it is.
    """

    def unless_vgpu(gpu: Gpu) -> Iterator[Sample]:
        if not is_vgpu(gpu):
            yield from read(gpu)

    missing = "sensors, limits, links and speed of a vGPU are those that its host gives it"
    yield from where_supported(node, unless_vgpu, missing)


def is_vgpu(gpu: Gpu) -> bool:
    """Return whether the GPU is a guest's share of a board. Raises CouldNotMeasure."""
    return gpu.virtualization_mode() == "vgpu"


def mig_is_on(gpu: Gpu) -> bool:
    """Return whether the GPU is split into instances. Raises CouldNotMeasure."""
    mode = gpu.mig_mode()
    return mode is not None and mode.current


def need_idle(gpu: Gpu) -> None:
    """Raise CouldNotMeasure where somebody computes on the GPU."""
    pids = gpu.compute_processes()
    if pids:
        words = "%s is not idle: process %d uses it" % (gpu.subject, pids[0])
        raise CouldNotMeasure(words, NOT_IDLE)
    utilization = _utilization_percent(gpu)
    if utilization > IDLE_UTILIZATION_PERCENT:
        words = "%s is not idle: %d %% utilization" % (gpu.subject, utilization)
        raise CouldNotMeasure(words, NOT_IDLE)


def _utilization_percent(gpu: Gpu) -> int:
    try:
        return gpu.utilization_percent()
    except CouldNotMeasure:
        if not mig_is_on(gpu):
            raise
        return 0  # with MIG on NVML tells none; a GPU that nobody has open does nothing


def majority(values: List[T]) -> T:
    """Return the value that most have; of equally many, the first. The list is not empty."""
    counts: Dict[T, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return max(counts, key=lambda value: counts[value])


class Survey(Generic[A]):
    """One question put to every GPU at the same time, for checks that compare the answers.

    ``answers`` holds who answered and what, in order. A GPU for which ``ask`` returns None does
    not have the thing.
    """

    def __init__(self, node: Node, ask: Callable[[Gpu], Optional[A]]) -> None:
        self.answers: List[Tuple[Gpu, A]] = []
        self._reasons: List[Reason] = []
        gpus = node.gpus()
        if not gpus:
            self._reasons.append(NO_GPU)

        def of(gpu: Gpu) -> Tuple[Gpu, Union[A, CouldNotMeasure, None]]:
            try:
                return gpu, ask(gpu)
            except CouldNotMeasure as error:
                return gpu, error

        for gpu, answer in side_by_side(of, gpus):
            if isinstance(answer, CouldNotMeasure):
                self._reasons.append(answer.reason)
            elif answer is not None:
                self.answers.append((gpu, answer))

    def conclude(self, missing: str) -> None:
        """End the check: call it after the samples.

        Raises CouldNotMeasure with the reason of every GPU that could not be asked, and
        NotApplicable with ``missing`` where no GPU has the thing.
        """
        if self._reasons:
            raise CouldNotMeasure.of(together(self._reasons))
        if not self.answers:
            raise NotApplicable(missing)


class AnswerOfKind(NamedTuple):
    """What one board answers; boards of one ``kind`` (model and PCI ids) should answer alike."""

    subject: str
    kind: str
    answer: str


def of_kind(gpu: Gpu, answer: str) -> AnswerOfKind:
    """Return an answer with the kind of board that gave it. Raises CouldNotMeasure."""
    return AnswerOfKind(gpu.subject, "%s %s" % (gpu.name(), gpu.board_id()), answer)


def among_equals(metric: str, answers: List[AnswerOfKind]) -> Iterator[Sample]:
    """Yield each answer as ``metric`` and, as ``<metric>_of_most``, that of most of its kind."""
    for one in answers:
        alike = [other.answer for other in answers if other.kind == one.kind]
        yield Sample(metric, one.answer, "", one.subject)
        yield Sample(metric + "_of_most", majority(alike), "", one.subject)


def middle(counts: List[int]) -> float:
    """Return the median of one or more counts."""
    # Not that of ``statistics``, which takes longer to import than a check takes to run.
    ordered, half = sorted(counts), len(counts) // 2
    return (ordered[half] + ordered[~half]) / 2
