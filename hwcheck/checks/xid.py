"""The driver reported no fault since the node booted."""

from __future__ import annotations

from typing import Dict, Iterator, List, Set

from hwcheck.checks.shared import xids
from hwcheck.contract.check import CouldNotMeasure, Metric, Remedy, check, in_words
from hwcheck.contract.facts import DRIVER_WORDS
from hwcheck.contract.limits import AtMost
from hwcheck.contract.reasons import LOG_LOST
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

CATALOG = "NVIDIA, Xid Errors, Xid catalog: resolution bucket "
SXID = "NVIDIA Fabric Manager User Guide, NVSwitch SXid errors: "
HOUR_S = 3600.0
RECENT_HOURS = 24.0

METRICS = {
    xids.RESTART: "restart_events",
    xids.RESET: "reset_events",
    xids.FABRIC: "fabric_events",
    xids.REPAIR: "repair_events",
    xids.WATCH: "watch_events",
    xids.APPLICATION: "application_events",
    xids.NOTHING: "other_events",
}
JUDGED = ("restart_events", "reset_events", "fabric_events", "repair_events", "watch_events")
OLD = "old_reset_events"
MESSAGE_LIMIT = 10_000

REPEATED = (13, 31, 43, 45, 94)
"""Mostly the application's; on one GPU alone, with many applications, the GPU's."""
LEAST_GPUS = 4


@check(
    metrics=[
        Metric(
            "restart_events",
            "events",
            "events that only a restart of the node repairs, and it was not restarted since",
            (AtMost(CATALOG + "RESTART_BM and RESTART_VM, and what Xid 154 says", fail=0),),
            required=True,
        ),
        Metric(
            "reset_events",
            "events",
            "events of the last day that a reset of the GPU repairs",
            (AtMost(CATALOG + "RESET_GPU, and what Xid 154 says", fail=0),),
            required=True,
        ),
        Metric(
            OLD,
            "events",
            "older events of that kind",
            (
                AtMost(
                    CATALOG + "RESET_GPU; a reset leaves no trace in the log of older drivers, and "
                    "after a day somebody has most likely seen to it",
                    warn=0,
                    confidence="derived",
                ),
            ),
            required=True,
        ),
        Metric(
            "fabric_events",
            "events",
            "NVSwitch errors that stall traffic until GPUs and NVSwitches are reset",
            (AtMost(SXID + "fatal, always fatal, and non-fatal ones with that impact", fail=0),),
            required=True,
        ),
        Metric(
            "repair_events",
            "events",
            "events that hands must repair",
            (AtMost(CATALOG + "CHECK_MECHANICALS", fail=0),),
            required=True,
        ),
        Metric(
            "watch_events",
            "events",
            "events to watch, and codes that the catalog of this version does not know",
            (
                AtMost(
                    CATALOG + "CONTACT_SUPPORT and UPDATE_SWFW as the next step; %sother notable "
                    "ones and broken connections" % SXID,
                    warn=0,
                    confidence="derived",
                ),
            ),
            required=True,
        ),
        Metric("application_events", "events", "events that an application caused or bore"),
        Metric("other_events", "events", "events that ask for nothing, or follow another"),
        Metric(
            "settled_events",
            "events",
            "events that a later reset of the GPU repaired",
            required=True,
        ),
        Metric(
            "incidents",
            "events",
            "bursts of all events of the log: those within three minutes of one another are one",
        ),
        Metric(
            "repeated_events",
            "events",
            "processes that ended with one code on one GPU alone, which is harmless by itself",
            (
                AtMost(
                    "derived from NVIDIA Xid catalog, Xids 13, 31, 43, 45 and 94 (mostly the "
                    "application's; the GPU's where they go on with other applications): that five "
                    "processes chance upon the same one of four GPUs has the odds of 1 to 256",
                    warn=4,
                    confidence="derived",
                ),
            ),
        ),
        in_words("what the code means and asks for"),
        Metric("log_complete", "", "whether the log still goes back to the boot", required=True),
    ],
    remedy=Remedy(
        cause="a fault of the board, its memory, its links or its power; see the meaning of each",
        fix="drain the node and do what the meaning says; when the same code comes back after "
        "that, have the board examined",
        command="sudo dmesg --ctime | grep -E 'NVRM: Xid|SXid'",
    ),
    group="GPUs",
    proof="events",
)
def xid(node: Node) -> Iterator[Sample]:
    """Read the Xid and SXid messages of the NVIDIA driver since boot.

    The driver writes every fault of a GPU or an NVSwitch to the kernel log, and often that is the
    first and only sign. Each code is counted by GPU under what NVIDIA's catalog asks for. Errors
    of applications, such as Xid 13, 31 and 43, are recorded and say nothing against the node,
    unless one GPU of four or more has them alone, in process after process. What the driver says of
    a GPU that it could not start has no code and counts as an event to watch. A
    log that has lost its beginning counts for as far as it goes back; when that is less than a day,
    what it does not hold could not be measured.
    """
    log = node.host.kernel_log(DRIVER_WORDS)
    events = []
    times_s: List[float] = []
    ages_s: Dict[str, float] = {}
    for message in log.messages[-MESSAGE_LIMIT:]:
        event = xids.parse(message.text)
        if event is not None:
            events.append(event)
            times_s.append(message.age_s)
            ages_s[event.subject] = message.age_s  # the latest
    left, settled = xids.outstanding(events)
    counts: Dict[str, List[xids.XidEvent]] = {}
    for event in left:
        counts.setdefault(event.subject + " " + event.action, []).append(event)
    texts: Dict[str, List[str]] = {}
    for same in counts.values():
        text = "%s: %s" % (same[0].meaning, same[0].action)
        texts.setdefault(same[0].subject, []).append(text)
    counted = set()
    for same in counts.values():
        metric = METRICS[same[0].action]
        if metric == "reset_events" and ages_s[same[0].subject] > RECENT_HOURS * HOUR_S:
            metric = OLD
        counted.add(metric)
        yield Sample(metric, len(same), "events", same[0].subject)
        if same[0].subject in texts:
            # One code may ask for several things, such as Xid 154 for one after the other.
            yield Sample("meaning", "; ".join(texts.pop(same[0].subject)), "", same[0].subject)
    enough = log.complete or log.reach_s >= RECENT_HOURS * HOUR_S
    for metric in (*JUDGED, OLD) if enough else ():
        if metric not in counted:
            yield Sample(metric, 0, "events")
    if len(times_s) > 1:
        yield Sample("incidents", xids.incidents(times_s), "events")
    if len(node.host.pci_gpus()) >= LEAST_GPUS:
        yield from _repeated(left)
    yield Sample("settled_events", settled, "events")
    yield Sample("log_complete", log.complete)
    if not enough:
        # Whatever floods a log, such as an error each second, pushes out how it began.
        raise CouldNotMeasure(
            "the kernel log goes back %.1f h only and has lost what came before; keep the journal, "
            "and read it as root or a member of group adm" % (log.reach_s / HOUR_S),
            LOG_LOST,
        )


def _repeated(events: List[xids.XidEvent]) -> Iterator[Sample]:
    """Yield how many processes met a code that one GPU alone has, where it was more than one.

    One fault of one process is often logged many times.
    """
    processes: Dict[int, Dict[str, Set[str]]] = {}
    for event in events:
        if event.kind == "xid" and event.code in REPEATED and event.process:
            of_code = processes.setdefault(event.code, {})
            of_code.setdefault(event.subject, set()).add(event.process)
    for of_code in processes.values():
        for subject, ids in of_code.items():
            if len(of_code) == 1 and len(ids) > 1:
                yield Sample("repeated_events", len(ids), "events", subject)
