"""What is read back, or comes from a node, against ``hwcheck/schema/results.schema.json``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

import fastjsonschema
import jsonschema

from hwcheck import series


def schema_problem(data: Any, schema: str) -> str:
    """Return what breaks ``schema`` (run, host, report, result, series) in one line, or nothing.

    A thing that is there twice breaks it too: one would go unseen. fastjsonschema decides, because
    jsonschema takes 20 ms for one host; jsonschema explains.
    """
    try:
        _compiled(schema)(data)
    except fastjsonschema.JsonSchemaValueException as refusal:
        error = jsonschema.exceptions.best_match(_validator(schema).iter_errors(data))
        if error is None:
            return str(refusal.message)[:200]
        where = "/".join(str(part) for part in error.absolute_path) or "top level"
        return f"{where}: {error.message[:200]}"
    return _repeated(data, schema)


def _repeated(data: Mapping[str, Any], schema: str) -> str:
    """Return what is there twice, or an empty text; ``data`` fits the schema."""
    if schema == "run":
        return _twice("host", (host["name"] for host in data["hosts"]))
    if schema == "host":
        return _repeated(data["report"], "report") if data["report"] else ""
    if schema == "series":
        return series.problem(data)
    if schema == "report":
        results = data["results"]
        inside = (_repeated(result, "result") for result in results)
        return _twice("result", (result["check"] for result in results)) or next(
            filter(None, inside), ""
        )
    if schema == "result":
        samples = ((sample["metric"], sample["subject"]) for sample in data["samples"])
        legs = ((leg["collective"], leg["leg"]) for leg in data["legs"])
        return _twice("sample", samples) or _twice("leg", legs)
    return ""


def _twice(what: str, names: Iterable[object]) -> str:
    seen: set[object] = set()
    for name in names:
        if name in seen:
            return f"{what} {name!r} is there twice"[:200]
        seen.add(name)
    return ""


@cache
def _compiled(schema: str) -> Callable[[Any], Any]:
    # fastjsonschema ends at draft 7; the schema uses nothing that came later but "$defs" as a name.
    draft = {"$schema": "http://json-schema.org/draft-07/schema#"}
    compiled: Callable[[Any], Any] = fastjsonschema.compile(draft | _document(schema))
    return compiled


@cache
def _validator(schema: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(_document(schema))


@cache
def _document(schema: str) -> dict[str, Any]:
    text = resources.files("hwcheck").joinpath("schema/results.schema.json").read_text("utf-8")
    return {"$ref": f"#/$defs/{schema}", "$defs": json.loads(text)["$defs"]}
