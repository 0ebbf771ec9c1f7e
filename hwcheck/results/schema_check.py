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

_SAMPLE = itemgetter("metric", "value", "unit", "subject")
_NAME = itemgetter("metric", "subject")

ONE_HOST = ("run", "host", "report", "result", "series", "sweep", "acceptance", "state", "golden")
MULTI_HOST = ("group", "ready", "answer")
TRAINING = ("training", "trained")
"""What ``results.schema.json``, ``group.schema.json`` and ``training.schema.json`` define that is
checked as a whole."""


def schema_problem(data: Any, schema: str) -> str:
    """Return what breaks ``schema``, one of the above, in one line, or nothing.

    A thing that is there twice breaks it too: one would go unseen.
    """
    schemas = next((each for each in (MULTI_HOST, TRAINING) if schema in each), ONE_HOST)
    lean = _lean(data, schema)
    try:
        _compiled(schemas)({schema: lean})
    except fastjsonschema.JsonSchemaValueException:
        return _explained(data, schema, schemas)
    return _repeated(lean, schema)


def _explained(data: Any, schema: str, schemas: tuple[str, ...]) -> str:
    """Return where data break a schema, and how: ``results/0/state: must be one of [...]``."""
    try:
        _compiled(schemas, detailed=True)({schema: data})
    except fastjsonschema.JsonSchemaValueException as refusal:
        where = "/".join(refusal.path[2:]) or "top level"
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
    seen: set[object] = set()
    for name in names:
        if name in seen:
            return f"{what} {name!r} is there twice"[:200]
        seen.add(name)
    return ""


@cache
def _compiled(schemas: tuple[str, ...], *, detailed: bool = False) -> Callable[[Any], Any]:
    """Compile schemas of one file into one function of ``{schema: data}``: what they share, once.

    Without details about what is refused it takes half as long.
    """
    # fastjsonschema ends at draft 7; the schemas use nothing of later ones but "$defs" as a name.
    draft = {"$schema": "http://json-schema.org/draft-07/schema#"}
    properties = {name: {"$ref": f"#/$defs/{name}"} for name in schemas}
    document = draft | {"properties": properties, "$defs": _definitions(schemas)}
    compiled: Callable[[Any], Any] = fastjsonschema.compile(document, detailed_exceptions=detailed)
    return compiled


@cache
def _definitions(schemas: tuple[str, ...] = ONE_HOST) -> dict[str, Any]:
    name = {MULTI_HOST: "group", TRAINING: "training"}.get(schemas, "results")
    text = resources.files(__package__).joinpath(f"schema/{name}.schema.json").read_text("utf-8")
    definitions: dict[str, Any] = json.loads(text)["$defs"]
    return definitions
