"""Findings that a site knows of and bears until a day: ``hwcheck_waivers`` in its inventory. Pure.

A limit of a site (``site_limits``) says what is right on its machines. A waiver says that something
is wrong, that it is known, and until when it does not count.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Waiver:
    """What does not count on a host, until when and why.

    ``check`` is a check's name; ``subject`` what it complains of (``gpu3``, ``node``), empty for
    everything; ``until`` the last day on which it holds, UTC, ISO 8601; ``reason`` by whose word.
    """

    check: str
    until: str
    reason: str
    subject: str = ""

    def __str__(self) -> str:
        """Return what it is about: ``pcie_link of gpu3``."""
        return f"{self.check} of {self.subject}" if self.subject else self.check

    @property
    def why(self) -> str:
        """The reason with the day: ``RMA 4711 (until 2027-01-31)``."""
        return f"{self.reason} (until {self.until})"

    def holds_at(self, time: str) -> bool:
        """Whether it holds at a time of ``run.json`` (``2027-01-31T02:30:00Z``)."""
        return time[:10] <= self.until

    def is_about(self, check: str, subject: str) -> bool:
        """Whether it is about findings of a check with this subject."""
        return check == self.check and self.subject in ("", subject)


def problem(waiver: Waiver, checks: Collection[str]) -> str:
    """Return why there is nothing to waive so, or an empty text; ``checks`` are all there are."""
    if waiver.check in checks:
        return ""
    near = difflib.get_close_matches(waiver.check, checks, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else "`hwcheck checks` lists them"
    return f"{waiver.check[:80]}: no such check; {hint}"
