"""What one GPU says in several values at once. The names are those of NVML, the units are ours."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Tuple

from hwcheck.contract.facts import KernelMessage
from hwcheck.contract.reasons import NONE, Reason


class Mode(NamedTuple):
    """A setting that changes at the next reset: on now, and on after it."""

    current: bool
    pending: bool


class EccErrors(NamedTuple):
    """ECC errors: volatile since the driver was loaded, aggregate over the board's life."""

    volatile_corrected: int
    volatile_uncorrected: int
    aggregate_corrected: int
    aggregate_uncorrected: int


class RowRemap(NamedTuple):
    """Memory rows replaced by spare ones; ``banks_exhausted`` have no spare row left."""

    correctable: int
    uncorrectable: int
    pending: bool
    failure: bool
    banks_exhausted: Optional[int] = None


class RetiredPages(NamedTuple):
    """Pages taken out of use by cause; ``pending``: some wait for the next driver load."""

    single_bit: int
    double_bit: int
    pending: bool


class Clocks(NamedTuple):
    """Application clocks in MHz, and those that the board starts with."""

    graphics_mhz: int
    memory_mhz: int
    graphics_default_mhz: int
    memory_default_mhz: int


class NvLink(NamedTuple):
    """One NVLink; ``speed_gbps`` in 1e9 bytes/s each way where the link is active and says it."""

    link: int
    active: bool
    speed_gbps: Optional[float] = None


class P2PStatus(NamedTuple):
    """What one GPU may do in another's memory, in the codes of ``nvidia-smi topo -p2p``.

    ``OK``; ``CNS``, ``GNS``, ``TNS``: chipset, GPU or topology does not support it; ``DR``:
    disabled in the driver's settings; ``NS``: not supported; ``U``: unknown. None where this
    driver does not know the capability.
    """

    read: str
    write: str
    nvlink: Optional[str] = None
    atomics: Optional[str] = None


class NvLinkErrors(NamedTuple):
    """Error counters of one NVLink since it was reset; a counter that it lacks is left out."""

    link: int
    counters: Mapping[str, int]


class NvLinkRates(NamedTuple):
    """Bit error rates of one NVLink: of symbols, and after error correction (effective).

    A rate that the link does not give is None.
    """

    link: int
    symbol: Optional[float] = None
    effective: Optional[float] = None


class Fabric(NamedTuple):
    """Registration with an NVSwitch fabric: its state, its error, what is wrong with its health.

    ``state`` is ``not started``, ``in progress`` or ``completed``; ``status`` is ``Success`` or
    NVML's error; ``degraded`` and ``unhealthy`` list health flags by name. ``cluster_uuid`` is that
    of a fabric over several hosts, and empty on a fabric of one.
    """

    state: str
    status: str
    degraded: str = ""
    unhealthy: str = ""
    cluster_uuid: str = ""
    clique_id: Optional[int] = None


class RackPlace(NamedTuple):
    """Where a GPU is in a rack that NVLink spans, as ``nvidia-smi -q`` has it (Platform Info).

    ``chassis_serial`` is that of the rack; ``slot`` counts its places with those of switches,
    ``tray`` those of compute trays only, ``host`` the nodes of a tray, ``module`` the GPUs of a
    node.
    """

    chassis_serial: str
    slot: int
    tray: int
    host: int
    module: int


class GpuProcess(NamedTuple):
    """A process with a context; ``memory_bytes`` is None where the driver does not tell."""

    pid: int
    kind: str
    name: str
    memory_bytes: Optional[int]


class GpuEvent(NamedTuple):
    """What NVML reported by itself: ``kind`` as in ``nvml.events.KINDS``, ``code`` of an Xid.

    ``pci_address`` is empty where it is no GPU that NVML counts.
    """

    pci_address: str
    kind: str
    code: int = 0


class Reported(NamedTuple):
    """What the driver reported meanwhile, in order, in the kernel log and as NVML's events.

    The problems say why one of the two could not be listened to, or not for every GPU.
    """

    messages: Tuple[KernelMessage, ...] = ()
    log_problem: Reason = NONE
    events: Tuple[GpuEvent, ...] = ()
    events_problem: Reason = NONE
