"""What the schemas refuse: fastjsonschema decides, and jsonschema, which stands by, agrees."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import jsonschema
import pytest

from hwcheck.contract.wire import DTYPES, LEG_STATES, RESULT_STATES
from hwcheck.results import schema_check
from hwcheck.results.run_folder import HOST_STATES
from hwcheck.results.schema_check import schema_problem

DEFINITIONS: dict[str, Any] = json.loads(
    resources.files("hwcheck.results").joinpath("schema/results.schema.json").read_text("utf-8")
)["$defs"]
ODD = [None, True, False, 0, 1, -1, 1.0, 1.5, float("nan"), "", "x", "done", "x" * 4001, [], {}]
ODD += [[1], [{}], {"check": 1}, {"": {}}, {"a": "x" * 501}]
SAMPLE = {"metric": "m", "value": 1, "unit": "W", "subject": "gpu0"}
LEG = {"collective": "all_reduce", "leg": "p2p_off", "backend": "nccl", "ranks": 2, "state": "done"}
SIZE = {
    "size_bytes": 1,
    "iterations": 1,
    "time_us": 1.0,
    "time_p95_us": 1.0,
    "spread": 0.0,
    "algbw_gbps": 1.0,
    "busbw_gbps": 1.0,
    "wrong": 0,
}
RESULT = {
    "check": "c",
    "state": "done",
    "reason": "",
    "samples": [SAMPLE],
    "duration_s": 0.1,
    "legs": [
        {
            **LEG,
            "sizes": [{**SIZE, "passes": 3, "pass_spread": 0.1, "in_place": {**SIZE}}],
            "env": {"NCCL_P2P_DISABLE": "1"},
            "dtype": "float",
            "transport": {"SHM": 2, "nvls": False},
        }
    ],
}
REPORT = {
    "protocol": 1,
    "facts": {"a": 1, "gpus": [{"uuid": "x"}]},
    "results": [RESULT],
    "duration_s": 1,
}
HOST = {
    "host": "h",
    "state": "reported",
    "reason": "",
    "phase": "",
    "started": "",
    "duration_s": 0,
    "report": REPORT,
}
WHOLE = {"result": RESULT, "report": REPORT, "host": HOST}


def variants(value: Any) -> list[Any]:
    """Return the value with each of its parts replaced by odd ones, left out, or added to."""
    found = list(ODD)
    if isinstance(value, dict):
        for key, part in value.items():
            found += [{**value, key: odd} for odd in variants(part)]
            found.append({name: other for name, other in value.items() if name != key})
        found.append({**value, "surplus": 1})
    if isinstance(value, list) and value:
        found += [[odd] for odd in variants(value[0])]
    return found


@pytest.mark.parametrize("name", WHOLE)
def test_what_decides_agrees_with_jsonschema(name: str) -> None:
    schema = {"$ref": f"#/$defs/{name}", "$defs": DEFINITIONS}
    validator = jsonschema.Draft202012Validator(schema)
    assert schema_problem(WHOLE[name], name) == ""
    tried = variants(WHOLE[name])
    verdicts = [schema_problem(value, name) == "" for value in tried]
    assert verdicts == [validator.is_valid(value) for value in tried]
    assert True in verdicts
    assert False in verdicts


@pytest.mark.parametrize(
    ("record", "key", "words"),
    [
        ("result", "state", RESULT_STATES),
        ("leg", "state", LEG_STATES),
        ("leg", "dtype", DTYPES),
        ("host", "state", HOST_STATES),
    ],
)
def test_the_schema_takes_the_words_of_the_records_and_no_others(
    record: str, key: str, words: tuple[str, ...]
) -> None:
    assert set(DEFINITIONS[record]["properties"][key]["enum"]) == set(words)


def test_what_is_there_twice_is_found_in_one_look() -> None:
    compared = 0

    class Name:
        def __init__(self, number: int) -> None:
            self.number = number

        def __hash__(self) -> int:
            return self.number

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return isinstance(other, Name) and self.number == other.number

        def __repr__(self) -> str:
            return f"name {self.number}"

    names = [Name(number) for number in (*range(5000), 4999)]
    assert schema_check._twice("sample", names) == "sample name 4999 is there twice"
    assert schema_check._twice("sample", names[:-1]) == ""
    assert compared < 100
