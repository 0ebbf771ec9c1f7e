"""All collectives of a visit: one start of torch, every leg, and the answers by collective."""

from __future__ import annotations

from typing import Dict, Iterator, List

from hwcheck.node.check import CouldNotMeasure
from hwcheck.wire import Leg


class Collectives:
    """Takes all legs of a run at once, and answers for one collective after another.

    ``started`` tells whether a leg was run at all.
    """

    def __init__(self) -> None:
        self.started = False
        self._found: Dict[str, List[Leg]] = {}
        self._problem = ""

    def take(self, run: Iterator[Leg]) -> None:
        """Run to the end: what breaks is said to every collective that has asked."""
        try:
            for leg in run:
                self.started = self.started or leg.state != "not_run"
                self._found.setdefault(leg.collective, []).append(leg)
        except CouldNotMeasure as error:
            self._problem = str(error)

    def legs(self, collective: str) -> Iterator[Leg]:
        """Yield the legs of one collective. Raises CouldNotMeasure after what there was."""
        yield from self._found.get(collective, ())
        if self._problem:
            raise CouldNotMeasure(self._problem)
