"""All GPUs miss the links of one switch."""

from __future__ import annotations

from collections.abc import Iterator

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="An NVSwitch is out of use: every GPU lost the links that led to it",
    follows="every collective of the node runs on the links that are left",
    fix="reset GPUs and switches or reboot; when the switch stays away, have the baseboard "
    "repaired",
    confirm="nvidia-smi nvlink --status; lspci | grep -iE 'nvswitch|10de.*bridge'; sudo dmesg | "
    "grep SXid",
    source="NVIDIA Fabric Manager User Guide, High Availability Modes and GPU Baseboard Topologies",
)
def nvswitch_lost(case: Case) -> Sign | None:
    """Look for it. One GPU that lost links is another matter, and none that is up is the fabric."""
    own = case.bad("nvlink_state", "switch_links_active")
    gpus = {finding.subject for finding in own}
    lost = set(_lost(case))
    if len(gpus) < 2 or len(lost) != 1 or 0 in lost:
        return None
    xids = case.bad("xid", "fabric_events")
    links = case.bad("nvlink_state", "nvlink_links_active")
    also = [f"nvlink_state: {lost.pop()} links are down on each of {len(gpus)} GPUs"]
    return sign("likely", (*own, *links, *xids, *case.slow()), also)


def _lost(case: Case) -> Iterator[int]:
    active = case.values("nvlink_state", "switch_links_active")
    for gpu, links in case.values("nvlink_state", "switch_links").items():
        up = active.get(gpu)
        # A GPU with no link up at all has another trouble.
        if isinstance(links, int) and isinstance(up, int):
            yield links - up if up else 0
