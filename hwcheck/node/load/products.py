"""Matrix products sized to the chip, each compared bit for bit with the first of its kind."""

from __future__ import annotations

import hashlib
from itertools import cycle
from typing import Any, List, Tuple

from hwcheck.node.torch_runtime import torch

SEED = 20
PAIRS = 2
BATCH_S = 0.1
LEAST_BATCH, BATCH = 2, 32  # products that are queued at once: as many as take BATCH_S
LEAST_SIZE = 256

# A product of large matrices is cut into tiles, one processor each at a time. Below a dozen rounds
# of the whole chip the last, partly filled round costs several percent.
TILE_ELEMENTS = 128 * 256
ROUNDS = 12
MATRICES = 3 * PAIRS + 2  # two factors and the first product; a product and its comparison
MEMORY_SHARE = 0.5

FORMATS = {  # type, bytes
    "bf16": (torch.bfloat16, 2),
    "fp16": (torch.float16, 2),
    "tf32": (torch.float32, 4),
    "fp32": (torch.float32, 4),
}


def size_for(device: Any) -> int:
    """Return the edge of the matrices: a power of two, from what the chip is, not from its speed.

    A GPU that is slow must work on what its peers work on, or nothing could be compared.
    """
    size = LEAST_SIZE
    while size * size < device.processors * TILE_ELEMENTS * ROUNDS:
        size *= 2
    bytes_each = MATRICES * FORMATS[device.dtype][1]
    while size * size * bytes_each > device.free_bytes * MEMORY_SHARE:
        size //= 2
    limit: int = device.size_limit
    return max(LEAST_SIZE, min(size, limit))


def multiply(left: Any, right: Any, out: Any) -> None:
    """Queue one product."""
    torch.mm(left, right, out=out)


class Products:
    """The matrices on one device.

    The factors are normally distributed, as weights are: a chip draws less power on zeros or small
    integers, and runs faster than it does at work. The generator's numbers depend on the seed and
    on the model of the chip. The products depend on the algorithm too, which cuBLAS chooses alike
    for one version, one model, one workspace and one stream (cuBLAS, "Results Reproducibility").
    """

    def __init__(self, device: Any) -> None:
        self.device = device
        self.size = size_for(device)
        self._how = {"dtype": FORMATS[device.dtype][0], "device": device.name}
        generator = torch.Generator(device=device.name).manual_seed(SEED)
        self._sets = [self._make(generator) for _ in range(PAIRS)]
        self._turns = cycle(self._sets)
        # One room for all: what a product leaves out shows as the rest of another.
        self._result = torch.empty((self.size, self.size), **self._how)
        self._bits = bits(self._result)
        self._wrong = torch.zeros((), dtype=torch.int64, device=device.name)
        self.per_batch = 1
        start, end = self.batch()[0]
        device.wait(end)
        took_s = max(device.span_s(start, end), 1e-6)
        self.per_batch = max(LEAST_BATCH, min(int(BATCH_S / took_s), BATCH))

    def _make(self, generator: Any) -> Tuple[Any, Any, Any]:
        """Return two factors and the bits of their first product."""
        shape = (self.size, self.size)
        left = torch.randn(shape, generator=generator, **self._how)
        right = torch.randn(shape, generator=generator, **self._how)
        first = torch.empty(shape, **self._how)
        multiply(left, right, first)
        return left, right, bits(first)

    def batch(self) -> List[Tuple[Any, Any]]:
        """Queue ``per_batch`` products and their comparisons; return the marks around each product.

        A comparison reads two matrices where a product of large ones computes for a long time: it
        takes 1 to 6 % as long, and is not between the marks.
        """
        spans = []
        for _ in range(self.per_batch):
            left, right, first = next(self._turns)
            start = self.device.mark()
            multiply(left, right, self._result)
            spans.append((start, self.device.mark()))
            self._wrong += (self._bits != first).any()
        return spans

    def wrong(self) -> int:
        """Return how many products differ; waits for what is queued."""
        return int(self._wrong.item())

    def digest(self) -> str:
        """Name the first products: the exact sums of their bits over rows and columns, hashed."""
        name = hashlib.sha256()
        for _, _, first in self._sets:
            for dim in (0, 1):
                sums = first.sum(dim=dim, dtype=torch.int64).tolist()
                name.update(repr(sums).encode("ascii"))
        return name.hexdigest()[:16]


def bits(matrix: Any) -> Any:
    """Return the rows as integers of 64 bits: NaN equals itself, and 0.0 is not -0.0."""
    return matrix.view(torch.int64)
