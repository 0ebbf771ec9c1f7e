"""What the driver reports while a visit loads the node: the kernel log and NVML's events."""

from __future__ import annotations

from typing import Dict, List, Sequence

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.facts import DRIVER_WORDS, KernelMessage
from hwcheck.contract.quantities import Reported
from hwcheck.contract.reasons import NONE
from hwcheck.node.node import NodeHost
from hwcheck.node.nvml.events import EventWatch


class LoadWatch:
    """Takes note of where the kernel log stands, and listens from now on."""

    def __init__(self, host: NodeHost, events: EventWatch) -> None:
        self._host = host
        self._events = events
        self._before: Sequence[KernelMessage] = ()
        self._log_problem = NONE
        try:
            self._before = host.kernel_log(DRIVER_WORDS).messages
        except CouldNotMeasure as error:
            self._log_problem = error.reason

    def reported(self) -> Reported:
        """Return what came since; what could not be listened to is named in it."""
        messages: List[KernelMessage] = []
        problem = self._log_problem
        if not problem:
            try:
                messages = newer(self._before, self._host.kernel_log(DRIVER_WORDS).messages)
            except CouldNotMeasure as error:
                problem = error.reason
        events = self._events.events()
        return Reported(tuple(messages), problem, tuple(events), self._events.problem)


def newer(before: Sequence[KernelMessage], now: Sequence[KernelMessage]) -> List[KernelMessage]:
    """Return the messages that were not there before.

    By their text and number, not by their time: the clock that stamps the log and the one that
    counts the seconds since boot drift apart by minutes on a node that is up for months.
    """
    counts: Dict[str, int] = {}
    for message in before:
        counts[message.text] = counts.get(message.text, 0) + 1
    messages = []
    for message in now:
        if counts.get(message.text, 0):
            counts[message.text] -= 1
        else:
            messages.append(message)
    return messages
