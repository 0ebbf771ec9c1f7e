"""What is read back, or comes from a node, against the JSON Schemas in ``results/schema/``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from importlib import resources
from itertools import starmap
from operator import itemgetter
from typing import Any

import fastjsonschema

from hwcheck.results import series
from hwcheck.results.options_schema import options_schema

_SAMPLE = itemgetter("metric", "value", "unit", "subject")
_NAME = itemgetter("metric", "subject")

FILES = {
    **dict.fromkeys(("group", "ready", "answer"), "group"),
    **dict.fromkeys(("training", "trained"), "training"),
}
"""Where a schema is defined, if not in ``results.schema.json``."""


def schema_problem(data: Any, schema: str) -> str:
    """Return what breaks ``schema``, a definition of those files, in one line, or nothing.

    A thing that is there twice breaks it too: one would go unseen.
    """
    lean = _lean(data, schema)
    try:
        _compiled(schema)(lean)
    except fastjsonschema.JsonSchemaValueException:
        return _explained(data, schema)
    return _repeated(lean, schema)


def _explained(data: Any, schema: str) -> str:
    """Return where data break a schema, and how: ``results/0/state: must be one of [...]``."""
    try:
        _compiled(schema, detailed=True)(data)
    except fastjsonschema.JsonSchemaValueException as refusal:
        where = "/".join(refusal.path[1:]) or "top level"
        if refusal.rule == "required":
            missing = [name for name in refusal.rule_definition if name not in refusal.value]
            return f"{where}: lacks {', '.join(missing)}"
        what = refusal.message.removeprefix(refusal.name).strip()
        value = json.dumps(refusal.value, default=str)
        return f"{where}: {what[:160]}, not {value[:80]}"
    raise AssertionError("one schema, compiled twice, refuses and accepts the same")


def _lean(data: Any, schema: str) -> Any:
    """Return ``data`` without the samples of checks whose samples all fit, and are there once.

    Like hosts send like samples, and a run of a thousand has millions: these are looked at once.
    """
    if schema == "result":
        samples = data.get("samples") if isinstance(data, dict) else None
        most = _definitions("results")["result"]["properties"]["samples"]["maxItems"]
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
        _compiled("sample")(sample)
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
    seen: set[object] = set()
    for name in names:
        if name in seen:
            return f"{what} {name!r} is there twice"[:200]
        seen.add(name)
    return ""


@cache
def _compiled(schema: str, *, detailed: bool = False) -> Callable[[Any], Any]:
    """Compile a schema; without details about what is refused it takes half as long."""
    definitions = _definitions(FILES.get(schema, "results"))
    if schema == "run":
        definitions = {**definitions, "options": options_schema(definitions)}
    document = {
        # fastjsonschema ends at draft 7; of later ones only "$defs" is used, as a name.
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$ref": f"#/$defs/{schema}",
        "$defs": definitions,
    }
    compiled: Callable[[Any], Any] = fastjsonschema.compile(document, detailed_exceptions=detailed)
    return compiled


@cache
def _definitions(file: str) -> dict[str, Any]:
    text = resources.files(__package__).joinpath(f"schema/{file}.schema.json").read_text("utf-8")
    definitions: dict[str, Any] = json.loads(text)["$defs"]
    return definitions
