"""Which hosts may be measured now, by what the scheduler says of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from hwcheck.scheduler.records import BUSY, DOWN, DRAINED_BY_OTHER, NodeState

AWAY = (DRAINED_BY_OTHER, DOWN)
"""States out of which a host comes back repaired, or changed."""

States = Mapping[str, NodeState]
"""By host; of one that no scheduler knows only the node itself is asked."""


def is_wanted(state: NodeState) -> bool:
    """Say whether a job is on the node, or the scheduler keeps it for one."""
    return state.state == BUSY or state.at_work or bool(state.wanted)


def may_be_measured(state: NodeState, *, load: bool, drained: bool) -> bool:
    """Say whether a host may be measured: not when it is down, nor loaded while it is wanted.

    One that somebody else drained is measured only where ``drained`` asks for it.
    """
    away = state.state == DOWN or (state.state == DRAINED_BY_OTHER and not drained)
    return not away and not (load and is_wanted(state))
