"""What a PCIe lane carries."""

from __future__ import annotations

import pytest

from hwcheck.checks.shared.pcie_copy import LANE_GBPS

TRANSFERS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
"""1e9 transfers of one bit per second."""


@pytest.mark.parametrize("generation", LANE_GBPS)
def test_a_lane_carries_its_rate_less_its_coding(generation: int) -> None:
    coding = 8 / 10 if generation < 3 else 128 / 130 if generation < 6 else 242 / 256
    carried = TRANSFERS[generation] / 8 * coding
    assert LANE_GBPS[generation] == pytest.approx(carried, rel=0.001)
