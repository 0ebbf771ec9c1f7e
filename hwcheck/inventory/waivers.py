"""``hwcheck_waivers``: what a site knows of and bears for a time, as far as its shape goes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from hwcheck.inventory.limits import SOURCE_CHARACTERS
from hwcheck.inventory.variables import Variables
from hwcheck.results.waivers import Waiver

WAIVERS = "hwcheck_waivers"
KEYS = ("check", "subject", "until", "reason")
NAME_CHARACTERS = 200
MOST_WAIVERS = 1000
SHAPE = '{check: pcie_link, subject: gpu3, until: 2027-01-31, reason: "RMA 4711"}'


def waivers(variables: Variables) -> tuple[Waiver, ...]:
    """Return the waivers of a host (see ``hwcheck.results.waivers``).

    Which checks there are is not asked here: a site has checks of its own. Raises UsageError for
    one without a check, a day or a reason, or that is not shaped as one.
    """
    declared = variables.raw.get(WAIVERS)
    if declared is None:
        return ()
    if not isinstance(declared, list):
        raise variables.error(WAIVERS, f"is no list; write [{SHAPE}]")
    if len(declared) > MOST_WAIVERS:
        problem = f"{len(declared)} waivers; at most {MOST_WAIVERS}"
        raise variables.error(WAIVERS, problem)
    return tuple(_waiver(variables, place, each) for place, each in enumerate(declared, 1))


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
