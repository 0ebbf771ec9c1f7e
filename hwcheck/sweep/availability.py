"""Which hosts may be measured now, by what the scheduler says of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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


def may_be_measured(state: HostState, *, load: bool, drained: bool) -> bool:
    """Say whether a host may be measured: not when it is down, nor loaded while it is at work.

    One that somebody else drained is measured only where ``drained`` asks for it.
    """
    away = state.state == DOWN or (state.state == DRAINED_BY_OTHER and not drained)
    return not away and not (load and (state.state == BUSY or state.at_work))
