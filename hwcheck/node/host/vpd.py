"""What a PCI device says of itself: its Vital Product Data, read from bytes."""

from __future__ import annotations

from typing import Dict

NAME, READ_ONLY, END = 0x82, 0x90, 0x78
"""Tags (PCI Local Bus Specification 3.0, appendix I)."""


def read(data: bytes) -> Dict[str, str]:
    """Return its fields by keyword (``PN``, ``SN``, ``EC``), and its name as ``name``.

    Data that is no VPD, or ends early, gives what comes before that.
    """
    fields: Dict[str, str] = {}
    at = 0
    while at + 3 <= len(data) and data[at] in (NAME, READ_ONLY):
        size = int.from_bytes(data[at + 1 : at + 3], "little")
        content = data[at + 3 : at + 3 + size]
        if data[at] == NAME:
            fields["name"] = _text(content)
        else:
            fields.update(_fields(content))
        at += 3 + size
    return fields


def _fields(content: bytes) -> Dict[str, str]:
    fields: Dict[str, str] = {}
    at = 0
    while at + 3 <= len(content):
        keyword, size = content[at : at + 2], content[at + 2]
        if keyword != b"RV":  # a checksum, and bytes that are not used
            fields[_text(keyword)] = _text(content[at + 3 : at + 3 + size])
        at += 3 + size
    return fields


def _text(data: bytes) -> str:
    return " ".join(data.decode("utf-8", "replace").replace("\0", " ").split())
