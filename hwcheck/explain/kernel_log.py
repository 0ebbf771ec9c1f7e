"""A kernel log: ``dmesg`` in any of its forms, ``journalctl``, kern.log. Pure.

It names what NVIDIA's driver says of faults (Xids, SXids and its words without a number), and
the faults of the machine that the check ``kernel_faults`` names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from hwcheck.checks.shared import kernel_faults, xids
from hwcheck.contract.facts import DRIVER_WORDS, KernelMessage
from hwcheck.explain.records import KernelEvent, KernelLogEvents
from hwcheck.node.host.log import BOOT
from hwcheck.text import count, line

MOST_EVENTS = 10_000
"""As many as the check of a node counts; the last ones."""
MOST_NAMED = 40
LINE_CHARACTERS = 4000
LEAST_LINES = 3
KERNEL_SHARE = 0.5
"""From this share of lines in the kernel's form on, a text without a fault is a kernel log."""

TO_DO = {
    xids.RESTART: xids.RESTART,
    xids.FABRIC: xids.FABRIC,
    xids.RESET: f"drain the node, {xids.RESET}, and have it examined when it comes back",
    xids.REPAIR: xids.REPAIR,
    xids.WATCH: xids.WATCH,
    xids.APPLICATION: xids.APPLICATION,
    xids.NOTHING: "nothing to do for this alone",
}
"""In words what an event asks for, the gravest first."""
GRAVITY = tuple(TO_DO)

_DAY = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
_REST = r"(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_LINE = re.compile(
    rf"(?:(?P<syslog>[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d)(?:\.\d{{1,9}})?|(?P<day>{_DAY}){_REST}"
    r"|\[ *(?P<monotonic>\d{1,10}\.\d{1,9})\]) \S{1,255} kernel: (?:\[ *\d{1,10}\.\d{1,9}\] ?)?"
    r"|(?:<\d{1,3}>|[a-z]{2,8} *:[a-z]{2,7} *: )?(?:"
    r"\[ *(?P<seconds>\d{1,10}\.\d{1,9})(?:,? *<? *[+\d.]{1,20} *>?)?\]"
    r"|\[(?P<ctime>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\]"
    rf"|(?P<iso>{_DAY}){_REST}) ?"
)
"""Start of a line of the journal, of a log file, and of ``dmesg`` (also ``-T``, ``-d``, ``-x``,
``--time-format iso``). A name other than ``kernel`` is a program, which may write what it likes."""
_DATES = {"syslog": "%Y %b %d %H:%M:%S", "ctime": "%a %b %d %H:%M:%S %Y"}
_BARE = ("NVRM: ", "nvidia-nvswitch")
"""How the driver's lines begin; they are pasted without their stamps, too."""

_XORG = "("
"""Xorg stamps its lines as the kernel does, and anybody writes ISO stamps."""

_LOST = re.compile(r"NVRM: The NVIDIA GPU [0-9a-fA-F:.]{4,20}\Z")
"""First of three lines, of which the third says that it fell off the bus."""


class _Event(NamedTuple):
    """An event, the clock that its time is of, and the time in seconds; None: it has none."""

    event: xids.XidEvent
    clock: str
    seconds: float | None


def read(file: str, text: str) -> KernelLogEvents | None:
    """Return what a kernel log says, or None where this is none."""
    events_in_order, messages, kernel_lines, lines = _events(text)
    # A log says no name of a device; the messages have no age, as all of the file counts.
    faults = [
        fault
        for fault in kernel_faults.faults(messages, math.inf, {})
        if fault.kind.limit.judge(fault.events, None) != "pass"
    ]
    few = kernel_lines < LEAST_LINES or kernel_lines < KERNEL_SHARE * lines
    if few and not events_in_order and not faults:
        return None
    left, settled = xids.outstanding([each.event for each in events_in_order])
    events = sorted(_counted(left), key=lambda each: GRAVITY.index(each.action))
    incidents = _incidents(events_in_order)
    notes = [*_notes(events, settled, incidents), *_fault_notes(faults)]
    if not notes:
        notes = [
            f"{count(kernel_lines, 'line')} of the kernel, and none of an Xid, an SXid, a GPU that "
            "did not start or another fault of the machine; see that they go back to the boot"
        ]
    return KernelLogEvents(file, tuple(events), settled, incidents, tuple(notes))


def _events(text: str) -> tuple[list[_Event], list[KernelMessage], int, int]:
    """Return what the kernel's lines tell.

    The events; the messages that may be of a fault of the machine; the number of the kernel's
    lines, and that of lines that are not empty.
    """
    events: list[_Event] = []
    messages: list[KernelMessage] = []
    kernel_lines, lines, boot = 0, 0, 0
    lost: list[str] = []
    for raw in text.split("\n"):
        row = raw[:LINE_CHARACTERS].rstrip()
        lines += bool(row)
        stamp = _LINE.match(row)
        if stamp is None and not row.startswith(_BARE):
            continue
        message = row[stamp.end() :] if stamp else row
        kernel_lines += stamp is None or not (stamp["iso"] or message.startswith(_XORG))
        boot += message.startswith(BOOT)
        if any(word in message for word in kernel_faults.WORDS):
            messages.append(KernelMessage(message, age_s=0.0))
        if lost or _LOST.match(message):
            lost = [*lost, message][:3]
            message, lost = ("", lost) if len(lost) < 3 else (" ".join(lost), [])
        event = xids.parse(message) if any(word in message for word in DRIVER_WORDS) else None
        if event is not None:
            events.append(_Event(event, *_time(stamp, boot)))
    return events[-MOST_EVENTS:], messages, kernel_lines, lines


def _time(stamp: re.Match[str] | None, boot: int) -> tuple[str, float | None]:
    """Return which clock a line has, and its time in seconds."""
    clock, text = next(
        ((name, text) for name, text in (stamp.groupdict() if stamp else {}).items() if text),
        ("", ""),
    )
    if clock in ("seconds", "monotonic"):
        return f"{clock} {boot}", float(text)  # it begins again with each boot
    # The journal leaves the year out: a leap year has every day.
    text = f"2000 {text}" if clock == "syslog" else text
    try:
        form = _DATES.get(clock, "%Y-%m-%dT%H:%M:%S")
        since = datetime.strptime(text, form) - datetime(2000, 1, 1)  # noqa: DTZ001, DTZ007 - only differences count
    except ValueError:
        return clock, None
    return clock, since.total_seconds()


def _counted(events: Iterable[xids.XidEvent]) -> Iterator[KernelEvent]:
    """Yield what each device had of each kind, with what it means."""
    alike: dict[tuple[str, str, str], list[xids.XidEvent]] = {}
    for event in events:
        alike.setdefault((event.subject, event.meaning, event.action), []).append(event)
    for same in alike.values():
        event = same[0]
        code = None if event.kind == "driver" else event.code
        yield KernelEvent(
            event.kind, code, event.pci_address, len(same), event.meaning, event.action
        )


def _incidents(events: Sequence[_Event]) -> int | None:
    """Return how many bursts the events are; None where one has no time."""
    by_clock: dict[str, list[float]] = {}
    for event in events:
        if event.seconds is None:
            return None
        by_clock.setdefault(event.clock, []).append(event.seconds)
    return sum(xids.incidents(times_s) for times_s in by_clock.values())


def _fault_notes(faults: Sequence[kernel_faults.KernelFault]) -> Iterator[str]:
    for fault in faults[:MOST_NAMED]:
        errors = f", {count(fault.events, 'error')}" if fault.kind.counted else ""
        yield (
            f"{line(fault.subject, 100)}: {fault.kind.meaning}{errors}; the latest line: "
            f"{line(fault.text, 300)}"
        )
    if len(faults) > MOST_NAMED:
        yield f"and {count(len(faults) - MOST_NAMED, 'more fault')} of the machine"


def _notes(events: Sequence[KernelEvent], settled: int, incidents: int | None) -> Iterator[str]:
    total = sum(event.count for event in events) + settled
    if incidents is not None and total > 1:
        yield (
            f"{total} events in {count(incidents, 'incident')}: those within "
            f"{xids.BURST_S / 60:.0f} minutes of one another are one, and its first event tells "
            "most"
        )
    for event in events[:MOST_NAMED]:
        times = f", {event.count} times" if event.count > 1 else ""
        yield f"{event.name}{times}: {line(event.meaning, 300)}; {TO_DO[event.action]}"
    if len(events) > MOST_NAMED:
        yield f"and {len(events) - MOST_NAMED} more kinds of events, none graver than these"
    if settled:
        yield f"{count(settled, 'event')} before a reset of the GPU that settled them (Xid 154)"
