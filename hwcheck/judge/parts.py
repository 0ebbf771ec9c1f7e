"""The parts of a host against those that were ordered (``hwcheck_parts``). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hwcheck.checks.cabling import NEIGHBOR, cabling
from hwcheck.checks.parts import (
    CARD_FIRMWARE,
    PART_FIRMWARE,
    PART_MODEL,
    PART_NUMBER,
    PART_PLACE,
    PART_SERIAL,
    parts,
)
from hwcheck.contract.reasons import NOT_MEASURED, Reason, remark
from hwcheck.judge.host_case import HostCase
from hwcheck.judge.records import Finding
from hwcheck.text import count, line

FIELDS: Mapping[str, tuple[str, ...]] = {
    "model": (PART_MODEL.name,),
    "number": (PART_NUMBER.name,),
    "serial": (PART_SERIAL.name,),
    "firmware": (PART_FIRMWARE.name, CARD_FIRMWARE.name),
    "place": (PART_PLACE.name,),
    "neighbor": (NEIGHBOR.name,),
}
"""What is ordered of a part, and the metrics that tell it."""
UNTOLD = ("system", "board", "chassis", "bios", "bmc", "memory", "psu", "rack")
"""Kinds that are on no bus: firmware or NVML names them, or does not, though they are there."""
SOURCE = "the inventory's hwcheck_parts"
SHOWN = 4

Row = Mapping[str, Any]
Part = dict[str, str]


def judge_parts(host: HostCase) -> Iterator[Finding]:
    """Yield a finding for each line of the order: the parts that it names are there, or are not.

    What the node does not tell is inconclusive, never a pass.
    """
    rows: Sequence[Row] = host.facts.expect.get("parts", ())
    for check in (parts.id, cabling.id):
        about_cables = check == cabling.id
        of_check = [row for row in rows if ("neighbor" in row) == about_cables]
        if check in host.checks and of_check:
            there = _parts(host, check)
            ordered = {str(row["serial"]).lower() for row in of_check if "serial" in row}
            for row in of_check:
                yield _finding(host, check, row, there, ordered)


def _parts(host: HostCase, check: str) -> dict[str, Part]:
    answer = host.answers.get(check)
    parts: dict[str, Part] = {}
    for sample in answer.samples if answer else ():
        for field, metrics in FIELDS.items():
            if sample.metric in metrics:
                parts.setdefault(sample.subject, {})[field] = str(sample.value)
    return parts


def _finding(
    host: HostCase, check: str, row: Row, there: Mapping[str, Part], ordered: set[str]
) -> Finding:
    name, wanted = str(row["part"]), int(row.get("count", 1))
    asked = {field: str(row[field]) for field in FIELDS if field in row}
    named = {subject: part for subject, part in there.items() if _is_named(subject, name)}
    states = {subject: _state(part, asked) for subject, part in named.items()}
    right = [subject for subject, state in states.items() if state == "right"]
    unread = [subject for subject, state in states.items() if state == "unread"]
    answer = host.answers.get(check)
    whole = answer is not None and answer.state == "done"
    code = ""
    if len(right) == wanted:
        outcome, reason = "pass", ""
    elif len(right) > wanted:
        outcome, reason = "fail", f"{len(right)} are there, {wanted} were ordered"
    elif len(right) + len(unread) >= wanted or not whole or _is_untold(name, there):
        outcome = "inconclusive"
        code = answer.reason.code if answer and answer.reason else NOT_MEASURED
        reason = _unread(unread, asked, answer.reason.text if answer else "no answer")
    else:
        outcome, reason = "fail", _what_is_there(name, wanted, right, named, asked, ordered)
    value = ", ".join(_text(named[subject], asked) for subject in right[:1]) or len(right)
    return Finding(
        host=host.name,
        check=check,
        outcome=outcome,
        metric="as_ordered",
        subject=line(name, 60),
        value=value if outcome != "inconclusive" else None,
        limit=f"fail unless {count(wanted, 'part')} with {_text(asked, asked) or 'this name'}",
        source=SOURCE,
        confidence="inventory",
        reason=Reason(code, reason) if outcome == "inconclusive" else remark(reason),
    )


def _is_named(subject: str, name: str) -> bool:
    """Whether a name means a part: its own, that without its kind, or that of all of its kind."""
    kind, _, rest = subject.partition(" ")
    return name in (subject, rest or subject, kind, _kind(subject))


def _is_untold(name: str, there: Mapping[str, Part]) -> bool:
    """Whether nothing of a part's kind is named, and its kind is one that a node may not tell."""
    kind = _kind(name)
    return kind in UNTOLD and kind not in map(_kind, there)


def _kind(name: str) -> str:
    return name.partition(" ")[0].rstrip("0123456789")


def _state(part: Part, asked: Mapping[str, str]) -> str:
    unread = False
    for field, text in asked.items():
        if field not in part:
            unread = True
        elif part[field].lower().split() != text.lower().split():
            return "wrong"
    return "unread" if unread else "right"


def _unread(unread: Sequence[str], asked: Mapping[str, str], why: str) -> str:
    about = ", ".join(unread[:SHOWN]) or "the part"
    return f"the node does not tell {' and '.join(asked) or 'that'} of {about}" + (
        f": {line(why, 120)}" if why else ""
    )


def _what_is_there(
    name: str,
    wanted: int,
    right: Sequence[str],
    named: Mapping[str, Part],
    asked: Mapping[str, str],
    ordered: set[str],
) -> str:
    if not named:
        return f"no {line(name, 60)} is there"
    others = {
        subject: part
        for subject, part in named.items()
        if subject not in right and part.get("serial", "").lower() not in ordered
    }
    shown = [f"{subject} has {_text(part, asked)}" for subject, part in others.items()]
    present = "; ".join(line(each, 160) for each in shown[:SHOWN]) + (
        "; ..." if len(shown) > SHOWN else ""
    )
    few = f"{len(right)} of {wanted}: " if wanted > 1 else ""
    return few + (present or f"no {line(name, 60)} has {_text(asked, asked)}")


def _text(part: Mapping[str, str], asked: Mapping[str, str]) -> str:
    return ", ".join(f"{field} {part[field]}" for field in asked if field in part)
