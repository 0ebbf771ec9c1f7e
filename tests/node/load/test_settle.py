"""settle.py on curves of a body that warms up, as NVML would count them: in whole degrees."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping

import pytest

from hwcheck.contract.load_run import Series
from hwcheck.node.load.settle import WINDOW_S, settled, slope

Curve = Callable[[float], float]


def warming(tau_s: float, idle_c: float = 32.0, end_c: float = 72.0) -> Curve:
    return lambda time_s: end_c + (idle_c - end_c) * math.exp(-max(time_s, 0.0) / tau_s)


def noisy(chance: random.Random, share: float) -> Curve:
    return lambda time_s: 690.0 * (1 + chance.uniform(-share, share))


def recorded(
    heat: Mapping[str, Curve], power: Curve | None = None, seconds: float = 400.0
) -> Series:
    times = tuple(tick / 5 - 3 for tick in range(round((seconds + 3) * 5)))
    columns = {
        subject: {"temperature_c": tuple(math.floor(curve(at) + 0.5) for at in times)}
        | ({"power_w": tuple(power(at) for at in times)} if power else {})
        for subject, curve in heat.items()
    }
    return Series(times, columns)


def first_settled(series: Series, start_s: float = 0.0) -> float | None:
    return next((at for at in series.time_s[::5] if settled(series, at, start_s)), None)


@pytest.mark.parametrize("tau_s", [20.0, 40.0, 60.0])
@pytest.mark.parametrize("seed", range(3))
def test_it_settles_near_the_end_of_its_curve(tau_s: float, seed: int) -> None:
    heat = warming(tau_s)
    at = first_settled(recorded({"gpu0": heat}, noisy(random.Random(seed), 0.02)))
    assert at is not None
    assert heat(at) > 72 - 1.5, "no more than 1.5 C are left"
    # By the slope at the middle of the window it is due then; 30 s are a step of NVML's away.
    due_s = tau_s * math.log(40 / tau_s * 60) + WINDOW_S / 2
    assert at < due_s + 30


def test_the_slowest_gpu_counts() -> None:
    fast, slow = warming(10.0), warming(60.0)
    both = first_settled(recorded({"gpu0": fast, "gpu1": slow}))
    alone = [first_settled(recorded({"gpu0": curve})) for curve in (fast, slow)]
    assert alone[0] is not None
    assert alone[1] is not None
    assert alone[0] < alone[1] == both


@pytest.mark.parametrize("c_per_s", [1 / 30, 2 / 30, -1 / 30, 0.5])
@pytest.mark.parametrize("offset_c", [0.0, 0.25, 0.5, 0.75])
def test_a_ramp_never_settles(c_per_s: float, offset_c: float) -> None:
    ramp = recorded({"gpu0": lambda at: 60 + offset_c + c_per_s * at})
    assert first_settled(ramp) is None


def test_power_that_swings_has_not_settled() -> None:
    def throttled(at_s: float) -> float:
        return 690.0 if at_s % 10 < 5 else 520.0

    assert first_settled(recorded({"gpu0": warming(10.0)}, throttled)) is None
    assert first_settled(recorded({"gpu0": warming(10.0)}, lambda at: 690.0)) is not None


def test_idle_before_the_load_is_not_settled_under_load() -> None:
    series = recorded({"gpu0": lambda at: 32.0}, seconds=100)
    assert first_settled(series, start_s=40.0) == pytest.approx(40 + WINDOW_S, abs=1.1)
    assert first_settled(recorded({"gpu0": lambda at: 32.0}, seconds=WINDOW_S - 1)) is None


def test_without_a_temperature_nothing_has_settled() -> None:
    assert first_settled(Series(tuple(range(200)), {})) is None
    power = Series(tuple(range(200)), {"gpu0": {"power_w": (600.0,) * 200}})
    assert first_settled(power) is None
    half = Series(tuple(range(200)), {"gpu0": {"temperature_c": (50,) * 20 + (None,) * 180}})
    assert first_settled(half) is None, "it fell silent"


def test_slope() -> None:
    assert slope([(0.0, 1.0), (2.0, 5.0), (1.0, 3.0)]) == pytest.approx(2.0)
    assert slope([]) == slope([(1.0, 5.0), (1.0, 9.0)]) == 0.0
