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
    listed = list(names)
    if len(set(listed)) == len(listed):
        return ""
    name = next(name for place, name in enumerate(listed) if name in listed[:place])
    return f"{what} {name!r} is there twice"[:200]


@cache
def _compiled(schema: str) -> Callable[[Any], Any]:
    # fastjsonschema ends at draft 7; the schema uses nothing that came later but "$defs" as a name.
    draft = {"$schema": "http://json-schema.org/draft-07/schema#"}
    document = _document(schema)
    inlined = _inlined(document, document["$defs"])
    compiled: Callable[[Any], Any] = fastjsonschema.compile(draft | inlined)
    return compiled


def _inlined(part: Any, definitions: Mapping[str, Any]) -> Any:
    """Put simple definitions where they are referred to: each reference costs a call a value."""
    if isinstance(part, list):
        return [_inlined(item, definitions) for item in part]
    if not isinstance(part, dict):
        return part
    wanted = definitions.get(str(part.get("$ref", "")).removeprefix("#/$defs/"), {})
    if part.keys() == {"$ref"} and wanted.get("type") not in (None, "object", "array"):
        return wanted
    return {key: _inlined(value, definitions) for key, value in part.items()}


@cache
def _validator(schema: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(_document(schema))


@cache
def _document(schema: str) -> dict[str, Any]:
    text = resources.files("hwcheck").joinpath("schema/results.schema.json").read_text("utf-8")
    return {"$ref": f"#/$defs/{schema}", "$defs": json.loads(text)["$defs"]}
