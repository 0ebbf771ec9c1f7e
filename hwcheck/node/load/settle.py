"""When the temperatures have settled: from the samples, not from a fixed time."""

from __future__ import annotations

from typing import List, Mapping, Sequence, Tuple

from hwcheck.contract.load_run import Column, Series

WINDOW_S = 45.0
"""What is looked at. NVML counts whole degrees: at 1 C in 30 s a shorter window could fall between
two of its steps."""
SLOPE_LIMIT_C_PER_S = 0.5 / 30.0
"""With a time constant of 60 s such a slope is 1 C below the end."""
POWER_SPREAD_LIMIT = 0.05
"""Share of the median within which the middle 80 % of the power samples lie. Of the average of a
second, where the driver tells it: at its limit an H100's or H200's power of an instant never keeps
within it (measured: 0.058 to 0.073, its average 0.006 to 0.008)."""
POWERS = ("power_average_w", "power_w")
QUANTITIES = ("temperature_c", *POWERS)
LEAST_SAMPLES = 5

Points = List[Tuple[float, float]]


def settled(series: Series, now_s: float, start_s: float = 0.0) -> bool:
    """Whether no GPU's temperature or power moved over the window that ends at ``now_s``.

    The window begins after ``start_s``, the begin of the load. Temperature: the slope of the
    straight line that fits best. Power: how far its samples lie apart. A
    GPU that tells no temperature at all is left out; one that told too little of the window has
    not settled, nor have GPUs that all tell none.
    """
    begin_s = now_s - WINDOW_S
    if begin_s < start_s - 1e-6:
        return False
    rows = [row for row, time_s in enumerate(series.time_s) if begin_s <= time_s <= now_s]
    gpus = [columns for columns in series.columns.values() if "temperature_c" in columns]
    return bool(gpus) and all(_is_still(series.time_s, rows, columns) for columns in gpus)


def _is_still(times: Sequence[float], rows: Sequence[int], columns: Mapping[str, Column]) -> bool:
    heat = _points(times, rows, columns["temperature_c"])
    if len(heat) < LEAST_SAMPLES or heat[-1][0] - heat[0][0] < 0.8 * WINDOW_S:
        return False
    if abs(slope(heat)) > SLOPE_LIMIT_C_PER_S:
        return False
    powers = (_points(times, rows, columns.get(name, ())) for name in POWERS)
    points = next((points for points in powers if len(points) >= LEAST_SAMPLES), None)
    if points is None:
        return True  # it tells no power
    power = sorted(value for _, value in points)
    low, middle, high = (power[int(share * (len(power) - 1))] for share in (0.1, 0.5, 0.9))
    return high - low <= POWER_SPREAD_LIMIT * middle


def _points(times: Sequence[float], rows: Sequence[int], column: Column) -> Points:
    pairs = [(times[row], column[row]) for row in rows if row < len(column)]
    return [(time_s, value) for time_s, value in pairs if value is not None]


def slope(points: Points) -> float:
    """Return the slope of the line of least squares; 0 for points of one time or none."""
    if not points:
        return 0.0
    count = len(points)
    mean_x = sum(x for x, _ in points) / count
    mean_y = sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    together = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return together / spread if spread else 0.0
