"""What GPUs do together in a visit: one start of torch, every leg, the answers by collective."""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Union

from hwcheck.node.check import CouldNotMeasure
from hwcheck.node.pairs.records import PairsRun
from hwcheck.node.wire import Leg


class Collectives:
    """Takes all of a run at once, and answers for one collective after another.

    ``started`` tells whether a leg or a copy was run at all.
    """

    def __init__(self) -> None:
        self.started = False
        self._found: Dict[str, List[Leg]] = {}
        self._pairs: Optional[PairsRun] = None
        self._problem = ""

    def take(self, run: Iterator[Union[Leg, PairsRun]]) -> None:
        """Run to the end: what breaks is said to every collective that has asked."""
        try:
            for leg in run:
                if isinstance(leg, PairsRun):
                    self.started, self._pairs = True, leg
                    continue
                self.started = self.started or leg.state != "not_run"
                self._found.setdefault(leg.collective, []).append(leg)
        except CouldNotMeasure as error:
            self._problem = str(error)

    def pairs(self) -> PairsRun:
        """Return the copies between the GPUs. Raises CouldNotMeasure where there were none."""
        if self._pairs is None:
            raise CouldNotMeasure(self._problem or "no pair of GPUs was asked to copy")
        return self._pairs

    def legs(self, collective: str) -> Iterator[Leg]:
        """Yield the legs of one collective. Raises CouldNotMeasure after what there was."""
        yield from self._found.get(collective, ())
        if self._problem:
            raise CouldNotMeasure(self._problem)
