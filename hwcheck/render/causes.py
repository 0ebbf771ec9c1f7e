"""A cause in the words of every output."""

from __future__ import annotations

from collections.abc import Iterator

from hwcheck.advise.cause_records import Diagnosis
from hwcheck.advise.records import Advice
from hwcheck.text import line

CONFIDENCE_WORDS = {
    "certain": "certain",
    "likely": "likely",
    "possible": "possible: rule it out first",
}
CONFIRM = "Confirm with"
TERMINAL_PARTS = ("What follows", "Do", CONFIRM, "Ansible role", "Explains")
MOST_CHECKS = 6


def cause_parts(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """Yield what to say of a cause besides its title and what was observed: name and text."""
    yield "Confidence", CONFIDENCE_WORDS[diagnosis.confidence]
    yield "What follows", diagnosis.follows
    yield "Do", diagnosis.fix
    yield CONFIRM, diagnosis.command
    if diagnosis.role:
        yield "Ansible role", diagnosis.role
    yield "Explains", explains(diagnosis)
    yield "Source", diagnosis.source


def explains(diagnosis: Diagnosis) -> str:
    """Return the checks whose findings a cause explains; a host as a whole has no check."""
    names = [line(name, 60) or "the host as a whole" for name in diagnosis.explains]
    more = f" and {len(names) - MOST_CHECKS} more" if len(names) > MOST_CHECKS else ""
    return ", ".join(names[:MOST_CHECKS]) + more


def explained_in_a_line(advice: Advice) -> str:
    """Return which actions the causes account for; empty where none."""
    names = dict.fromkeys(
        line(action.title, 60) for action in advice.actions if action.explained_by
    )
    return ", ".join(names)
