"""Matrix products sized to the chip, each batch compared bit for bit with the first."""

from __future__ import annotations

import hashlib
from typing import Any, Tuple

from hwcheck.node.torch_runtime import torch

SEED = 20
PAIRS = 2
BATCH = 32  # products between comparisons, which then take less than 1 % of the time
LEAST_SIZE = 256

# A product of large matrices is cut into tiles, one processor each at a time. Below a dozen rounds
# of the whole chip the last, partly filled round costs several percent.
TILE_ELEMENTS = 128 * 256
ROUNDS = 12
MATRICES = 4 * PAIRS + 1  # two factors, product and first product; one for the comparison
MEMORY_SHARE = 0.5

FORMATS = {  # type, bytes
    "bf16": (torch.bfloat16, 2),
    "fp16": (torch.float16, 2),
    "tf32": (torch.float32, 4),
    "fp32": (torch.float32, 4),
}
INTEGERS = {2: torch.int16, 4: torch.int32}


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
        self._wrong = torch.zeros((), dtype=torch.int64, device=device.name)

    def _make(self, generator: Any) -> Tuple[Any, Any, Any, Any]:
        """Return two factors, room for their product, and their first product."""
        shape = (self.size, self.size)
        left = torch.randn(shape, generator=generator, **self._how)
        right = torch.randn(shape, generator=generator, **self._how)
        first = torch.empty(shape, **self._how)
        multiply(left, right, first)
        return left, right, torch.empty_like(first), first

    def batch(self) -> Tuple[Any, Any]:
        """Queue products and a comparison of the last; return the marks around the products."""
        start = self.device.mark()
        for each in range(BATCH):
            left, right, result, _ = self._sets[each % PAIRS]
            multiply(left, right, result)
        end = self.device.mark()
        for _, _, result, first in self._sets:
            self._wrong += (bits(result) != bits(first)).any()
        return start, end

    def wrong(self) -> int:
        """Return how many of the compared products differ; waits for what is queued."""
        return int(self._wrong.item())

    def digest(self) -> str:
        """Name the first products: the exact sums of their bits over rows and columns, hashed."""
        name = hashlib.sha256()
        for _, _, _, first in self._sets:
            for dim in (0, 1):
                sums = bits(first).sum(dim=dim, dtype=torch.int64).tolist()
                name.update(repr(sums).encode("ascii"))
        return name.hexdigest()[:16]


def bits(matrix: Any) -> Any:
    """Return the elements as integers: NaN equals itself, and 0.0 is not -0.0."""
    return matrix.view(INTEGERS[matrix.element_size()])
