"""Checks of what only some GPUs have, and of what all GPUs of a node should share."""

from __future__ import annotations

from typing import (
    Callable,
    Dict,
    Generic,
    Hashable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Tuple,
    TypeVar,
    Union,
)

from hwcheck.node.check import CouldNotMeasure, Gpu, Node, NotApplicable
from hwcheck.node.per_gpu import per_gpu
from hwcheck.node.side_by_side import side_by_side
from hwcheck.node.wire import Sample

A = TypeVar("A")
T = TypeVar("T", bound=Hashable)


def where_supported(
    node: Node, read: Callable[[Gpu], Iterator[Sample]], missing: str
) -> Iterator[Sample]:
    """Yield what ``read`` yields for each GPU; one that does not have the thing yields nothing.

    Raises NotApplicable with ``missing`` where no GPU has it, and what ``per_gpu`` raises.
    """
    found = False
    for sample in per_gpu(node, read):
        found = True
        yield sample
    if not found:
        raise NotApplicable(missing)


def mig_is_on(gpu: Gpu) -> bool:
    """Return whether the GPU is split into instances. Raises CouldNotMeasure."""
    mode = gpu.mig_mode()
    return mode is not None and mode.current


def majority(values: List[T]) -> T:
    """Return the value that most have; of equally many, the first. The list is not empty."""
    counts: Dict[T, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return max(counts, key=lambda value: counts[value])


class Survey(Generic[A]):
    """One question put to every GPU at the same time, for checks that compare the answers.

    ``found`` holds who answered and what, in order. A GPU for which ``ask`` returns None does
    not have the thing.
    """

    def __init__(self, node: Node, ask: Callable[[Gpu], Optional[A]]) -> None:
        self.found: List[Tuple[Gpu, A]] = []
        self._reasons: List[str] = []
        gpus = node.gpus()
        if not gpus:
            self._reasons.append("NVML sees no GPU")

        def of(gpu: Gpu) -> Tuple[Gpu, Union[A, CouldNotMeasure, None]]:
            try:
                return gpu, ask(gpu)
            except CouldNotMeasure as error:
                return gpu, error

        for gpu, answer in side_by_side(of, gpus):
            if isinstance(answer, CouldNotMeasure):
                self._reasons.append(str(answer))
            elif answer is not None:
                self.found.append((gpu, answer))

    def conclude(self, missing: str) -> None:
        """End the check: call it after the samples.

        Raises CouldNotMeasure with the reason of every GPU that could not be asked, and
        NotApplicable with ``missing`` where no GPU has the thing.
        """
        if self._reasons:
            raise CouldNotMeasure("; ".join(self._reasons))
        if not self.found:
            raise NotApplicable(missing)


class OfKind(NamedTuple):
    """What one board answers; boards of one ``kind`` (model and PCI ids) should answer alike."""

    subject: str
    kind: str
    answer: str


def of_kind(gpu: Gpu, answer: str) -> OfKind:
    """Return an answer with the kind of board that gave it. Raises CouldNotMeasure."""
    return OfKind(gpu.subject, "%s %s" % (gpu.name(), gpu.board_id()), answer)


def among_equals(metric: str, answers: List[OfKind]) -> Iterator[Sample]:
    """Yield each answer as ``metric`` and, as ``<metric>_of_most``, that of most of its kind."""
    for own in answers:
        alike = [other.answer for other in answers if other.kind == own.kind]
        yield Sample(metric, own.answer, "", own.subject)
        yield Sample(metric + "_of_most", majority(alike), "", own.subject)
