"""What is read back, or comes from a node, against ``hwcheck/schema/results.schema.json``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from importlib import resources
from itertools import starmap
from operator import itemgetter
from typing import Any

import fastjsonschema
import jsonschema

from hwcheck.results import series

_SAMPLE = itemgetter("metric", "value", "unit", "subject")
_NAME = itemgetter("metric", "subject")

SCHEMAS = ("run", "host", "report", "result", "series")


def schema_problem(data: Any, schema: str) -> str:
    """Return what breaks ``schema``, one of SCHEMAS, in one line, or nothing.

    A thing that is there twice breaks it too: one would go unseen. fastjsonschema decides, because
    jsonschema takes 20 ms for one host; jsonschema explains.
    """
    try:
        lean = _lean(data, schema)
        _compiled()({schema: lean})
    except fastjsonschema.JsonSchemaValueException as refusal:
        error = jsonschema.exceptions.best_match(_validator(schema).iter_errors(data))
        if error is None:
            return str(refusal.message)[:200]
        where = "/".join(str(part) for part in error.absolute_path) or "top level"
        return f"{where}: {error.message[:200]}"
    return _repeated(lean, schema)


def _lean(data: Any, schema: str) -> Any:
    """Return ``data`` without the samples of checks whose samples all fit, and are there once.

    Like hosts send like samples, and a run of a thousand has millions: these are looked at once.
    """
    if schema == "result":
        samples = data.get("samples") if isinstance(data, dict) else None
        most = _definitions()["result"]["properties"]["samples"]["maxItems"]
        if isinstance(samples, list) and len(samples) <= most and _all_fit(samples):
            return {**data, "samples": []}
    elif schema == "report" and isinstance(data, dict) and isinstance(data.get("results"), list):
        return {**data, "results": [_lean(result, "result") for result in data["results"]]}
    elif schema == "host" and isinstance(data, dict):
        return {**data, "report": _lean(data.get("report"), "report")} if "report" in data else data
    return data


def _all_fit(samples: list[Any]) -> bool:
    try:
        fit = set(map(len, samples)) <= {4} and all(starmap(_fits_as, map(_SAMPLE, samples)))
        return fit and not _twice("sample", map(_NAME, samples))
    except (TypeError, KeyError):  # no object, or one with other names or with lists in it
        return False


@lru_cache(maxsize=65536)  # a value that equals one that fits, but for its type, fits as well
def _fits_as(metric: Any, value: Any, unit: Any, subject: Any) -> bool:
    sample = {"metric": metric, "value": value, "unit": unit, "subject": subject}
    try:
        _compiled(("sample",))({"sample": sample})
    except fastjsonschema.JsonSchemaValueException:
        return False
    return True


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
        legs = ((leg["collective"], leg["leg"]) for leg in data["legs"])
        return _twice("sample", map(_NAME, data["samples"])) or _twice("leg", legs)
    return ""


def _twice(what: str, names: Iterable[object]) -> str:
    listed = list(names)
    if len(set(listed)) == len(listed):
        return ""
    name = next(name for place, name in enumerate(listed) if name in listed[:place])
    return f"{what} {name!r} is there twice"[:200]


@cache
def _compiled(schemas: tuple[str, ...] = SCHEMAS) -> Callable[[Any], Any]:
    """Compile schemas into one function of ``{schema: data}``: what they share, once."""
    # fastjsonschema ends at draft 7; the schema uses nothing that came later but "$defs" as a name.
    draft = {"$schema": "http://json-schema.org/draft-07/schema#"}
    properties = {name: {"$ref": f"#/$defs/{name}"} for name in schemas}
    document = draft | {"properties": properties, "$defs": _definitions()}
    # Without details (jsonschema gives them) this takes half as long.
    compiled: Callable[[Any], Any] = fastjsonschema.compile(document, detailed_exceptions=False)
    return compiled


@cache
def _validator(schema: str) -> jsonschema.Draft202012Validator:
    document = {"$ref": f"#/$defs/{schema}", "$defs": _definitions()}
    return jsonschema.Draft202012Validator(document)


@cache
def _definitions() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("schema/results.schema.json").read_text("utf-8")
    definitions: dict[str, Any] = json.loads(text)["$defs"]
    return definitions
