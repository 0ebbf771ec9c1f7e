"""What came of one GPU, put together from what its worker sent."""

from __future__ import annotations

import statistics
import time
from typing import Any, Dict, List, Mapping

from hwcheck.contract.load_run import GpuWork

SHORTEST_WINDOW_S = 0.5  # the last window is cut short
LOW_SHARE = 0.05
SPEEDS = ("copy_gbps", "to_device_gbps", "from_device_gbps")


class Tally:
    """The worker's messages, added up."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.library = ""
        self.prepared = False
        self.done = False
        self.reason = ""
        self.doing = "starting"
        self._last_message = time.monotonic()
        self._facts: Mapping[str, Any] = {"dtype": "", "size": 0}
        self._windows: List[float] = []
        self._short: List[float] = []
        self._products = 0
        self._wrong = 0

    def take(self, message: Dict[str, Any]) -> None:
        """Add one message."""
        self._last_message = time.monotonic()
        kind = message["kind"]
        if kind == "step":
            self.doing = message["doing"]
        elif kind == "prepared":
            self.prepared, self.library = True, message["library"]
            self.doing = "multiplying"
            names = ("dtype", "size", "digest", *SPEEDS)
            self._facts = {name: message[name] for name in names if name in message}
        elif kind == "window":
            self._add(message["products"], message["seconds"], message["wrong"])
        elif kind == "done":
            self.done = True
        elif kind == "error":
            self.reason = self.reason or message["reason"]
        elif kind == "lost":
            self.reason = self.reason or "%s, while %s" % (message["reason"], self.doing)

    def _add(self, products: int, seconds: float, wrong: int) -> None:
        size = self._facts["size"]
        self._products += products
        self._wrong = wrong
        windows = self._windows if seconds >= SHORTEST_WINDOW_S else self._short
        windows.append(2.0 * size**3 * products / seconds / 1e12)

    def silent_s(self, since: float) -> float:
        """Return for how long nothing came since then (monotonic clock); 0 once it has ended."""
        if self.done or self.reason:
            return 0.0
        return time.monotonic() - max(self._last_message, since)

    def work(self) -> GpuWork:
        """Return the record."""
        windows = sorted(self._windows or self._short)
        return GpuWork(
            subject=self.subject,
            products=self._products,
            tflops=statistics.median(windows) if windows else None,
            tflops_low=windows[int(len(windows) * LOW_SHARE)] if windows else None,
            wrong_products=self._wrong,
            reason=self.reason,
            **self._facts,
        )
