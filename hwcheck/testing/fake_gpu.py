"""A GPU made from the JSON of a case.

A reading of ``node.Gpu`` is a key of its name. One that is absent or ``{"error": text}`` cannot be
measured, but for ``DEFAULTS``; a GPU that is ``{"error": text}`` cannot be opened. ``null`` is what
this GPU does not have, and ``{"then": [...]}`` is what one read after the other gives, the last one
for ever. What has several values (``hwcheck/contract/quantities.py``) is an object of them, and
what is said of another GPU (``pcie_path``, ``p2p_status``) an object by ``gpu<index>``, with
``all`` for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.node.node import Gpu
from hwcheck.node.nvml.reader import NvmlReader
from hwcheck.testing.by_name import by_name, given, readings

ABSENT = {"error": "Not Supported"}
DEFAULTS: dict[str, Any] = {
    "recovery_action": None,
    "memory_reserved_bytes": None,
    "virtualization_mode": None,
    "temperature_max_operating_c": None,
    "nvlink_rates": [],
    "rack_place": None,
}
GPU_KEYS = readings(Gpu, NvmlReader) | {"error"}


@by_name
class FakeGpu(Gpu):
    """A GPU that says what a case says."""

    def __init__(self, index: int, says: Mapping[str, Any]) -> None:
        self._index = index
        self._says = says
        self._reads: dict[str, int] = {}
        unknown = set(says) - GPU_KEYS
        assert not unknown, f"no such quantity of a GPU: {sorted(unknown)}"

    @property
    def subject(self) -> str:
        return f"gpu{self._index}"

    def _say(self, quantity: str, *peers: int) -> Any:
        if "error" in self._says:
            raise CouldNotMeasure(f"{self.subject}: {self._says['error']}")
        value = self._says.get(quantity, DEFAULTS.get(quantity, ABSENT))
        if isinstance(value, dict) and "then" in value:
            read = self._reads.get(quantity, 0)
            self._reads[quantity] = read + 1
            value = value["then"][min(read, len(value["then"]) - 1)]
        value = given(f"{self.subject}: {quantity}", value)
        for peer in peers:
            value = value.get(f"gpu{peer}", value.get("all", ABSENT))
            value = given(f"{self.subject}: {quantity} of gpu{peer}", value)
        return value
