"""The loop over what a node has several of, other than GPUs: what cannot be read costs itself."""

from __future__ import annotations

from typing import Callable, Iterable, Iterator, TypeVar

from hwcheck.node.check import CouldNotMeasure
from hwcheck.node.wire import Sample

T = TypeVar("T")


def one_by_one(items: Iterable[T], read: Callable[[T], Iterator[Sample]]) -> Iterator[Sample]:
    """Yield what ``read`` yields for each item, in order.

    Raises CouldNotMeasure at the end, with the reason of every item that could not be measured.
    """
    reasons = []
    for item in items:
        try:
            yield from read(item)
        except CouldNotMeasure as error:
            reasons.append(str(error))
    if reasons:
        raise CouldNotMeasure("; ".join(dict.fromkeys(reasons)))
