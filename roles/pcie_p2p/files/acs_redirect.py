#!/usr/bin/env python3
"""Clear redirection by PCIe access control on the bridges above GPUs and RDMA cards.

usage: hwcheck-acs-redirect check|apply. Prints each bridge whose register that changes, or would.
Source validation and the other bits stay as they are. Needs root: only root sees the whole
configuration space. Python 3.6 or newer and nothing else.
"""

import os
import struct
import sys

DEVICES = "/sys/bus/pci/devices"
NVIDIA = "0x10de"
MELLANOX = "0x15b3"
GPUS = ("0x0300", "0x0302")
CARDS = ("0x0200", "0x0207")
REDIRECT = 0x0004 | 0x0008 | 0x0020
"""P2P Request Redirect, P2P Completion Redirect, P2P Egress Control (PCI Express Base
Specification, ACS Control Register)."""
ACS = 0x000D
EXTENDED = 0x100
CONTROL = 6


def word(address, name):
    """Return a file of a device; empty where there is none."""
    try:
        with open(os.path.join(DEVICES, address, name)) as stream:
            return stream.read().strip()
    except OSError:
        return ""


def concerned(address):
    """Return whether a device is a GPU or a card with RDMA."""
    kind = word(address, "class")[:6]
    vendor = word(address, "vendor")
    if (vendor == NVIDIA and kind in GPUS) or (vendor == MELLANOX and kind in CARDS):
        return True
    return os.path.isdir(os.path.join(DEVICES, address, "infiniband"))


def bridges(address):
    """Return the bridges above a device, the nearest first."""
    folder = os.path.dirname(os.path.realpath(os.path.join(DEVICES, address)))
    while os.path.exists(os.path.join(folder, "vendor")):
        yield os.path.basename(folder)
        folder = os.path.dirname(folder)


def control_offset(space):
    """Return where the ACS control register lies; None without the capability."""
    offset, seen = EXTENDED, set()
    while EXTENDED <= offset <= len(space) - 8 and offset not in seen:
        seen.add(offset)
        (header,) = struct.unpack_from("<I", space, offset)
        if header in (0, 0xFFFFFFFF):
            return None
        if header & 0xFFFF == ACS:
            return offset + CONTROL
        offset = (header >> 20) & 0xFFC
    return None


def clear(bridge, apply):
    """Clear the bits of one bridge; print it where that is a change."""
    path = os.path.join(DEVICES, bridge, "config")
    with open(path, "r+b" if apply else "rb", buffering=0) as stream:
        offset = control_offset(stream.read(4096))
        if offset is None:
            return
        stream.seek(offset)
        (control,) = struct.unpack("<H", stream.read(2))
        if not control & REDIRECT:
            return
        if apply:
            stream.seek(offset)
            stream.write(struct.pack("<H", control & ~REDIRECT))
        print(f"{bridge}: 0x{control:04x} -> 0x{control & ~REDIRECT:04x}")


def main():
    """Return the exit code."""
    if sys.argv[1:] not in (["check"], ["apply"]):
        print("usage: hwcheck-acs-redirect check|apply", file=sys.stderr)
        return 2
    devices = sorted(filter(concerned, os.listdir(DEVICES)))
    for bridge in sorted({bridge for device in devices for bridge in bridges(device)}):
        clear(bridge, sys.argv[1] == "apply")
    return 0


sys.exit(main())
