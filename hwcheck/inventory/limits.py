"""``hwcheck_limits``: the limits that a site sets, as far as their shape goes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hwcheck.contract.check import Check
from hwcheck.errors import Complaints
from hwcheck.inventory.variables import FALSE, TRUE, Variables
from hwcheck.results.site_limits import problem

LIMITS = "hwcheck_limits"
KEYS = ("warn", "fail", "ignore", "source")
SHAPE = '{warn: 90, source: "capped since May, OPS-112"}'
SOURCE_CHARACTERS = 500
"""As many as the run folder takes of one text."""


def limits(
    variables: Variables, checks: Mapping[str, Check] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the limits of a host, by ``check.metric`` (see ``hwcheck.results.site_limits``).

    ``checks`` are all there are, by id; without them it is not asked whether a limit fits one.
    Raises UsageError, a line for each limit without a source, that is not shaped as one or fits
    no metric of a check.
    """
    declared = variables.raw.get(LIMITS)
    if declared is None:
        return {}
    by_metric = _mapping(variables, LIMITS, declared, f"{{check.metric: {SHAPE}}}")
    by_name: dict[str, dict[str, Any]] = {}
    complaints = Complaints()
    for name, terms in by_metric.items():
        with complaints.noting():
            by_name[str(name)] = _limit(variables, LIMITS, str(name), terms, checks)
    complaints.refuse()
    return by_name


def _limit(
    variables: Variables, key: str, name: str, terms: Any, checks: Mapping[str, Check] | None
) -> dict[str, Any]:
    given = _mapping(variables, f"{key}: {name}", terms, SHAPE)
    for word in given:
        if word not in KEYS:
            raise variables.error(key, f"{name}: {word!r} is none of {', '.join(KEYS)}")
    limit: dict[str, Any] = {}
    for word in ("warn", "fail"):
        if word in given:
            limit[word] = _number(variables, key, f"{name}: {word}", given[word])
    if "ignore" in given:
        text = variables.value(key, given["ignore"]).lower()
        if text not in TRUE | FALSE:
            raise variables.error(key, f"{name}: ignore: {text!r} is not true or false")
        limit |= {"ignore": True} if text in TRUE else {}
    if "ignore" in limit and len(limit) > 1:
        raise variables.error(key, f"{name}: ignore stands alone: nothing is held against a border")
    if not limit:
        raise variables.error(key, f"{name}: it sets nothing; write {SHAPE}")
    source = variables.value(key, given.get("source") or "").strip()
    if not source:
        raise variables.error(key, f"{name}: source is missing: say by whose word, such as OPS-112")
    if len(source) > SOURCE_CHARACTERS:
        too_long = f"{name}: source: {len(source)} characters; at most {SOURCE_CHARACTERS}"
        raise variables.error(key, too_long)
    limit["source"] = source
    no_such = problem(name, limit, checks) if checks is not None else ""
    if no_such:
        raise variables.error(key, no_such)
    return limit


def _mapping(variables: Variables, key: str, value: Any, of: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise variables.error(key, f"is no mapping; write {of}")
    return value


def _number(variables: Variables, key: str, name: str, value: Any) -> float:
    text = variables.value(key, value)
    try:
        number = math.nan if isinstance(value, bool) else float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise variables.error(key, f"{name}: {text[:80]!r} is not a number")
    return number
