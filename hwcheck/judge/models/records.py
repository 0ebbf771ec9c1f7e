"""What a file of a GPU model says, as records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

BYTES: Mapping[str, int] = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
SIZE = re.compile(r"(\d{1,5}) ([KMG]iB)\Z")


@dataclass(frozen=True)
class ModelFigure:
    """One figure: the vendor's ``value``, and the share of it that a healthy GPU sustains.

    ``size``, ``gpus`` and ``algorithm`` are those of the work that is held against it: a copy
    (``4 GiB``), a product of matrices (``8192 x 8192 x 8192``). A count of links has neither size
    nor algorithm.
    """

    value: float
    unit: str
    measure: str
    gpus: int
    source: str
    confidence: str
    sustained: float
    sustained_source: str
    sustained_confidence: str
    size: str = ""
    algorithm: str = ""


@dataclass(frozen=True)
class Board:
    """What the peaks of a board follow from, for the lint to compute them.

    ``fp16_per_clock`` are operations of dense fp16 products with sums in fp32, for each
    multiprocessor and clock; ``nvlink_gbps`` is of all NVLinks, both ways.
    """

    chip: str
    fp16_per_clock: int
    memory: str
    bus_bits: int
    source: str
    multiprocessors: int = 0
    nvlink_gbps: float = 0.0


@dataclass(frozen=True)
class Joined:
    """How the GPUs of a published machine were joined: ``by`` switches, links or PCIe.

    ``pairs`` are two GPUs by their order in nvidia-smi and the NVLinks between them;
    ``link_gbps`` is what an NVLink carries each way. ``path`` is nvidia-smi's between the GPUs.
    """

    by: str
    links: int = 0
    link_gbps: float = 0.0
    pairs: tuple[tuple[int, int, int], ...] = ()
    pcie_generation: int = 0
    path: str = ""
    peer: bool = False
    cpu: str = ""


@dataclass(frozen=True)
class Busbw:
    """A busbw that somebody published for one machine with GPUs of the model.

    ``settings`` is what was set for NCCL where something was; ``complaint`` is what the owner
    says is wrong with the machine.
    """

    value: float
    unit: str
    measure: str
    collective: str
    size: str
    gpus: int
    algorithm: str
    joined: Joined
    source: str
    confidence: str
    settings: str = ""
    complaint: str = ""

    @property
    def size_bytes(self) -> int:
        """The message as nccl-tests count it. Raises ValueError for a size of another form."""
        return size_bytes(self.size)


@dataclass(frozen=True)
class Model:
    """One model of GPU: how NVML names it, and the PCI ids of its boards.

    A PCI id is a device (``2335``), or a device and a subsystem as NVML writes it
    (``20b2:146310de``) where other products have the device id too.
    """

    id: str
    names: tuple[str, ...]
    figures: Mapping[str, ModelFigure]
    board: Board
    pci_ids: tuple[str, ...]
    pci_source: str
    busbw: tuple[Busbw, ...] = ()

    @property
    def devices(self) -> frozenset[str]:
        """The PCI device ids alone."""
        return frozenset(pci_id.partition(":")[0] for pci_id in self.pci_ids)

    def reached(self, figure: str) -> float | None:
        """Return what a healthy GPU sustains of ``figure``, in its unit; None where not known."""
        of_model = self.figures.get(figure)
        return None if of_model is None else round(of_model.value * of_model.sustained, 1)


def size_bytes(text: str) -> int:
    """Return the bytes of a size such as ``4 GiB``. Raises ValueError."""
    match = SIZE.match(text)
    if match is None:
        raise ValueError(f"{text!r} is no size such as 4 GiB")
    return int(match[1]) * BYTES[match[2]]
