"""What one NVLink carries, exactly: NVML gives whole MB/s, and older drivers give nothing."""

from __future__ import annotations

from typing import Optional

SPEED_GBPS = {
    "1.0": 20.0,
    "2.0": 25.78125,
    "2.2": 25.78125,
    "3.0": 25.0,
    "3.1": 14.0625,
    "4.0": 26.5625,
    "5.0": 53.125,
}
"""1e9 bytes/s each way of one link by NVLink version: lanes times the rate of a lane.

8 x 20 and 8 x 25.78125 Gb/s (Pascal; Volta and Turing), 4 x 50 and 4 x 28.125 Gb/s (GA100; GA102,
whose white paper gives 14.0625 GB/s), 2 x 106.25 Gb/s (Hopper), 2 x 212.5 Gb/s (Blackwell).
"""

ROUNDING_GBPS = 0.001
"""NVML cuts off what is below 1 MB/s."""


def link_gbps(reported_gbps: Optional[float], version: Optional[str]) -> Optional[float]:
    """Return the speed of a link each way in 1e9 bytes/s, or None where it cannot be known.

    ``reported_gbps`` is NVML's figure; it counts, for a link may run below its version's speed.
    """
    if reported_gbps is None:
        return SPEED_GBPS.get(version or "")
    for exact in SPEED_GBPS.values():
        if abs(exact - reported_gbps) <= ROUNDING_GBPS:
            return exact
    return reported_gbps
