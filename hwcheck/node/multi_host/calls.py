"""How many collectives each rank has begun, in memory that outlives the rank."""

from __future__ import annotations

import mmap
import struct

COUNT = struct.Struct("=Q")


class Calls:
    """One counter for each rank of a host; ranks inherit it, the launcher reads it."""

    def __init__(self, ranks: int) -> None:
        self._memory = mmap.mmap(-1, COUNT.size * ranks)

    def begin(self, index: int) -> None:
        """Count one more."""
        COUNT.pack_into(self._memory, COUNT.size * index, self.of(index) + 1)

    def of(self, index: int) -> int:
        """Return the count of one rank."""
        count: int = COUNT.unpack_from(self._memory, COUNT.size * index)[0]
        return count

    def __enter__(self) -> Calls:
        return self

    def __exit__(self, *exc: object) -> None:
        self._memory.close()
