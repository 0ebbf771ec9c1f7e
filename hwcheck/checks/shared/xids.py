"""Xid and SXid messages of the NVIDIA driver: their shape, their meaning, and what they ask for.

The source of the Xids' actions is NVIDIA's Xid catalog for Ampere and newer
(https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, resolution buckets). Codes
that it calls unused are left out: on older boards they exist, and here they are unknown.

That of the SXids of NVSwitches is NVIDIA's Fabric Manager User Guide (DU-09883-001, v1.3), appendix
on errors: non-fatal, fatal, always fatal and other notable NVSwitch SXid errors, with their impact
and recovery, as sxid.go of leptonai/gpud lists them. Numbers that only the open driver names
(ctrl_dev_nvswitch.h) are marked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Dict, Iterable, List, Match, Optional, Tuple

RESTART = "restart the node"
RESET = "reset the GPU"
REPAIR = "check power cables and seating"
WATCH = "watch it, and ask the vendor when it comes back"
APPLICATION = "look at the application first"
NOTHING = "nothing"
FABRIC = "reset the GPUs and NVSwitches, or restart the node"

ENGINE = "an engine of the GPU failed while it ran an application"
NVLINK = "an NVLink error; the message says how bad"

XID_CATALOG: Dict[int, Tuple[str, str]] = {
    8: ("the GPU stopped processing", APPLICATION),
    11: ("a damaged command stream", APPLICATION),
    13: ("the application made an access or instruction that is not allowed", APPLICATION),
    14: ("an error made on purpose, for a test", NOTHING),
    25: ("a damaged command stream", APPLICATION),
    31: ("the application used an address that is not mapped", APPLICATION),
    32: ("a damaged command stream; often the PCIe link", APPLICATION),
    37: ("the driver's firmware refused a command", NOTHING),
    38: ("the driver's firmware timed out", NOTHING),
    43: ("the application was ended after a fault of its own", NOTHING),
    44: ("a fault while contexts were switched", NOTHING),
    45: ("work was removed because its process ended or another error came first", NOTHING),
    46: ("the GPU stopped processing", RESET),
    48: ("a memory error that could not be corrected", RESET),
    54: ("auxiliary power is not connected", REPAIR),
    62: ("a microcontroller of the GPU halted", RESET),
    63: ("a memory row was remapped, or a page retired", NOTHING),
    64: ("a memory row could not be remapped, or a page not retired", RESET),
    66: ("the driver made an access that is not allowed", NOTHING),
    67: ("the driver made an access that is not allowed", NOTHING),
    69: ("a graphics class error", APPLICATION),
    74: ("an NVLink failed, at this end or the other", RESET),
    78: ("a vGPU did not start", WATCH),
    79: ("the GPU fell off the bus", RESTART),
    80: ("the GPU was sent damaged data", APPLICATION),
    92: ("many memory errors that could be corrected", WATCH),
    93: ("the InfoROM's wear limit is reached", NOTHING),
    94: ("a memory error that hit one application", APPLICATION),
    95: ("a memory error that may have hit every application", RESET),
    106: ("a test message", NOTHING),
    107: ("a test message", NOTHING),
    108: ("an NVLink address was not translated at the other end", NOTHING),
    109: ("a context switch timed out", RESET),
    110: ("a security fault; rare without a hardware fault", RESET),
    119: ("the GPU's system processor did not answer", RESET),
    120: ("the GPU's system processor failed", RESET),
    121: ("errors on the link to the Grace CPU, all corrected", NOTHING),
    136: ("an NVLink did not train", RESET),
    137: ("an NVLink access that is not allowed; mostly the application", NOTHING),
    140: ("memory errors that could not be corrected or set aside", RESET),
    141: ("a fast path of CUDA failed", NOTHING),
    143: ("the GPU did not initialize", RESET),
    151: ("the rotation of confidential computing's keys failed", RESTART),
    # Also logged when a link is taken down on purpose: no proof of a fault.
    155: ("an NVLink went down by software", WATCH),
    156: ("a resource was retired and is out of use after a reset", RESET),
    157: ("a resource could not be retired", WATCH),
    158: ("a timeout that the GPU does not survive", RESET),
    159: ("an error on the link between CPU and GPU", WATCH),
    160: ("a memory channel was retired", NOTHING),
    161: ("a memory channel could not be retired", NOTHING),
    162: ("power smoothing is on again", NOTHING),
    163: ("power smoothing is off", NOTHING),
    164: ("power smoothing is near the end of its life", WATCH),
    165: ("power smoothing is at the end of its life", WATCH),
    167: ("a PCIe timeout that the GPU does not survive", WATCH),
    168: ("the GPU has less memory than it should", WATCH),
    169: ("a microcontroller of the GPU halted", WATCH),
    170: ("an interrupt of the NVLink security in confidential computing", WATCH),
    171: ("where the memory error of Xid 48 was: DRAM", NOTHING),
    172: ("where the memory error of Xid 48 was: SRAM", NOTHING),
}
XID_CATALOG.update(
    (code, (ENGINE, APPLICATION))
    for code in (
        *(39, 40, 41, 60, 68, 70, 71, 72, 75, 76, 77, 82, 83, 84, 85, 86, 88, 89),
        *(*range(96, 106), *range(126, 136), 139, 142),
    )
)
XID_CATALOG.update((code, (NVLINK, RESET)) for code in range(144, 151))

NVLINK5 = re.compile(
    r"(?P<unit>[A-Z][A-Z0-9_]{1,30}(?: Degraded)?)\s+(?P<severity>Fatal|Non-?fatal)"
    r"\s+XC\s*\d{1,2}\s+i\s*(?P<injected>\d{1,2})\s+Link\s+(?P<link>\d{1,3})"
    r"(?:\s*[([](?P<info>0x[0-9a-fA-F]{1,8})(?:\s+(?P<status>0x[0-9a-fA-F]{1,8}))?)?",
    re.IGNORECASE,
)
"""Words of Xid 144 to 150: sub-unit, severity, whether it was injected, link, interrupt and error
status (the catalog, XID 144-150 Decode)."""

SIGNAL = "look at the link's signal, cable and transceiver"
PEER = "the other end of the link took it down: look there"
SOFTWARE = "software or somebody took the link down: ask whether it was meant"
LINK_DOWN: Dict[int, str] = {
    1: "an issue for NVIDIA when it comes more than once a day",
    **dict.fromkeys((2, 4, 10, 42, 43), SIGNAL),
    **dict.fromkeys((15, 17, 22, 38), SOFTWARE),
    **dict.fromkeys((16, 18), SOFTWARE + ", and else " + SIGNAL),
    **dict.fromkeys((21, 32, 33, 34, 35, 36, 37), PEER),
    40: "the host reports it: look in its other logs",
}
"""Why a link went down, by bits 20 to 25 of the interrupt of a NETIR link event."""
LINK_DOWN_UNITS = ("NETIR_LINK_EVT", "NETIR_LINK_DOWN")
LINK_DOWN_IGNORED = (38, 40)
"""Those of which the catalog says IGNORE whatever the severity."""

BY_XID_154 = "an Xid 154 beside it says what to do; without one restart the application"
EVALUATED: Dict[str, int] = {"RLW_REMAP": 0x3F, "RLW_SRC_TRACK": 0xC}
"""Error status bits by which the catalog says XID_154_EVAL, by sub-unit."""

RECOVERY = 154
RECOVERY_ACTIONS = {0: NOTHING, 1: RESET, 2: RESTART, 3: RESET, 4: RESET, 6: RESET, 7: RESTART}
"""What the driver now wants, by nvmlDeviceGpuRecoveryAction_t; 0: what came before is repaired.

Xid 154 has the number too, and words that change with the driver: 2 is Node Reboot Required, and
OS Reboot since R610.
"""

BURST_S = 180.0

FATAL = "fatal"
"""Traffic stalls until GPUs and NVSwitches are reset."""
NOTABLE = "notable"
HARMLESS = "harmless"

SxidEntry = Tuple[str, str]
"""Meaning, and how bad it is where the driver says non-fatal: what it calls fatal is fatal. Of what
the guide calls fatal and the driver does not, notable is left."""

CORRECTED: SxidEntry = ("a memory error in an NVSwitch, corrected", HARMLESS)
DOUBLE_BIT: SxidEntry = ("a memory error in an NVSwitch that could not be corrected", NOTABLE)
PARITY: SxidEntry = ("a parity error in an NVSwitch", NOTABLE)
ROUTE: SxidEntry = ("a packet whose route, id or kind an NVSwitch does not accept", NOTABLE)
BUFFERS: SxidEntry = ("buffers or credits of an NVSwitch over- or underran", NOTABLE)
CROSSBAR: SxidEntry = ("the crossbar of an NVSwitch failed", NOTABLE)

SXID_CATALOG: Dict[int, SxidEntry] = {
    10001: ("an access to an NVSwitch's registers failed; a fatal error may follow", NOTABLE),
    10002: ("an access to an NVSwitch's registers timed out; a fatal error may follow", NOTABLE),
    10003: ("an interrupt of an NVSwitch that nobody handles", FATAL),
    10004: ("an NVSwitch is too warm, and its links may slow down; see to the cooling", NOTABLE),
    10005: ("an NVSwitch is no longer too warm", HARMLESS),
    10006: ("an NVSwitch switched off because it was too hot", NOTABLE),  # driver
    10007: ("input or output of an NVSwitch failed", NOTABLE),  # driver
    11001: ("a command that the NVSwitch does not know", NOTABLE),
    # Not fatal to the fabric, but the GPU's NVLink traffic stalls until it is reset.
    11004: ("a packet that the fabric's partitions forbid: fabric manager is misconfigured", FATAL),
    12028: ("a packet was refused; the GPU's NVLink traffic stalls", FATAL),
    14017: ("a transaction timed out in an NVSwitch", NOTABLE),
    19084: ("a link's heartbeat stopped", FATAL),
    20001: ("a packet was sent again over an NVLink", HARMLESS),
    20009: ("an NVLink received many errors within a short time", HARMLESS),  # driver
    20012: ("a connection broke, or one end of it was shut down alone", NOTABLE),
    20034: ("an NVLink went down; mostly with other NVLink errors", NOTABLE),
    22003: ("the controller of an NVSwitch's links halted", NOTABLE),
    22011: ("the controller of an NVSwitch's links failed", NOTABLE),
    22012: ("a connection broke, or one end of it was shut down alone", NOTABLE),
    22013: ("a request of a link to its controller", HARMLESS),
    24007: ("a request over an NVLink got no answer in time", NOTABLE),
}
for _entry, _codes in (
    (
        CORRECTED,
        (
            *(11012, 11021, 11022, 11023, 12021, 12023, 15008, 15011, 19049, 19055, 19057),
            *(19059, 19062, 19065, 19068, 19071, 24001, 24002, 24003),
        ),
    ),
    (
        DOUBLE_BIT,
        (
            *(11013, 11018, 11019, 12022, 12024, 15009, 15012, 19047, 19048, 19054, 19056),
            *(19058, 19060, 19061, 19063, 19064, 19066, 19067, 19069, 19070, 24004, 24005, 24006),
        ),
    ),
    (PARITY, (11020, 12030, 12031, 15010, 15013)),
    (ROUTE, (11009, 12002, 12020, 12026, 12027, 12032)),
    (BUFFERS, (12001, 12025, 15001, 15006)),
    (CROSSBAR, tuple(range(23001, 23018))),
):
    SXID_CATALOG.update((_code, _entry) for _code in _codes)

SXID_ACTIONS = {FATAL: FABRIC, NOTABLE: WATCH, HARMLESS: NOTHING}

UNKNOWN = ("not in the catalog of this version", WATCH)

XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F]{4,8}(?::[0-9a-fA-F]{2}){2})[^)]*\): (\d+)(.*)")
SXID = re.compile(
    r"nvidia-nvswitch\d+: SXid \(PCI:([0-9a-f:.]+)\): (\d+), (non-fatal|always fatal|fatal)\b",
    re.IGNORECASE,
)
"""More lines with the same code follow, with registers and without this word."""


ADDRESS = r"(?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?"
OFF_THE_BUS = re.compile(
    r"NVRM: (?:The NVIDIA GPU|GPU at|GPU) %s\b.*fallen off the bus" % ADDRESS, re.DOTALL
)
"""Without an Xid where the driver finds it so as it is loaded: the message has three lines, which
are one record (NVIDIA/NVSentinel#155)."""
NOT_STARTED = re.compile(
    r"NVRM: GPU %(at)s: (?:RmInitAdapter|rm_init_adapter) failed"
    r"|nvidia: probe of %(at)s failed with error"
    r"|nvidia %(at)s: probe with driver nvidia failed with error"
    r"|NVRM: (?:GPU\d{1,3} )?RmInitAdapter: Cannot initialize GSP firmware RM" % {"at": ADDRESS}
)
"""In NVIDIA/gpu-operator#1146 and NVIDIA/open-gpu-kernel-modules#1230, and there in
arch/nvalloc/unix/src/osinit.c (RmInitAdapter; the number is the driver's own, not NVML's); what the
kernel says of a driver that does not take a device (drivers/base/dd.c, before and from Linux 6.10
on)."""
REFUSED = "the driver could not start the GPU"
NO_ADDRESSES = re.compile(
    r"NVRM: (?:This PCI I/O region assigned to your NVIDIA device is invalid:"
    r"(?:.{0,40}NVRM: BAR\d is \d{1,9}M @ 0x[0-9a-f]{1,16} \(%(at)s\))?"
    r"|BAR\d is \d{1,9}M @ 0x[0-9a-f]{1,16} \(%(at)s\))" % {"at": ADDRESS},
    re.DOTALL,
)
"""Two lines of one message, or each for itself (NVIDIA/open-gpu-kernel-modules,
kernel-open/nvidia/nv-pci.c, nv_pci_probe)."""
UNMAPPED = "a window of the GPU (BAR) was given no address on the bus"


@dataclass(frozen=True)
class XidEvent:
    """One Xid (of ``kind`` xid) or SXid (sxid) of a device, and what it asks for.

    Of ``kind`` driver or bar it is a message without such a number: of a GPU that was not started,
    or that was given no addresses. It may not name the GPU. ``process`` is the id of the process
    that ran, where the message names it.
    """

    kind: str
    code: int
    pci_address: str
    meaning: str
    action: str
    process: str = field(default="", compare=False)

    @property
    def subject(self) -> str:
        """``pci 0000:18:00.0 xid 79``."""
        gpu = "pci %s" % self.pci_address if self.pci_address else "a GPU"
        if self.kind == "driver":
            return gpu + " not started"
        if self.kind == "bar":
            return gpu + " without addresses"
        return "pci %s %s %d" % (self.pci_address, self.kind, self.code)


def parse(text: str) -> Optional[XidEvent]:
    """Return the event of a kernel message, or None where it is none."""
    match = XID.match(text)
    if match:
        code = int(match.group(2))
        meaning, action = _xid_meaning(code, match.group(3))
        process = re.search(r"\bpid='?(\d+)", match.group(3))
        address = match.group(1).lower() + ".0"
        return XidEvent("xid", code, address, meaning, action, process.group(1) if process else "")
    match = SXID.match(text)
    if match:
        code = int(match.group(2))
        meaning, severity = _sxid_meaning(code, match.group(3))
        action = SXID_ACTIONS[severity]
        return XidEvent("sxid", code, match.group(1).lower(), meaning, action)
    match = OFF_THE_BUS.match(text)
    if match:
        return by_code(79, _function(match.group(1)))
    match = NOT_STARTED.match(text)
    if match:
        return XidEvent("driver", 0, _named(match), REFUSED, WATCH)
    match = NO_ADDRESSES.match(text)
    if match:
        return XidEvent("bar", 0, _named(match), UNMAPPED, WATCH)
    return None


def _named(match: Match[str]) -> str:
    """Return the address of the GPU that a message names, or an empty text."""
    address = next(filter(None, match.groups()), "")
    return _function(address) if address else ""


def _function(address: str) -> str:
    """Return the first function of a device as sysfs spells it: NVML pads the domain with zeros."""
    return address.lower()[-10:] + ".0"


def by_code(code: int, pci_address: str) -> XidEvent:
    """Return the event of a GPU of which nothing but the Xid's number is known."""
    return XidEvent("xid", code, pci_address, *_xid_meaning(code, ""))


def outstanding(events: Iterable[XidEvent]) -> Tuple[List[XidEvent], int]:
    """Leave out what a later repair settled; return the rest and how many were left out.

    A GPU whose recovery action went back to none (Xid 154) has been reset. A message that names no
    GPU is left out where another of its kind names one: it is the same story.
    """
    left: List[XidEvent] = []
    settled = 0
    for event in events:
        if (event.kind, event.code, event.action) == ("xid", RECOVERY, NOTHING):
            rest = [one for one in left if one.pci_address != event.pci_address]
            settled += len(left) - len(rest)
            left = rest
        else:
            left.append(event)
    named = {event.kind for event in left if event.pci_address}
    return [event for event in left if event.pci_address or event.kind not in named], settled


def _xid_meaning(code: int, rest: str) -> Tuple[str, str]:
    if code == RECOVERY:
        wanted = re.search(r" to 0x(\d+)", rest)
        action = RECOVERY_ACTIONS.get(int(wanted.group(1), 16) if wanted else -1, WATCH)
        return "what the driver wants now: " + action, action
    meaning, action = XID_CATALOG.get(code, UNKNOWN)
    if meaning == NVLINK:
        decoded = NVLINK5.search(rest)
        if decoded:
            return _nvlink5_meaning(decoded)
        if re.search(r"non-?fatal", rest, re.IGNORECASE):
            action = NOTHING
    return meaning, action


def _nvlink5_meaning(words: Match[str]) -> Tuple[str, str]:
    """Return what an NVLink 5 error means and asks for, by its sub-unit and its status."""
    unit, fatal = words["unit"].upper(), words["severity"].lower() == "fatal"
    info, status = (int(words[name] or "0", 16) for name in ("info", "status"))
    action, why = RESET if fatal else NOTHING, ""
    if unit in LINK_DOWN_UNITS and words["info"]:
        reason = info >> 20 & 0x3F
        why = LINK_DOWN.get(reason, "other errors beside it come first")
        if reason in LINK_DOWN_IGNORED:
            action = NOTHING
    elif unit == "NETIR_BER_EVENT":
        why = SIGNAL
    elif unit == "RLW_RXPIPE" and status & 7 and _second_action(info):
        action = RESET
    elif not fatal and status & EVALUATED.get(unit, 0):
        why = BY_XID_154
    severity = "fatal" if fatal else "not fatal"
    text = "an NVLink error in %s on link %d, %s" % (unit, int(words["link"]), severity)
    if int(words["injected"]):
        text += ", injected for a test"
    return "; ".join(filter(None, [text, why])), action


def _second_action(info: int) -> bool:
    """Whether the receive pipe asks for a reset: bit 7 of RLW_RXPIPE, bit 10 before R575."""
    return info & 0xFF == 0x86 or info & 0x7FF == 0x4C2


def incidents(ages_s: Iterable[float]) -> int:
    """Count the bursts among events: those within three minutes of one another are one.

    One fault makes several GPUs and processes speak (NVIDIA Fleet Intelligence counts alike).
    """
    count, last = 0, None
    for age_s in sorted(ages_s):
        count += last is None or age_s - last > BURST_S
        last = age_s
    return count


def _sxid_meaning(code: int, severity: str) -> SxidEntry:
    """Return what an error means and how bad it is; ``severity`` is the driver's word.

    The driver knows the switch and the port, so its word comes first. Some of what it does not
    call fatal stalls a GPU all the same, and the number tells that.
    """
    fatal = severity.lower() != "non-fatal"
    unlisted = ("an NVSwitch error that is not in the catalog of this version", NOTABLE)
    meaning, severity_of_number = SXID_CATALOG.get(code, unlisted)
    text = "%s (%s by the driver's word)" % (meaning, severity.lower())
    return text, FATAL if fatal else severity_of_number
