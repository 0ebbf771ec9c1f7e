"""Some NVLinks of a GPU are not up."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="NVLinks are down: a bridge or board that is not seated, or a link that failed",
    follows="that GPU is the slowest of every collective, and the whole node runs at its speed",
    fix="read the kernel log for Xid 74 and SXid; reset the GPUs (all of a baseboard at once) "
    "or reboot; reseat bridge or board, then have it replaced; never disable NVLink to "
    "get by",
    confirm="nvidia-smi nvlink --status; nvidia-smi topo -m; sudo dmesg | grep -E 'Xid|SXid'",
    source="NVML API Reference Guide, nvmlDeviceGetNvLinkState; NVIDIA/nccl issue 2329",
)
def nvlink_down(case: Case) -> Sign | None:
    """Look for it. Where all GPUs have lost some, it is rather a switch or the fabric."""
    metrics = ("nvlink_links_active", "switch_links_active", "nvlink_speed_gbps")
    own = case.bad("nvlink_state", *metrics)
    pairs = case.bad("topology", "nvlinks", "nvlinks_unanswered")
    if not own and not pairs:
        return None
    xids = [finding for finding in case.bad("xid") if finding.subject.endswith("xid 74")]
    everywhere = {f.subject for f in own} >= set(case.values("nvlink_state", "nvlink_links_active"))
    slow = case.bad("gpu_pairs", "p2p_percent_of_alike")
    copies = [finding for finding in slow if case.linked(finding.subject)]
    explained = (*own, *pairs, *xids, *copies, *case.slow())
    return sign("possible" if everywhere else "likely", explained)
