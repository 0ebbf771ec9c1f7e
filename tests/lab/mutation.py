"""What can be wrong with one quantity of a healthy node: one change at one place at a time.

A change is one that a person would call broken, or would want to be told of: a count that is 0, an
error counter at a million, a text that is another, a quantity that cannot be read. Most come twice:
at one of several (one GPU, one card), and at all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tests.lab.scenario import Scenario, overlay

MANY = 1_000_000
MIB = 1 << 20
GIB = 1 << 30

Change = tuple[str, Callable[[Any], Any]]
"""Its name, and the broken value by the healthy one; ``SAME`` where there is none."""
SAME = object()
ABSENT = "not supported"


class Mutation(NamedTuple):
    """One change of one quantity; ``place`` is ``one``, ``all`` or ``node``."""

    quantity: str
    change: str
    place: str
    nvml: Mapping[str, Any] = {}
    host: Mapping[str, Any] = {}
    instead: Mapping[str, Any] = {}
    """Parts of the host that take the place of what was there, not merged with it."""

    @property
    def name(self) -> str:
        return f"{self.quantity} = {self.change} ({self.place})"

    def of(self, scenario: Scenario) -> Scenario:
        """Return the scenario with it."""
        nvml = scenario.nvml if scenario.nvml is None else overlay(scenario.nvml, self.nvml)
        host = {**overlay(scenario.host, self.host), **self.instead}
        return replace(scenario, nvml=nvml, host=host)


def to(*values: Any) -> list[Change]:
    """Return a change to each of these values."""
    return [(_named(value), lambda old, value=value: SAME if old == value else value)
            for value in values]  # fmt: skip


def _named(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "none" if not value else "+".join(map(_named, value))
    if isinstance(value, Mapping):
        return " ".join(f"{key} {_named(of)}" for key, of in value.items())
    return "absent" if value is None else str(value)


def share(percent: float) -> list[Change]:
    """Return a change to a share of the value."""
    of = f"{percent:g} % of it"
    return [(of, lambda old: SAME if not old else type(old)(old * percent / 100))]


def _inverted(old: Any) -> Any:
    return not old


def _other(old: Any) -> Any:
    text = str(old)
    last = text[-1]
    return text[:-1] + ("1" if last != "1" else "2")


INVERTED: list[Change] = [("inverted", _inverted)]
OTHER: list[Change] = [("another", _other)]
COUNTED = to(1, MANY)


def places(one: int, count: int) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield the one and all; of a node with one GPU, that one."""
    if count > 1:
        yield "one", [one]
    yield "all", range(count)


def value_of(of: Mapping[str, Any], keys: Sequence[str]) -> Any:
    for key in keys:
        if not isinstance(of, Mapping):
            return None
        of = of.get(key)  # type: ignore[assignment]
    return of


def nested(keys: Sequence[str], value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value
