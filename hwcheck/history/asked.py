"""How two runs were asked differently, and which of their figures that leaves nothing to compare.

``run.json`` has all that a run was asked for; runs of former versions say of it the profile and how
collectives were timed. What is not known of one is no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hwcheck.contract.check import Check
from hwcheck.contract.wire import COLLECTIVES, to_dict
from hwcheck.history.views import History
from hwcheck.judge.records import MULTI_HOST
from hwcheck.results.run_folder import read_meta
from hwcheck.text import binary_size, length, line

FIGURES, ALL, OF_NO_SIZE = "figures", "figures and texts", "figures of no size"
"""What of a check depends on an option: its figures, and what is counted as it happens, of which a
longer load sees more. Other counts do not: of a wrong product one is too many."""

LOAD, TIMED, TOGETHER = "load", "timed", "together"
DEPENDING: Mapping[str, Mapping[str, str]] = {
    "profile": {LOAD: FIGURES},  # it says how long the load lasts
    "duration_s": {LOAD: FIGURES},
    "load_dtype": {LOAD: ALL},
    "force": {LOAD: FIGURES, TIMED: FIGURES},  # a job had a part of the node
    "engine": {TIMED: FIGURES},
    "timing.legs": {},  # a leg is compared with itself
    "timing.min_bytes": {TIMED: OF_NO_SIZE},  # each size is compared with itself
    "timing.max_bytes": {TIMED: OF_NO_SIZE},
    "timing.step_factor": {TIMED: OF_NO_SIZE},
    "timing.iterations": {TIMED: FIGURES},
    "timing.warmups": {TIMED: FIGURES},
    "timing.dtype": {TIMED: FIGURES},
    "scopes": {},
    "over_hosts.collectives": {},
    "over_hosts.sizes": {},
    "over_hosts.iterations": {TOGETHER: FIGURES},
    "over_hosts.warmups": {TOGETHER: FIGURES},
    "over_hosts.dtype": {TOGETHER: FIGURES},
    "over_hosts.leg": {TOGETHER: FIGURES},
    "launcher": {},
}
"""The options that two runs may differ in, each with the kinds of checks of which something depends
on it: those that load the GPUs, collectives on a node, and what hosts do together. The others say
where and for what a run was, and what is asked in one run alone is not compared anyway."""


@dataclass(frozen=True)
class AskedDifference:
    """An option that has another value in the later run, both in words."""

    option: str
    before: str
    after: str

    @property
    def name(self) -> str:
        """The option, as people read it."""
        return self.option.removesuffix("_s")

    def unlike(self, checks: Mapping[str, Check]) -> Iterator[tuple[str, str]]:
        """Yield each of these checks of which something depends on the option, and what does."""
        for kind, what in DEPENDING[self.option].items():
            for check in _names(kind, checks):
                yield check, what


def asked_in(history: History, run: str) -> dict[str, Any]:
    """Return the options of a run by name, as far as it says them. Raises UsageError."""
    meta = read_meta(history.folders[run])
    options = meta.options if meta else {}
    if meta and not options:
        options = {"profile": meta.profile, "timing": to_dict(meta.timing)}
    flat: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{part}": of_part for part, of_part in value.items()}
        else:
            flat[name] = value
    return flat


def asked_differently(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[AskedDifference, ...]:
    """Return the options that differ between two runs, in the order of ``DEPENDING``."""
    return tuple(
        AskedDifference(option, _word(option, before[option]), _word(option, after[option]))
        for option in DEPENDING
        if option in before and option in after and before[option] != after[option]
    )


def _names(kind: str, checks: Mapping[str, Check]) -> tuple[str, ...]:
    if kind == TIMED:
        return COLLECTIVES
    if kind == TOGETHER:
        return (MULTI_HOST,)
    return tuple(name for name in checks if checks[name].load and name not in COLLECTIVES)


def _word(option: str, value: Any) -> str:
    if value is None or value in ("", []):
        return "none named"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if option.endswith("_s"):
        return length(value)
    if option.endswith("_bytes"):
        return binary_size(value)
    return line(", ".join(map(str, value)) if isinstance(value, list) else str(value), 80)
