"""What the GPUs showed is of the timed steps alone."""

from __future__ import annotations

from hwcheck.contract.load_run import Series
from hwcheck.node.multi_host.observed import observing, summary

SERIES = Series(
    time_s=(0.0, 1.0, 2.0, 3.0, 4.0),
    columns={
        "gpu0": {
            "power_w": (50.0, 300.0, 310.0, 305.0, 60.0),
            "sm_clock_mhz": (200.0, 1900.0, None, 1800.0, 200.0),
            "temperature_c": (30.0, 60.0, 62.0, 61.0, 90.0),
            "clock_events": (1.0, 4.0, 0.0, 32.0, 8.0),
        },
        "gpu1": {"power_w": (50.0, None, None, None, 60.0)},
    },
)
REPEATS = [{"begin_s": 101.0, "end_s": 102.0}, {"begin_s": 102.5, "end_s": 103.5}]


def test_only_timed_steps_count() -> None:
    first, other = summary(SERIES, REPEATS, 100.0)
    assert first == {
        "subject": "gpu0",
        "power_w": 305.0,
        "sm_clock_mhz": 1850.0,
        "temperature_c": 62.0,
        "clock_events": 36,
    }
    assert other == {"subject": "gpu1"}


def test_without_timed_steps_nothing_is_said() -> None:
    assert summary(SERIES, [], 100.0) == [{"subject": "gpu0"}, {"subject": "gpu1"}]


def test_without_gpus_there_is_nothing_to_sample() -> None:
    with observing(None) as observed:
        assert observed(REPEATS) == []
