"""The loop over the GPUs of a node: one that does not answer costs only itself."""

from __future__ import annotations

from typing import Callable, Iterator

from hwcheck.node.check import CouldNotMeasure, Gpu, Node
from hwcheck.wire import Sample


def per_gpu(node: Node, read: Callable[[Gpu], Iterator[Sample]]) -> Iterator[Sample]:
    """Yield what ``read`` yields for each GPU.

    A ``read`` that raises CouldNotMeasure keeps what it yielded until then. Raises
    CouldNotMeasure at the end, with the reason of every GPU that could not be measured, and when
    NVML sees no GPU at all.
    """
    gpus = node.gpus()
    if not gpus:
        raise CouldNotMeasure("NVML sees no GPU")
    reasons = []
    for gpu in gpus:
        try:
            yield from read(gpu)
        except CouldNotMeasure as error:
            reasons.append(str(error))
    if reasons:
        raise CouldNotMeasure("; ".join(reasons))
