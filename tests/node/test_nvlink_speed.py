from __future__ import annotations

import pytest

from hwcheck.node.nvlink_speed import link_gbps


@pytest.mark.parametrize(
    ("reported", "exact"),
    [
        (14.062, 14.0625),  # GA102
        (25.781, 25.78125),  # Volta, Turing
        (25.0, 25.0),  # A100
        (26.562, 26.5625),  # Hopper
        (53.125, 53.125),  # Blackwell
        (12.5, 12.5),  # trained at less than its version's speed
    ],
)
def test_what_nvml_cut_off_is_put_back(reported: float, exact: float) -> None:
    assert link_gbps(reported, "4.0") == exact


@pytest.mark.parametrize(
    ("version", "speed"), [("1.0", 20.0), ("3.1", 14.0625), ("9.0", None), (None, None)]
)
def test_a_driver_that_does_not_tell(version: str | None, speed: float | None) -> None:
    assert link_gbps(None, version) == speed


def test_four_links_of_ga102() -> None:
    speed = link_gbps(14.062, None)
    assert speed is not None
    assert 4 * speed == 56.25
