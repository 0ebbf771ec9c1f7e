"""What a leg comes down to: its state, and the figures of its largest size."""

from __future__ import annotations

from typing import Iterator

from hwcheck.node.wire import DRIVER_ANSWERS, Leg, Sample


def leg_samples(leg: Leg) -> Iterator[Sample]:
    """Yield the samples of one leg. The judge derives them again: legs are the evidence.

    A leg that was not run, or did not use what it is to measure, has no state to judge.
    """
    subject = "leg " + leg.leg
    if leg.state not in ("not_run", "not_engaged"):
        yield Sample("leg_state", leg.state, "", subject)
    if leg.driver:
        yield Sample("driver_answers", leg.driver == DRIVER_ANSWERS, "", subject)
    if not leg.sizes:
        return
    wrong = sum(size.all_wrong for size in leg.sizes)
    yield Sample("wrong_elements", wrong, "elements", subject)
    if leg.state != "done":
        return
    largest = max(leg.sizes, key=lambda size: size.size_bytes)
    yield Sample("largest_size_bytes", largest.size_bytes, "bytes", subject)
    yield Sample("busbw_gbps", largest.busbw_gbps, "GB/s", subject)
    yield Sample("algbw_gbps", largest.algbw_gbps, "GB/s", subject)
    yield Sample("busbw_spread", largest.spread, "share", subject)
    if largest.passes > 1:
        yield Sample("pass_spread", largest.pass_spread, "share", subject)
