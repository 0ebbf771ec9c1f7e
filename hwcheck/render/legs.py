"""Legs in a few words: their busbw at the largest size, or what became of them."""

from __future__ import annotations

from hwcheck.judge.legs import is_clean, largest, legs_of, wrong_elements
from hwcheck.node.wire import COLLECTIVES, Leg, SizeTiming
from hwcheck.results.run_folder import HostRecord
from hwcheck.text import binary_size, line, number, quantity

SHOWN_COLLECTIVES = 2
"""So many stand in a host's one line: those that decide about P2P come first."""

LEG_WORDS = {
    "done": "no figure",
    "hang": "hangs",
    "failed": "failed",
    "not_run": "not run",
    "not_engaged": "did not use what it is to measure",
}

EXERCISE_MARK = " (exercise: gloo on the CPU)"


def busbw(record: HostRecord) -> str:
    """Return the default leg's busbw at its largest size, or why there is none.

    Of several collectives those that decide about P2P; the others stand in the host's own section.
    """
    legs = _default_legs(record)
    parts = []
    for leg in legs:
        name = f"{line(leg.collective, 60)} " if len(legs) > 1 else ""
        mark = EXERCISE_MARK if leg.exercise else ""
        parts.append(f"{name}{leg_figure(leg)}{mark}")
    return ", ".join(parts)


def _default_legs(record: HostRecord) -> list[Leg]:
    legs = [leg for leg in legs_of(record) if leg.leg == "default"]
    legs.sort(key=lambda leg: in_order(leg.collective))
    return legs[:SHOWN_COLLECTIVES]


def in_order(collective: str) -> int:
    """Return the place of a collective among others: first those that decide about P2P."""
    return COLLECTIVES.index(collective) if collective in COLLECTIVES else len(COLLECTIVES)


def peaks(record: HostRecord) -> tuple[tuple[str, SizeTiming], ...]:
    """Return the default legs' largest sizes by collective; none where one has no figure."""
    legs = _default_legs(record)
    found = [(line(leg.collective, 60), largest(leg)) for leg in legs if is_clean(leg)]
    known = tuple((name, size) for name, size in found if size is not None)
    return known if len(known) == len(legs) else ()


def leg_figure(leg: Leg) -> str:
    """Return a leg in a few words: its busbw at the largest size, or what became of it."""
    wrong = wrong_elements(leg)
    if wrong:
        return f"wrong data ({number(wrong)} elements)"
    size = largest(leg)
    if leg.state == "done" and size is not None:
        return f"{number(size.busbw_gbps)} GB/s at {binary_size(size.size_bytes)}"
    if leg.state == "done" and leg.ranks < 2:
        return "one rank, no busbw"
    return LEG_WORDS[leg.state]


def transport(leg: Leg) -> str:
    """Return what NCCL said of the way of a leg's data: ``P2P/CUMEM 96, channels 16``."""
    told = {name: value for name, value in leg.transport.items() if value}
    parts = (f"{line(name, 40)} {quantity(value)}" for name, value in list(told.items())[:12])
    return ", ".join(parts)
