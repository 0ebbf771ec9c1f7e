"""What the GPUs showed while steps were timed: power, clocks, and what held the clocks down."""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import reduce
from operator import or_
from statistics import median
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence

from hwcheck.contract.load_run import Series
from hwcheck.node.load.sampler import Sampler

Observe = Callable[[Sequence[Mapping[str, Any]]], List[Dict[str, Any]]]
FIGURES: Mapping[str, Callable[[List[float]], float]] = {
    "power_w": median,
    "sm_clock_mhz": median,
    "temperature_c": max,
}
EVENTS = "clock_events"


@contextmanager
def observing(sampler: Optional[Sampler]) -> Iterator[Observe]:
    """Sample for the length of the block; yields what sums it up, nothing where there is no GPU."""
    if sampler is None:
        yield lambda _: []
        return
    zero_s = time.monotonic()
    sampler.start()
    try:
        yield lambda repeats: summary(sampler.series(zero_s), repeats, zero_s)
    finally:
        sampler.stop()


def summary(
    series: Series, repeats: Sequence[Mapping[str, Any]], zero_s: float
) -> List[Dict[str, Any]]:
    """Return each GPU's power (W, median), clock (MHz, median), temperature (C, most) and events.

    Of the timed steps alone: ``repeats`` have the begin and the end of theirs, on the monotonic
    clock; ``zero_s`` is the time of it from which the series counts. A figure that the GPU did not
    tell then is left out.
    """
    spans = [(each["begin_s"] - zero_s, each["end_s"] - zero_s) for each in repeats]
    rows = [
        row for row, at in enumerate(series.time_s) if any(low <= at <= high for low, high in spans)
    ]
    made = []
    for subject, columns in series.columns.items():
        gpu: Dict[str, Any] = {"subject": subject}
        for name in (*FIGURES, EVENTS):
            column = columns.get(name, ())
            values = [column[row] for row in rows if row < len(column)]
            readings = [value for value in values if value is not None]
            if readings and name == EVENTS:
                gpu[name] = reduce(or_, (int(value) for value in readings))
            elif readings:
                gpu[name] = float(FIGURES[name](readings))
        made.append(gpu)
    return made
