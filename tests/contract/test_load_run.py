"""The bits against those of NVIDIA's own binding."""

from __future__ import annotations

import pynvml
import pytest

from hwcheck.contract import load_run


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("SW_POWER_CAP", "nvmlClocksThrottleReasonSwPowerCap"),
        ("HW_SLOWDOWN", "nvmlClocksThrottleReasonHwSlowdown"),
        ("SW_THERMAL", "nvmlClocksThrottleReasonSwThermalSlowdown"),
        ("HW_THERMAL", "nvmlClocksThrottleReasonHwThermalSlowdown"),
        ("HW_POWER_BRAKE", "nvmlClocksThrottleReasonHwPowerBrakeSlowdown"),
    ],
)
def test_bits(ours: str, theirs: str) -> None:
    assert getattr(load_run, ours) == getattr(pynvml, theirs)
