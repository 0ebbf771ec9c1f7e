"""What no check notices when it is changed, and why: ``survivors.yml``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from tests.lab.tree_writer import section

FILE = Path(__file__).with_suffix(".yml")


@dataclass(frozen=True)
class Reason:
    """Why some changes survive.

    ``of`` are patterns of ``quantity = change``, ``scenarios`` of the scenarios that it holds for.
    """

    of: tuple[str, ...]
    why: str
    scenarios: tuple[str, ...]

    def pattern_of(self, scenario: str, name: str) -> str:
        """Return the pattern that a change fits, or an empty text."""
        if not any(fnmatchcase(scenario, pattern) for pattern in self.scenarios):
            return ""
        return next((pattern for pattern in self.of if fnmatchcase(name, pattern)), "")


def reasons() -> list[Reason]:
    """Read the file. Raises ScenarioError for a key that is not known."""
    known = {"of": [], "why": "", "in": ["*"]}
    entries = yaml.safe_load(FILE.read_text("utf-8"))["reasons"]
    read = [section(entry, FILE.name, known) for entry in entries]
    return [Reason(tuple(each["of"]), each["why"], tuple(each["in"])) for each in read]


def reason_of(scenario: str, name: str, known: Iterable[Reason]) -> Reason | None:
    """Return the first reason that a change fits."""
    return next((each for each in known if each.pattern_of(scenario, name)), None)


def unused(survivors: Iterable[tuple[str, str]], known: Iterable[Reason]) -> list[str]:
    """Return the patterns that are the first for no survivor, given as scenario and change."""
    known = list(known)
    left = {(id(each), pattern) for each in known for pattern in each.of}
    for scenario, name in survivors:
        reason = reason_of(scenario, name, known)
        if reason:
            left.discard((id(reason), reason.pattern_of(scenario, name)))
    return [pattern for each in known for pattern in each.of if (id(each), pattern) in left]
