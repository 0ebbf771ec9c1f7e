"""Builders of what sweeps know, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hwcheck.fleet.sweep.candidates import VisitHistory
from hwcheck.fleet.sweep.visits import PastVisit

NOW = datetime(2026, 3, 1, 2, 30)  # noqa: DTZ001 - UTC, naive, as the history has it


def visit(host: str = "n1", days_ago: float = 1.0, **changes: Any) -> PastVisit:
    """A visit that measured a host at nightly, and passed."""
    at = NOW - timedelta(days=days_ago)
    made = PastVisit(host, f"{at:%Y%m%dT%H%M%SZ}", at, "nightly", "reported", "pass", loaded=True)
    return replace(made, **{"duration_s": 200.0, **changes})


def past(*visits: PastVisit, hosts: Sequence[str] = (), **changes: Any) -> VisitHistory:
    """What is known of hosts that were all there from the beginning, by their visits."""
    of_host: dict[str, list[PastVisit]] = {host: [] for host in hosts}
    for each in sorted(visits, key=lambda each: each.at):
        of_host.setdefault(each.host, []).append(each)
    seen: Mapping[str, datetime] = dict.fromkeys(of_host, NOW - timedelta(days=1))
    known: dict[str, Any] = {"waiting": {}, "first_seen": seen, "back": {}}
    return VisitHistory(of_host, **{**known, **changes})
