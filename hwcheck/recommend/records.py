"""The records that recommending produces. Pure data."""

from __future__ import annotations

from dataclasses import dataclass

from hwcheck.diagnosis.records import Causes

NO_CAUSES = Causes((), {}, {})


@dataclass(frozen=True)
class Action:
    """What to do about findings of one kind.

    ``check`` is empty where it is about a host as a whole; ``title`` names it in every case.
    ``hosts`` are all hosts it concerns; ``evidence`` are short lines, equal ones merged
    (``gpu3 on node[01-02]: power_limit_w 500 W; limit: ...``). ``explained_by`` are the titles of
    the diagnoses that account for every finding behind it; empty where one is left.
    """

    check: str
    outcome: str
    cause: str
    fix: str
    command: str
    role: str
    hosts: tuple[str, ...]
    evidence: tuple[str, ...]
    title: str = "no whole answer"
    explained_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Setting:
    """One ``NCCL_*`` variable with the reason and the figures that it rests on."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True)
class NcclAdvice:
    """NCCL settings for the hosts of a run; empty ``settings`` means: leave everything unset.

    ``summary`` is one line for people; ``evidence`` are the figures, one line each.
    """

    settings: tuple[Setting, ...]
    summary: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Advice:
    """Everything that a run tells its operator to do."""

    actions: tuple[Action, ...]
    nccl: NcclAdvice
    causes: Causes = NO_CAUSES

    @property
    def open_actions(self) -> tuple[Action, ...]:
        """Return the actions about findings that no cause accounts for."""
        return tuple(action for action in self.actions if not action.explained_by)
