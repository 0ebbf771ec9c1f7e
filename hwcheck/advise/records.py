"""The records that advice consists of, in the order in which they are made. Pure data."""

from __future__ import annotations

from dataclasses import dataclass

from hwcheck.judge.records import Finding

CONFIDENCES = ("certain", "likely", "possible")
"""certain: a reading says it itself. likely: the findings fit, and nothing else known does.
possible: worth ruling out first. Best first."""


@dataclass(frozen=True)
class Diagnosis:
    """A cause with the hosts on which it was found.

    ``confidence`` is the best of any host, ``outcome`` the worst of what it explains, ``explains``
    the checks that it explains, ``observed`` short lines with hosts folded, ``effect`` what
    it does to jobs.
    """

    cause: str
    title: str
    outcome: str
    confidence: str
    hosts: tuple[str, ...]
    observed: tuple[str, ...]
    explains: tuple[str, ...]
    effect: str
    fix: str
    command: str
    role: str
    source: str


@dataclass(frozen=True)
class Causes:
    """What is wrong in a run.

    ``diagnoses`` are folded over the hosts, the gravest first; ``by_host`` has the causes of each
    host that has any, the likeliest first; ``explained`` are the findings that a cause accounts
    for, with the title of the first that does.
    """

    diagnoses: tuple[Diagnosis, ...]
    by_host: dict[str, tuple[str, ...]]
    explained: dict[Finding, str]


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
    """One ``NCCL_*`` variable with the reason and the figures that it rests on.

    ``evidence`` are the legs with their figures, one line each; ``measured_with`` the NCCL and the
    driver that they are of; ``retest`` says after what it has to be tested again.
    """

    name: str
    value: str
    reason: str
    evidence: tuple[str, ...] = ()
    measured_with: str = ""
    retest: str = ""


@dataclass(frozen=True)
class NcclAdvice:
    """NCCL settings for the hosts of a run; empty ``settings`` means: leave everything unset.

    ``summary`` is one line for people; ``evidence`` are the figures, one line each. ``versions``
    are those of every NCCL that was found on the hosts, such as ``2.27.5``: they decide what a
    file may hold. ``hosts`` are those that the settings are for. ``unset`` says why each setting
    of the network is left unset, one line each.
    """

    settings: tuple[Setting, ...]
    summary: str
    evidence: tuple[str, ...]
    versions: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()


@dataclass(frozen=True)
class GroupAdvice:
    """NCCL settings for hosts that are alike, which ``alike`` says in words.

    ``name`` is that of their folder in the run folder.
    """

    name: str
    alike: str
    hosts: tuple[str, ...]
    nccl: NcclAdvice


@dataclass(frozen=True)
class Advice:
    """Everything that a run tells its operator to do.

    ``groups`` are the hosts that are alike, each with its own settings: empty where ``nccl`` is
    right for all of them.
    """

    actions: tuple[Action, ...]
    nccl: NcclAdvice
    causes: Causes = NO_CAUSES
    groups: tuple[GroupAdvice, ...] = ()

    @property
    def open_actions(self) -> tuple[Action, ...]:
        """Return the actions about findings that no cause accounts for."""
        return tuple(action for action in self.actions if not action.explained_by)
