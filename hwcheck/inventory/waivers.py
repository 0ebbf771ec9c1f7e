"""``hwcheck_waivers``: what a site knows of and bears for a time, as far as its shape goes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import date
from typing import Any

from hwcheck.errors import Complaints
from hwcheck.inventory.limits import SOURCE_CHARACTERS
from hwcheck.inventory.variables import Variables
from hwcheck.results.waivers import Waiver, problem

WAIVERS = "hwcheck_waivers"
KEYS = ("check", "subject", "until", "reason")
NAME_CHARACTERS = 200
MOST_WAIVERS = 1000
SHAPE = '{check: pcie_link, subject: gpu3, until: 2027-01-31, reason: "RMA 4711"}'


def waivers(variables: Variables, checks: Collection[str] | None = None) -> tuple[Waiver, ...]:
    """Return the waivers of a host (see ``hwcheck.results.waivers``).

    ``checks`` are the names of all there are; without them it is not asked whether a waiver fits
    one. Raises UsageError, a line for each waiver without a check, a day or a reason, that is not
    shaped as one or is of no check.
    """
    declared = variables.raw.get(WAIVERS)
    if declared is None:
        return ()
    if not isinstance(declared, list):
        raise variables.error(WAIVERS, f"is no list; write [{SHAPE}]")
    if len(declared) > MOST_WAIVERS:
        too_many = f"{len(declared)} waivers; at most {MOST_WAIVERS}"
        raise variables.error(WAIVERS, too_many)
    waivers = []
    complaints = Complaints()
    for place, each in enumerate(declared, 1):
        with complaints.noting():
            waivers.append(_waiver(variables, place, each))
            no_such = problem(waivers[-1], checks) if checks is not None else ""
            if no_such:
                raise variables.error(WAIVERS, no_such)
    complaints.refuse()
    return tuple(waivers)


def _waiver(variables: Variables, place: int, given: Any) -> Waiver:
    key = f"{WAIVERS}[{place}]"
    if not isinstance(given, Mapping):
        raise variables.error(key, f"is no mapping; write {SHAPE}")
    for word in given:
        if word not in KEYS:
            raise variables.error(key, f"{str(word)[:80]!r} is none of {', '.join(KEYS)}")
    check = _text(variables, key, given, "check", NAME_CHARACTERS, "name one of `hwcheck checks`")
    reason = _text(
        variables, key, given, "reason", SOURCE_CHARACTERS, "say by whose word, such as RMA 4711"
    )
    until = _text(variables, key, given, "until", NAME_CHARACTERS, "name the last day, YYYY-MM-DD")
    subject = _text(variables, key, given, "subject", NAME_CHARACTERS)
    try:
        is_day = date.fromisoformat(until).isoformat() == until
    except ValueError:
        is_day = False
    if not is_day:
        raise variables.error(key, f"until: {until[:80]!r} is not a day, such as 2027-01-31")
    return Waiver(check, until, reason, subject)


def _text(
    variables: Variables,
    key: str,
    given: Mapping[Any, Any],
    word: str,
    characters: int,
    missing: str = "",
) -> str:
    """Return one text of a waiver; it may be absent where nothing is said for that case."""
    value = given.get(word)
    text = "" if value is None else variables.value(key, value).strip()
    if not text and missing:
        raise variables.error(key, f"{word} is missing: {missing}")
    if len(text) > characters:
        raise variables.error(key, f"{word}: {len(text)} characters; at most {characters}")
    return text
