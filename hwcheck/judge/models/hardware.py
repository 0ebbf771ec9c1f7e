"""What chips and memories can do at all, for the lint to hold a model's figures against.

Operations for each multiprocessor and clock are those of NVIDIA's architecture whitepapers (Volta
2017 to RTX Blackwell 2025). The ranges of clocks and data rates are those of the boards that these
documents list, and narrow: a figure that is twice or half what it should be leaves them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Range = tuple[float, float]


@dataclass(frozen=True)
class Chip:
    """One chip. ``memory`` is the data rate of a pin in Gbit/s by the kind of memory.

    ``fp16`` are the operations of dense fp16 products with sums in fp32 that boards with the chip
    have for each multiprocessor and clock; the lower one of two is that of GeForce and of boards
    that are held down for export. ``nvlink_gbps`` is of one NVLink, both ways.
    """

    fp16: frozenset[int]
    fp32: int
    boost_mhz: Range
    memory: Mapping[str, Range]
    nvlink_gbps: float = 0.0
    most_nvlinks: int = 0
    geforce_fp16: frozenset[int] = field(default=frozenset())


def _graphics(boost_mhz: Range, memory: Mapping[str, Range], fp16: int = 1024) -> Chip:
    half = fp16 // 2
    return Chip(frozenset({half, fp16}), 256, boost_mhz, memory, geforce_fp16=frozenset({half}))


CHIPS: Mapping[str, Chip] = {
    "GV100": Chip(frozenset({1024}), 128, (1350, 1650), {"HBM2": (1.7, 2.0)}, 50.0, 6),
    "TU102": Chip(frozenset({1024}), 128, (1500, 1900), {"GDDR6": (12.0, 15.0)}, 50.0, 2),
    "TU104": Chip(frozenset({1024}), 128, (1500, 1900), {"GDDR6": (9.5, 14.5)}),
    "GA100": Chip(
        frozenset({2048}), 128, (1380, 1480), {"HBM2": (2.3, 2.6), "HBM2e": (2.9, 3.3)}, 50.0, 12
    ),
    "GA102": _graphics((1650, 1900), {"GDDR6": (12.0, 16.5), "GDDR6X": (19.0, 21.5)}),
    "AD102": _graphics((2200, 2700), {"GDDR6": (17.5, 20.5), "GDDR6X": (20.5, 23.5)}),
    "AD104": _graphics((2000, 2700), {"GDDR6": (12.0, 18.0)}),
    "GH100": Chip(
        frozenset({1024, 4096}),
        256,
        (1500, 2000),
        {"HBM2e": (3.1, 3.3), "HBM3": (5.0, 5.5), "HBM3e": (6.1, 6.6)},
        50.0,
        18,
    ),
    "GB100": Chip(frozenset({8192}), 256, (1650, 2150), {"HBM3e": (7.3, 8.2)}, 100.0, 18),
    "GB202": _graphics((2300, 2750), {"GDDR7": (24.5, 30.5)}),
}

MOST_SUSTAINED: Mapping[str, float] = {"TFLOP/s": 0.92, "GB/s": 0.92, "links": 1.0, "W": 1.0}
"""A share of the peak that no published measurement passes, with a margin: 0.87 of an A100's and
0.913 of an RTX 5090's tensor cores (ml-engineering, Maximum Achievable Matmul FLOPS;
gau-nernst/learn-cuda), 0.896 of an H200's memory in a copy (measured)."""

LEAST_SUSTAINED: Mapping[str, float] = {"TFLOP/s": 0.25, "GB/s": 0.65, "links": 1.0, "W": 1.0}
"""Below it a limit finds nothing: the lowest are a T4 at 70 W and its memory with ECC."""

PCIE_GBPS: Mapping[int, float] = {3: 15.75, 4: 31.5, 5: 63.0, 6: 121.0}
"""16 lanes each way (PCI Express Base Specification), in 1e9 bytes/s."""
