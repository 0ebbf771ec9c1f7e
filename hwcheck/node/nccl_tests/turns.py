"""The turns of one leg, each a run of its program, as one record."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, List

from hwcheck.node.wire import Leg, SizeTiming


def together(turns: List[Leg]) -> Leg:
    """Return what the turns of a leg came to: one that broke is what the leg came to."""
    sizes: Dict[int, List[SizeTiming]] = {}
    for turn in turns:
        for size in turn.sizes:
            sizes.setdefault(size.size_bytes, []).append(size)
    return replace(
        turns[0] if turns[-1].state == "done" else turns[-1],
        sizes=tuple(_size(sizes[each]) for each in sorted(sizes)),
        duration_s=sum(turn.duration_s for turn in turns),
    )


def _size(turns: List[SizeTiming]) -> SizeTiming:
    """Return the turn in the middle, with all iterations and the most that was wrong in a turn."""
    ordered = sorted(turns, key=lambda turn: turn.time_us)
    middle = ordered[len(turns) // 2]
    inside = [turn.in_place for turn in turns if turn.in_place]
    return replace(
        middle,
        iterations=sum(turn.iterations for turn in turns),
        wrong=max(turn.wrong for turn in turns),
        passes=len(turns),
        pass_spread=(ordered[-1].time_us - ordered[0].time_us) / middle.time_us,
        in_place=_size(inside) if inside else None,
    )
