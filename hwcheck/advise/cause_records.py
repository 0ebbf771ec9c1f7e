"""The records of a diagnosis. Pure data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwcheck.judge.records import Finding

if TYPE_CHECKING:
    from hwcheck.advise.case import Case

CONFIDENCES = ("certain", "likely", "possible")
"""certain: a reading says it itself. likely: the findings fit, and nothing else known does.
possible: worth ruling out first. Best first."""


@dataclass(frozen=True)
class Sign:
    """What speaks for a cause on one host: the findings that it explains, and what else was seen.

    ``also`` are observations that no limit judged, in words. With ``stands`` they are enough: the
    cause is named even where likelier ones explain all of its findings.
    """

    confidence: str
    explains: tuple[Finding, ...]
    also: tuple[str, ...] = ()
    stands: bool = False


@dataclass(frozen=True)
class Rule:
    """One cause; ``cause`` is the stem of its file and the name of its function.

    ``title`` says the cause as a statement, ``follows`` what it does to jobs, ``confirm`` is a
    command for the host that shows it, ``role`` an Ansible role that mends it.
    """

    cause: str
    look: Callable[[Case], Sign | None]
    title: str
    follows: str
    fix: str
    confirm: str
    source: str
    role: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """A cause with the hosts on which it was found.

    ``confidence`` is the best of any host, ``outcome`` the worst of what it explains, ``explains``
    the checks that it explains, ``observed`` short lines with hosts folded.
    """

    cause: str
    title: str
    outcome: str
    confidence: str
    hosts: tuple[str, ...]
    observed: tuple[str, ...]
    explains: tuple[str, ...]
    follows: str
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
