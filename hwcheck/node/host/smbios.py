"""What the firmware says of the machine's parts: the structures of SMBIOS, read from bytes."""

from __future__ import annotations

import re
from typing import Iterator, List, NamedTuple, Optional

from hwcheck.contract.facts import Part

BIOS, SYSTEM, BOARD, CHASSIS, PROCESSOR, MEMORY, POWER_SUPPLY, END = 0, 1, 2, 3, 4, 17, 39, 127
"""Types of structures (DMTF DSP0134, System Management BIOS Reference Specification, chapter 7)."""

POPULATED = 0x40
"""Bit of a processor's status: the socket is in use (7.5.5)."""

NOTHING = re.compile(
    r"(?:0+|x+|n/?a|none|null|empty|unknown|undefined|no dimm|not (?:specified|available|provided|"
    r"present|installed|set)|default string|to be filled.*|.*\bserial ?number|\W*)",
    re.IGNORECASE,
)
"""What makers write where they wrote nothing."""


class _Structure(NamedTuple):
    kind: int
    data: bytes
    strings: List[str]

    def text(self, offset: int) -> str:
        """Return the text that a byte numbers; empty where it says none, or the structure ends."""
        number = self.data[offset] if offset < len(self.data) else 0
        text = self.strings[number - 1] if 0 < number <= len(self.strings) else ""
        return "" if NOTHING.fullmatch(text) else text

    def number(self, offset: int, size: int) -> Optional[int]:
        """Return a number; None where the structure ends before it."""
        data = self.data[offset : offset + size]
        return int.from_bytes(data, "little") if len(data) == size else None


def parts(table: bytes) -> Iterator[Part]:
    """Yield the parts that a table names (``/sys/firmware/dmi/tables/DMI``).

    Sockets and slots without anything in them are left out.
    """
    structures = list(_structures(table))
    machine = next((_words(each, 4, 5) for each in structures if each.kind == SYSTEM), "")
    processors, boards, supplies = 0, 0, 0
    for each in structures:
        if each.kind == BIOS:
            yield Part("bios", machine, firmware=each.text(5))
        elif each.kind == SYSTEM:
            yield Part("system", machine, each.text(0x19), each.text(7))
        elif each.kind == BOARD:
            yield Part("board%d" % boards, _words(each, 4, 5), serial=each.text(7))
            boards += 1
        elif each.kind == CHASSIS:
            yield Part("chassis", each.text(4) or machine, serial=each.text(7))
        elif each.kind == PROCESSOR:
            if (each.number(0x18, 1) or 0) & POPULATED:
                yield Part("cpu%d" % processors, each.text(0x10), each.text(0x22), each.text(0x20))
            processors += 1
        elif each.kind == MEMORY and each.number(0x0C, 2):
            place = each.text(0x10) or "%d" % (each.number(2, 2) or 0)
            model = _words(each, 0x17, 0x1A)
            number, serial = each.text(0x1A), each.text(0x18)
            yield Part("memory " + place, model, number, serial, each.text(0x2B))
        elif each.kind == POWER_SUPPLY:
            number = each.text(0x0A)
            if number or each.text(8):
                yield Part("psu%d" % supplies, _words(each, 7, 6), number, each.text(8))
            supplies += 1


def _words(structure: _Structure, *offsets: int) -> str:
    return " ".join(filter(None, map(structure.text, offsets)))


def _structures(table: bytes) -> Iterator[_Structure]:
    """Yield the structures: a header of four bytes, data, texts that end at two zeros."""
    at = 0
    while at + 4 <= len(table):
        kind, length = table[at], table[at + 1]
        end = table.find(b"\0\0", at + length)
        if length < 4 or end < 0 or kind == END:
            return
        texts = table[at + length : end].split(b"\0")
        strings = [" ".join(text.decode("utf-8", "replace").split()) for text in texts]
        yield _Structure(kind, table[at : at + length], strings)
        at = end + 2
