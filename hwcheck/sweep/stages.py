"""What a sweep has done by the stages of a run, which meet in ``hwcheck.tasks``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from hwcheck.advise.assessment import Assessment
from hwcheck.connect.connector import Connector
from hwcheck.connect.payload import Payload
from hwcheck.node.reasons import Reason
from hwcheck.results.run_folder import RunFolder
from hwcheck.run.fan_out import VisitEvent
from hwcheck.run.plan import Plan
from hwcheck.sweep.levels import Level


class Stages(Protocol):
    """The stages, each as far as it is no matter of the sweep."""

    def say(self, text: str) -> None:
        """Tell the operator a line."""

    def new_folder(self, runs: Path, plan: Plan) -> RunFolder:
        """Make a run folder, with what the inventory and the site bring for the judging."""

    def progress(
        self, hosts: int, forks: int
    ) -> AbstractContextManager[Callable[[VisitEvent], None]]:
        """Show how far the visits of so many hosts are, so many at once."""

    def run_together(
        self, level: Level, plan: Plan, payload: Payload, folder: RunFolder, connector: Connector
    ) -> None:
        """Run the scopes of a level over the hosts of the plan."""

    def second_visits(
        self,
        plan: Plan,
        payload: Payload,
        folder: RunFolder,
        connector: Connector,
        *,
        forks: int,
        given_up: Mapping[str, Reason],
    ) -> None:
        """Measure again what lies on a border, but for hosts that are given up."""

    def show(self, path: Path, assessed: Callable[[Assessment], object]) -> int:
        """Judge and report a run folder, hand its assessment on and return the exit code."""

    def visits_over(self) -> None:
        """From here on no host is visited."""

    def write_index(self, runs: Path) -> None:
        """Write the page of the fleet over its nights."""
