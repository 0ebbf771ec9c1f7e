"""What a run is planned, judged, explained and shown by: hwcheck's own, and what a site adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from hwcheck import checks
from hwcheck.advise import causes
from hwcheck.advise.rule import Rule
from hwcheck.contract.check import Check
from hwcheck.judge import models
from hwcheck.judge.models import Models


class Template(NamedTuple):
    """A site's template: its text, and the file that it stands in."""

    text: str
    file: str


@dataclass(frozen=True)
class Catalogue:
    """Checks by id in the order in which they run, models, rules by cause, templates by name.

    ``templates`` are those that come before hwcheck's own of the same name. It is handed in
    wherever something asks for any of them, and nothing changes it.
    """

    checks: Mapping[str, Check]
    models: Models
    rules: Mapping[str, Rule]
    templates: Mapping[str, Template] = field(default_factory=dict)


@cache
def shipped() -> Catalogue:
    """Return what hwcheck brings."""
    return Catalogue(checks.load(), models.shipped(), causes.shipped())
