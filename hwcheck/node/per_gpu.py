"""The loop over the GPUs of a node: one that does not answer costs only itself."""

from __future__ import annotations

from typing import Callable, Iterator, List, Optional, Tuple

from hwcheck.node.check import CouldNotMeasure, Gpu, Node
from hwcheck.node.side_by_side import side_by_side
from hwcheck.node.wire import Sample


def per_gpu(node: Node, read: Callable[[Gpu], Iterator[Sample]]) -> Iterator[Sample]:
    """Yield what ``read`` yields for each GPU, in order. The GPUs are read at the same time.

    A ``read`` that raises CouldNotMeasure keeps what it yielded until then. Raises
    CouldNotMeasure at the end, with the reason of every GPU that could not be measured, and when
    NVML sees no GPU at all.
    """
    gpus = node.gpus()
    if not gpus:
        raise CouldNotMeasure("NVML sees no GPU")

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
            reasons.append(str(error))
        elif error is not None:
            raise error
    if reasons:
        raise CouldNotMeasure("; ".join(reasons))
