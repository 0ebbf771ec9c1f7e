"""What the host reader answers where one value is not enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, NamedTuple, Optional, Tuple

DRIVER_WORDS = (
    *("NVRM: Xid", "SXid (", "fallen off the bus", "RmInitAdapter failed"),
    *("rm_init_adapter failed", "nvidia: probe of ", "probe with driver nvidia failed"),
    *("Cannot initialize GSP firmware RM", "NVRM: This PCI I/O region", "NVRM: BAR"),
)
"""What lines of the NVIDIA driver hold that tell of a fault; ``checks.shared.xids`` reads them."""


class Filesystem(NamedTuple):
    """Size of a file system and what a user who is not root may still write."""

    size_bytes: int
    free_bytes: int
    read_only: bool = False


class Imex(NamedTuple):
    """The IMEX service: ``runs`` is None where processes of others are hidden.

    ``channels`` are counted. ``nodes_file`` says what its list of nodes is to this host; empty
    where that cannot be known.
    """

    runs: Optional[bool]
    channels: int
    nodes_file: str = ""


class Mount(NamedTuple):
    """A mounted file system: where, its kind, its device, and the options of the whole of it.

    A place may be mounted read-only although the file system itself is not; that is not told.
    ``meant_read_only`` is what /etc/fstab wants; None where it says nothing of it. ``device`` is
    the source by the kernel's name (``dm-4``), as its log has it; empty where it is no device.
    """

    point: str
    kind: str
    source: str
    options: Tuple[str, ...]
    meant_read_only: Optional[bool] = None
    device: str = ""


class NcclSetting(NamedTuple):
    """An environment variable that a job would find, and the file or process it comes from."""

    name: str
    value: str
    origin: str


class TorchStack(NamedTuple):
    """The torch of an interpreter and the NCCL that came with it; an empty text means none."""

    torch: str
    nccl: str


class NvmeDrive(NamedTuple):
    """An NVMe controller on the PCIe bus; name and state are empty where no driver has it."""

    pci_address: str
    name: str
    state: str


class Part(NamedTuple):
    """One part of the node; a text is empty where nobody says it.

    ``name`` is its kind and which one it is: ``cpu0``, ``memory DIMM_A1``, ``nic mlx5_0``.
    ``number`` is the maker's part number.
    """

    name: str
    model: str = ""
    number: str = ""
    serial: str = ""
    firmware: str = ""


class Neighbor(NamedTuple):
    """What a port is cabled to: ``name`` of the far end (a switch) and the ``port`` there."""

    subject: str
    name: str
    port: str


class ContainerSettings(NamedTuple):
    """What a container runtime's own file gives to every container that asks for nothing else.

    ``nvidia_program`` is that of the runtime named nvidia. What the file does not say is empty or
    None; ``memlock_bytes`` below 0 is no limit. A ``broken`` file cannot be read by the runtime.
    """

    file: str
    default_runtime: str = ""
    nvidia_program: str = ""
    memlock_bytes: Optional[int] = None
    shm_bytes: Optional[int] = None
    broken: bool = False


class KernelMessage(NamedTuple):
    """One message of the kernel and how many seconds ago it was written."""

    text: str
    age_s: float


class KernelLog(NamedTuple):
    """Messages since boot; ``complete``: the log still goes back to boot.

    ``reach_s`` is how many seconds ago its first message was written.
    """

    messages: Tuple[KernelMessage, ...]
    complete: bool
    reach_s: float


class HugePages(NamedTuple):
    """Memory that is set aside as huge pages, and the mode of transparent ones."""

    reserved_bytes: int
    unused_bytes: int
    memory_bytes: int
    transparent: str


@dataclass(frozen=True)  # a tuple has an index of its own
class Gid:
    """One entry of a port's GID table: index, address and kind (``RoCE v2``)."""

    index: int
    address: str
    kind: str


class RdmaPort(NamedTuple):
    """One port of an RDMA device. A rate that the kernel does not give is None.

    ``state`` and ``physical_state`` are the kernel's words (``ACTIVE``, ``LinkUp``), ``lanes`` is
    4 in ``400 Gb/sec (4X NDR)``; ``counters`` holds the ones that the port has. ``board`` is the
    maker's id of the card's design (PSID), empty where the driver does not give it, and
    ``pci_ids`` what the bus says of it. One that ``may_be_bridge`` is of a card, or of what manages
    NVSwitches: this login cannot tell. An ``iwarp`` port is of Ethernet and not of
    RoCE. ``pkeys`` are the partition keys in its table but the empty entries. ``pci_address`` is
    empty for a device of software.
    """

    name: str
    driver: str
    firmware: str
    link_layer: str
    state: str
    physical_state: str
    rate_gbps: Optional[float]
    lanes: Optional[int]
    counters: Mapping[str, int]
    gids: Tuple[Gid, ...] = ()
    board: str = ""
    may_be_bridge: bool = False
    pci_address: str = ""
    pci_ids: str = ""
    pkeys: Tuple[int, ...] = ()
    iwarp: bool = False

    @property
    def design(self) -> str:
        """What ports of cards of one design have in common; empty where nobody says."""
        return self.board or self.pci_ids
