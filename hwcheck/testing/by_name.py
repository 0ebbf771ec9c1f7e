"""Readings that are answered by their name, by whatever says what a node is: a case, for one.

A reading is a public method of a reader: of ``node.NodeHost`` or of ``node.Gpu``.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from hwcheck.contract.check import CouldNotMeasure

Reader = TypeVar("Reader")


def by_name(reader: type[Reader]) -> type[Reader]:
    """Have a class answer all that it inherits from a reader by ``_say(name, *arguments)``.

    None of it is ever run, so nothing of the machine that this runs on is read. ``_say`` returns
    JSON, which becomes what the reading is declared to return, or raises CouldNotMeasure: of what
    is not told as well. What the class has itself stays.
    """
    for name in dir(reader):
        if name[0] == "_" or name in vars(reader):
            continue
        member = inspect.getattr_static(reader, name)
        if inspect.isfunction(member):
            setattr(reader, name, _answer(name, member))
        elif isinstance(member, property) and member.fget:
            setattr(reader, name, property(_answer(name, member.fget)))
    return reader


def readings(reader: type, *but: type) -> frozenset[str]:
    """Return the names of a reader's public methods, but what these other classes have."""
    return frozenset(
        name
        for name, _ in inspect.getmembers(reader, inspect.isfunction)
        if name[0] != "_" and not any(hasattr(other, name) for other in but)
    )


def given(name: str, value: Any) -> Any:
    """Return a value of a case; ``{"error": text}`` is one that cannot be measured.

    Raises CouldNotMeasure, which says ``name``.
    """
    if isinstance(value, dict) and set(value) == {"error"}:
        raise CouldNotMeasure(f"{name}: {value['error']}")
    return value


def shaped(kind: Any, value: Any) -> Any:
    """Return JSON as a value of this type: a record is an object, a tuple or a list is a list.

    Raises TypeError, ValueError or AttributeError for what is none.
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        others = [part for part in parts if part is not type(None)]
        return value if value is None or len(others) > 1 else shaped(others[0], value)
    if origin is tuple and parts[-1] is not Ellipsis:
        return tuple(shaped(part, item) for part, item in zip(parts, value, strict=True))
    if origin in (tuple, list, Sequence):
        items = [shaped(parts[0], item) for item in value]
        return tuple(items) if origin is tuple else items
    if origin in (dict, Mapping):
        return {shaped(parts[0], key): shaped(parts[1], item) for key, item in value.items()}
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        hints = _hints(kind)
        return kind(**{name: shaped(hints.get(name, Any), item) for name, item in value.items()})
    return value if kind is Any else kind(value)


def _answer(name: str, reading: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(reading)
    def answer(self: Any, *arguments: Any) -> Any:
        return shaped(_hints(reading)["return"], self._say(name, *arguments))

    return answer


@functools.cache
def _hints(of: Any) -> Mapping[str, Any]:
    return typing.get_type_hints(of)
