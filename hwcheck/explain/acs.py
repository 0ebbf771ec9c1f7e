"""ACS of PCIe bridges in the output of ``lspci -vvv``. Pure.

Redirection of requests or completions sends P2P through the root complex and the IOMMU, SrcValid
alone does not (PCI Express Base Specification, Access Control Services).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hwcheck.text import count, line

MOST_NAMED = 8
_CONTROL = re.compile(r"\bACSCtl:\s*([A-Za-z+ -]{1,200})")
_DEVICE = re.compile(r"((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (\S.{0,100})")
_REDIRECT = ("ReqRedir+", "CmpltRedir+", "EgressCtrl+")


def notes(text: str) -> tuple[str, ...]:
    """Return what the text says of ACS; nothing where it is no output of lspci."""
    return tuple(_notes(text))


def _notes(text: str) -> Iterator[str]:
    bridges, hidden, redirecting = 0, 0, []
    device = ""
    for raw in text.splitlines():
        row = raw[:400]
        device_row = _DEVICE.match(row)
        if device_row:
            device = device_row.group(1)
            hidden += "PCI bridge" in device_row.group(2)
        control = _CONTROL.search(row)
        if control:
            bridges += 1
            if any(word in control.group(1).split() for word in _REDIRECT):
                redirecting.append(device or f"line with {line(control.group(1), 60)}")
    if not bridges:
        if hidden and "access denied" in text:
            yield "lspci hides ACS from whoever is not root: whether P2P is redirected is unknown"
        return
    if not redirecting:
        yield (
            f"ACS redirects nothing on {count(bridges, 'bridge')} (ReqRedir-, CmpltRedir-): P2P "
            "goes the short way"
        )
        return
    named = ", ".join(line(each, 40) for each in dict.fromkeys(redirecting[:MOST_NAMED]))
    yield (
        f"ACS redirects P2P on {len(redirecting)} of {count(bridges, 'bridge')} ({named}): it goes "
        "through the CPU and the IOMMU, where it is slow, hangs or corrupts; on bare metal turn "
        "ACS off on the bridges of the GPUs (setpci -s BRIDGE ECAP_ACS+6.w=0000, or the firmware)"
    )
