"""The JSON Schema of the options in ``run.json``, from the fields of ``Options``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from hwcheck.results.options import ASKED, Options

MOST = 100
"""Values of a field that holds several, where its ``Annotated`` allows no more."""
NAMED = {str: "word", int: "count", float: "positive"}
"""The definition in ``results.schema.json`` that bounds a type. No option is below 0."""
PLAIN = {bool: "boolean", NoneType: "null"}


def options_schema(definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of ``options``, from the definitions in ``results.schema.json``.

    What runs of former versions say beside the rest has one shape in both places.
    """
    schema, beside = shape_of(Options, definitions), definitions["run"]["properties"]
    properties = schema["properties"] | {name: beside[name] for name in ASKED}
    return {**definitions["options"], **schema, "properties": properties}


def shape_of(hint: Any, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a type; raises TypeError for one that no option has."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return {**shape_of(parts[0], definitions), **parts[1]}
    if origin is UnionType:
        return {"anyOf": [shape_of(part, definitions) for part in parts]}
    if origin is tuple and parts[1:] == (...,):
        return {"type": "array", "maxItems": MOST, "items": shape_of(parts[0], definitions)}
    if origin is Mapping and parts[0] is str:
        return {
            "type": "object",
            "maxProperties": MOST,
            "propertyNames": shape_of(str, definitions),
            "additionalProperties": shape_of(parts[1], definitions),
        }
    if is_dataclass(hint):
        hints = get_type_hints(hint, include_extras=True)
        properties = {name: shape_of(part, definitions) for name, part in hints.items()}
        return {"type": "object", "additionalProperties": False, "properties": properties}
    if hint in PLAIN:
        return {"type": PLAIN[hint]}
    if hint in NAMED:
        return dict(definitions[NAMED[hint]])
    raise TypeError(f"{hint}: no option in run.json is of this type; see {__name__}")
