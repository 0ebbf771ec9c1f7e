"""Where a GPU is, for hands that look for the board: its address on the bus, slot and serial."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hwcheck.contract.wire import GpuFacts
from hwcheck.text import line


def places(gpus: Iterable[GpuFacts], named: Iterable[str]) -> Iterator[str]:
    """Yield where those GPUs of a host are that are named (``gpu3``).

    Nothing where all of them are: then it is about the host.
    """
    listed, wanted = list(gpus), set(named)
    some = [gpu for gpu in listed if f"gpu{gpu.index}" in wanted and gpu.pci_address]
    for gpu in some if len(some) < len(listed) else ():
        yield f"gpu{gpu.index} is at {place(gpu)}"


def place(gpu: GpuFacts) -> str:
    """Return where one GPU is: ``0000:ba:00.0, slot 7, serial 3742567114318``."""
    slot = f"slot {line(gpu.slot, 40)}" if gpu.slot else ""
    serial = f"serial {line(gpu.serial, 40)}" if gpu.serial else ""
    return ", ".join(part for part in (line(gpu.pci_address, 40), slot, serial) if part)
