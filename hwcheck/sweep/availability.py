"""Which hosts may be measured now, by what the scheduler says of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hwcheck.sweep.candidates import Candidate
from hwcheck.sweep.levels import Level
from hwcheck.text import line

IDLE, BUSY, DRAINED, DRAINED_BY_OTHER = "idle", "busy", "drained", "drained by other"
DOWN, UNKNOWN = "down", "unknown"
AWAY = (DRAINED_BY_OTHER, DOWN)
"""States out of which a host comes back repaired, or changed."""


@dataclass(frozen=True)
class HostState:
    """What a scheduler says of a host: ``state`` is one of the words above; drained is by hwcheck.

    ``at_work``: jobs are on it, in whatever state it is.
    """

    state: str = UNKNOWN
    at_work: bool = False
    reason: str = ""

    def line(self) -> str:
        """Return what there is to say of it."""
        return f"{self.state}: {line(self.reason)}" if self.reason else self.state


States = Mapping[str, HostState]
"""By host; of one that no scheduler knows only the node itself is asked."""


@dataclass(frozen=True)
class Split:
    """Candidates that may be measured, and the hosts that may not, each with its state."""

    free: tuple[Candidate, ...]
    kept_out: Mapping[str, HostState]


def split(in_line: Sequence[Candidate], states: States, level: Level, *, drained: bool) -> Split:
    """Say who may be measured: nobody at work where a level loads, nobody who is down.

    A host that somebody else drained is measured only where ``drained`` asks for it.
    """
    free, kept_out = [], {}
    for candidate in in_line:
        state = states.get(candidate.host, HostState())
        forbidden = {DOWN} if drained else {DOWN, DRAINED_BY_OTHER}
        if state.state in forbidden or (level.load and (state.state == BUSY or state.at_work)):
            kept_out[candidate.host] = state
        else:
            free.append(candidate)
    return Split(tuple(free), kept_out)
