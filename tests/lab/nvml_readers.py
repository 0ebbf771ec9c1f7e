"""From a scenario's values to the lines that the C library reads. Each raises ValueError."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import pynvml

from hwcheck.node.nvml.gpu import CLOCK_EVENT_BITS

Lines = Iterator[tuple[str, str]]
Reader = Callable[[str, Any], Lines]
"""Takes a key and its value; gives the lines for them."""


def refuse(key: str, value: object, wanted: str) -> ValueError:
    """Return the error for a value that a key cannot have."""
    return ValueError(f"{key}: {value!r} is not {wanted}")


def text(key: str, value: object) -> Lines:
    if not isinstance(value, str) or "\n" in value or "\0" in value:
        raise refuse(key, value, "a text of one line")
    yield key, value


def flag(key: str, value: object) -> Lines:
    if not isinstance(value, bool):
        raise refuse(key, value, "true or false")
    yield key, str(int(value))


def count(key: str, value: object) -> Lines:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 64:
        raise refuse(key, value, "a whole number of 0 or more")
    yield key, str(value)


def signed(key: str, value: object) -> Lines:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise refuse(key, value, "a number")
    yield key, repr(value)


def number(key: str, value: object) -> Lines:
    if isinstance(value, (int, float)) and value < 0:
        raise refuse(key, value, "0 or more")
    return signed(key, value)


def hexadecimal(key: str, value: object) -> Lines:
    try:
        return count(key, int(value, 16) if isinstance(value, str) else value)
    except ValueError:
        raise refuse(key, value, "a number such as 0x233010DE") from None


def major_minor(key: str, value: object) -> Lines:
    if not isinstance(value, str) or [part.isdigit() for part in value.split(".")] != [True] * 2:
        raise refuse(key, value, "a version such as 9.0 (quote it)")
    major, minor = value.split(".")
    yield f"{key}.major", major
    yield f"{key}.minor", minor


def one_of(values: Mapping[str, int]) -> Reader:
    """Read a name as its number, or a number as it is."""

    def read(key: str, value: object) -> Lines:
        if isinstance(value, int) and not isinstance(value, bool):
            return count(key, value)
        if not isinstance(value, str) or value not in values:
            raise refuse(key, value, "one of " + ", ".join(values))
        return count(key, values[value])

    return read


@cache
def constants(prefix: str, lower: bool = True) -> Mapping[str, int]:
    """Return NVML's constants of this prefix by what is left of their names."""
    found = {name[len(prefix) :]: value for name, value in vars(pynvml).items()
             if name.startswith(prefix) and isinstance(value, int)}  # fmt: skip
    return {name.lower() if lower else name: value for name, value in found.items()}


ERRORS = {"SUCCESS": 0, **constants("NVML_ERROR_", lower=False)}
error = one_of(ERRORS)


def bits(names: tuple[str, ...]) -> Reader:
    """Read a list of names as a mask; ``bit_9`` names a bit that has no name here."""

    def read(key: str, value: object) -> Lines:
        mask = 0
        for name in listed(key, value):
            known = name in names or (isinstance(name, str) and name[4:].isdigit())
            if not known or not isinstance(name, str):
                raise refuse(key, name, "one of " + ", ".join(names))
            mask |= 1 << (names.index(name) if name in names else int(name[4:]))
        yield key, str(mask)

    return read


clock_events = bits(CLOCK_EVENT_BITS)


def listed(key: str, value: object) -> list[Any]:
    if not isinstance(value, list):
        raise refuse(key, value, "a list")
    return value


def numbered(item: Reader) -> Reader:
    """Read a list as ``key.count``, ``key.0``, ``key.1`` and so on."""

    def read(key: str, value: object) -> Lines:
        items = listed(key, value)
        yield f"{key}.count", str(len(items))
        for place, each in enumerate(items):
            yield from item(f"{key}.{place}", each)

    return read


def group(known: Mapping[str, Reader], required: tuple[str, ...] = ()) -> Reader:
    """Read a mapping; an unknown or a missing key raises."""

    def read(key: str, value: object) -> Lines:
        if not isinstance(value, Mapping):
            raise refuse(key, value, "a mapping")
        missing = [name for name in required if name not in value]
        if missing:
            raise ValueError(f"{key}: lacks {', '.join(missing)}")
        for name, each in value.items():
            if name not in known:
                raise ValueError(f"{key}: unknown key {name!r}; known: {', '.join(known)}")
            yield from known[name](f"{key}.{name}", each)

    return read


def mode(key: str, value: object) -> Lines:
    """Read a setting that changes at the next reset: one value, or now and pending."""
    both = value if isinstance(value, Mapping) else {"current": value, "pending": value}
    return group({"current": flag, "pending": flag}, ("current", "pending"))(key, both)


def number_list(key: str, value: object) -> Lines:
    """Read CPUs or nodes: ``0-47,96-143`` or a list of numbers."""
    items = value if isinstance(value, list) else str(value).split(",")
    written = ",".join(str(item).strip() for item in items)
    if not set(written) <= set("0123456789,-") or not (written or value == []):
        raise refuse(key, value, "a list of numbers such as 0-47,96-143")
    yield key, written
