"""Xid and SXid messages of the NVIDIA driver: their shape, their meaning, and what they ask for.

The source of the actions is NVIDIA's Xid catalog for Ampere and newer
(https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, resolution buckets). Codes
that it calls unused are left out: on older boards they exist, and here they are unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, Iterable, List, Optional, Tuple

from hwcheck.node import sxids

WORDS = ("NVRM: Xid", "SXid (")

RESTART = "restart the node"
RESET = "reset the GPU"
REPAIR = "check power cables and seating"
WATCH = "watch it, and ask the vendor when it comes back"
APPLICATION = "look at the application first"
NOTHING = "nothing"
FABRIC = "reset the GPUs and NVSwitches, or restart the node"

ENGINE = "an engine of the GPU failed while it ran an application"
NVLINK = "an NVLink error; the message says how bad"

CATALOG: Dict[int, Tuple[str, str]] = {
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
    171: ("where the memory error of Xid 48 was: DRAM", NOTHING),
    172: ("where the memory error of Xid 48 was: SRAM", NOTHING),
}
CATALOG.update(
    (code, (ENGINE, APPLICATION))
    for code in (
        *(39, 40, 41, 60, 68, 70, 71, 72, 75, 76, 77, 82, 83, 84, 85, 86, 88, 89),
        *(*range(96, 106), *range(126, 136), 139, 142),
    )
)
CATALOG.update((code, (NVLINK, RESET)) for code in range(144, 151))

RECOVERY = 154
RECOVERY_ACTIONS = {0: NOTHING, 1: RESET, 2: RESTART, 3: RESET, 4: RESET, 6: RESET, 7: RESTART}
"""What the driver now wants, by nvmlDeviceGpuRecoveryAction_t; 0: what came before is repaired.

Xid 154 has the number too, and words that change with the driver: 2 is Node Reboot Required, and
OS Reboot since R610.
"""

SXID_ACTIONS = {sxids.FATAL: FABRIC, sxids.NOTABLE: WATCH, sxids.HARMLESS: NOTHING}

UNKNOWN = ("not in the catalog of this version", WATCH)

XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F]{4,8}(?::[0-9a-fA-F]{2}){2})[^)]*\): (\d+)(.*)")
SXID = re.compile(
    r"nvidia-nvswitch\d+: SXid \(PCI:([0-9a-f:.]+)\): (\d+), (non-fatal|always fatal|fatal)\b",
    re.IGNORECASE,
)
"""More lines with the same code follow, with registers and without this word."""


@dataclass(frozen=True)
class Event:
    """One Xid (of ``kind`` xid) or SXid (sxid) of a device, and what it asks for."""

    kind: str
    code: int
    pci_address: str
    meaning: str
    action: str

    @property
    def subject(self) -> str:
        """``pci 0000:18:00.0 xid 79``."""
        return "pci %s %s %d" % (self.pci_address, self.kind, self.code)


def parse(text: str) -> Optional[Event]:
    """Return the event of a kernel message, or None where it is none."""
    found = XID.match(text)
    if found:
        code = int(found.group(2))
        meaning, action = _meaning(code, found.group(3))
        return Event("xid", code, found.group(1).lower() + ".0", meaning, action)
    found = SXID.match(text)
    if found:
        code = int(found.group(2))
        meaning, severity = sxids.look_up(code, found.group(3))
        action = SXID_ACTIONS[severity]
        return Event("sxid", code, found.group(1).lower(), meaning, action)
    return None


def by_code(code: int, pci_address: str) -> Event:
    """Return the event of a GPU of which nothing but the Xid's number is known."""
    return Event("xid", code, pci_address, *_meaning(code, ""))


def outstanding(events: Iterable[Event]) -> Tuple[List[Event], int]:
    """Leave out what a later repair settled; return the rest and how many were left out.

    A GPU whose recovery action went back to none (Xid 154) has been reset.
    """
    left: List[Event] = []
    settled = 0
    for event in events:
        if (event.kind, event.code, event.action) == ("xid", RECOVERY, NOTHING):
            rest = [one for one in left if one.pci_address != event.pci_address]
            settled += len(left) - len(rest)
            left = rest
        else:
            left.append(event)
    return left, settled


def _meaning(code: int, rest: str) -> Tuple[str, str]:
    if code == RECOVERY:
        wanted = re.search(r" to 0x(\d+)", rest)
        action = RECOVERY_ACTIONS.get(int(wanted.group(1), 16) if wanted else -1, WATCH)
        return "what the driver wants now: " + action, action
    meaning, action = CATALOG.get(code, UNKNOWN)
    if meaning == NVLINK and re.search(r"non-?fatal", rest, re.IGNORECASE):
        action = NOTHING
    return meaning, action
