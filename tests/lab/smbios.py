"""Bytes as a machine's firmware and its cards have them: SMBIOS structures, Vital Product Data."""

from __future__ import annotations

import struct
from collections.abc import Mapping


def structure(
    kind: int, size: int, texts: Mapping[int, str], numbers: Mapping[int, int] | None = None
) -> bytes:
    """Return a structure of so many bytes; texts and bytes are by their offset."""
    data = bytearray(size)
    data[0], data[1] = kind, size
    for number, offset in enumerate(texts, 1):
        data[offset] = number
    for offset, number in (numbers or {}).items():
        data[offset] = number
    strings = b"".join(text.encode() + b"\0" for text in texts.values()) or b"\0"
    return bytes(data) + strings + b"\0"


def vital_product_data(name: str, fields: Mapping[str, str]) -> bytes:
    """Return a device's name and its read-only fields, as PCI has them."""
    content = b"".join(
        key.encode() + bytes([len(text)]) + text.encode() for key, text in fields.items()
    )
    content += b"RV\x01\x5a"
    named = struct.pack("<BH", 0x82, len(name)) + name.encode()
    return named + struct.pack("<BH", 0x90, len(content)) + content + b"\x78"
