"""safety.py: what ends a load, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from hwcheck.contract.reasons import GPU_LOST, NO_ANSWER, NONE, NOT_MEASURED, Reason
from hwcheck.node.load.safety import (
    MARGIN_C,
    SILENCE_LIMIT_S,
    SLOWDOWN_C,
    START_SILENCE_LIMIT_S,
    Guard,
)
from hwcheck.node.load.sampler import Latest
from hwcheck.testing.fake_gpu import FakeGpu


def told(at_s: float = 0.0, problem: Reason = NONE, lost: bool = False, **values: float) -> Latest:
    made = Latest(at_s)
    made.values, made.problem, made.lost = dict(values), problem, lost
    return made


def guard(*thresholds: Any) -> Guard:
    return Guard(
        [
            FakeGpu(index, {} if each is None else {"temperature_slowdown_c": each})
            for index, each in enumerate(thresholds)
        ]
    )


@pytest.mark.parametrize(
    ("heat", "danger"), [(87.0, ""), (88.0, "gpu1 reached 88 C, and slows down at 90 C")]
)
def test_heat_up_to_the_boards_own_threshold(heat: float, danger: str) -> None:
    said = {"gpu0": told(temperature_c=60), "gpu1": told(temperature_c=heat)}
    assert guard(90, 90).danger(said, 0.0).text == danger


def test_a_board_without_a_threshold_gets_one() -> None:
    limit = SLOWDOWN_C - MARGIN_C
    assert guard(None).danger({"gpu0": told(temperature_c=limit - 1)}, 0.0) == NONE
    assert "reached 86 C" in guard(None).danger({"gpu0": told(temperature_c=limit)}, 0.0).text


@pytest.mark.parametrize(
    ("margin", "danger"), [(3, ""), (2, "gpu0 reached 70 C, and slows down at 72 C")]
)
def test_the_distance_that_a_gpu_tells_comes_first(margin: int, danger: str) -> None:
    said = {"gpu0": told(temperature_c=70, thermal_margin_c=margin)}
    assert guard(90).danger(said, 0.0).text == danger


def test_new_memory_errors_and_not_old_ones() -> None:
    watch = guard(90)
    assert watch.danger({"gpu0": told(ecc_uncorrected=4)}, 0.0) == NONE
    assert watch.danger({"gpu0": told(ecc_uncorrected=4)}, 0.0) == NONE
    assert watch.danger({"gpu0": told(ecc_uncorrected=6)}, 0.0).text == (
        "gpu0 has uncorrectable memory errors (2 more than before the load)"
    )
    assert guard(90).danger({"gpu0": told(ecc_corrected=9)}, 0.0) == NONE


def test_a_gpu_that_is_lost() -> None:
    lost = Reason(GPU_LOST, "gpu1: GPU is lost")
    said = {"gpu0": told(), "gpu1": told(problem=lost, lost=True)}
    assert guard(90, 90).danger(said, 0.0) == lost


def test_silence_is_a_danger() -> None:
    said = {"gpu0": told(at_s=100.0, problem=Reason(NOT_MEASURED, "gpu0: Unknown Error"))}
    assert guard(90).danger(said, 100.0 + SILENCE_LIMIT_S) == NONE
    why = guard(90).danger(said, 100.5 + SILENCE_LIMIT_S)
    assert why == Reason(NOT_MEASURED, "gpu0 told NVML nothing for 6 s (gpu0: Unknown Error)")
    silent = guard(90).danger({"gpu0": told(at_s=100.0)}, 106.0)
    assert silent == Reason(NO_ANSWER, "gpu0 told NVML nothing for 6 s")
    assert guard(90).danger(said, 129.0, START_SILENCE_LIMIT_S) == NONE, "CUDA starts"
    assert guard(90).danger(said, 131.0, START_SILENCE_LIMIT_S)


def test_a_gpu_without_a_sensor_may_be_loaded() -> None:
    assert guard(None).danger({"gpu0": told(power_w=600.0)}, 0.0) == NONE
