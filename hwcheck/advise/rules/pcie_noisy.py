"""A PCIe link repeats what it sends."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="A PCIe link has a bad contact: packets are damaged and sent again",
    follows="bandwidth is lost, and the link may come down under a job (Xid 79)",
    fix="watch whether the counts grow under load; reseat or replace riser and cables, swap "
    "slots to see whether it follows the board",
    confirm="sudo lspci -vv | grep -E 'UESta|CESta'; sudo dmesg | grep -i aer; nvidia-smi -q | "
    "grep -i replay",
    source="Linux kernel, Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats; NVIDIA "
    "DCGM, PCIe plugin (80 replays)",
)
def pcie_noisy(case: Case) -> Sign | None:
    """Look for it. Replays and AER counters are two views of one contact."""
    own = (
        *case.bad("pcie_aer"),
        *case.bad("pcie_errors"),
        *case.bad("errors_under_load", "new_pcie_replays"),
    )
    return sign("likely", own)
