"""SXid errors of NVSwitches: what a number means and how bad it is.

Source: NVIDIA Fabric Manager User Guide (DU-09883-001, v1.3), appendix on errors: non-fatal, fatal,
always fatal and other notable NVSwitch SXid errors, with their impact and recovery, as sxid.go of
leptonai/gpud lists them. Numbers that only the open driver names (ctrl_dev_nvswitch.h) are marked.
"""

from __future__ import annotations

from typing import Dict, Tuple

FATAL = "fatal"
"""Traffic stalls until GPUs and NVSwitches are reset."""
NOTABLE = "notable"
HARMLESS = "harmless"

Entry = Tuple[str, str]
"""Meaning, and how bad it is where the driver says non-fatal: what it calls fatal is fatal. Of what
the guide calls fatal and the driver does not, notable is left."""

CORRECTED: Entry = ("a memory error in an NVSwitch, corrected", HARMLESS)
DOUBLE_BIT: Entry = ("a memory error in an NVSwitch that could not be corrected", NOTABLE)
PARITY: Entry = ("a parity error in an NVSwitch", NOTABLE)
ROUTE: Entry = ("a packet whose route, id or kind an NVSwitch does not accept", NOTABLE)
BUFFERS: Entry = ("buffers or credits of an NVSwitch over- or underran", NOTABLE)
CROSSBAR: Entry = ("the crossbar of an NVSwitch failed", NOTABLE)

CATALOG: Dict[int, Entry] = {
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
    CATALOG.update((_code, _entry) for _code in _codes)


def look_up(code: int, severity: str) -> Entry:
    """Return what an error means and how bad it is; ``severity`` is the driver's word.

    The driver knows the switch and the port, so its word comes first. Some of what it does not
    call fatal stalls a GPU all the same, and the number tells that.
    """
    fatal = severity.lower() != "non-fatal"
    meaning, known = CATALOG.get(code, ("an NVSwitch error", HARMLESS))
    text = "%s (%s by the driver's word)" % (meaning, severity.lower())
    return text, FATAL if fatal else known
