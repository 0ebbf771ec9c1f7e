"""What a ``run.json`` may hold of the options follows from their fields, and from nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import fastjsonschema
import pytest

from hwcheck.contract.model_shape import MODELS, ModelShape
from hwcheck.contract.wire import Timing, to_dict
from hwcheck.results import schema_check
from hwcheck.results.options import MultiHostOptions, Options, TrainingOptions
from hwcheck.results.options_schema import MOST, options_schema, shape_of
from hwcheck.results.run_folder import HostPlan, RunMeta, read_meta
from hwcheck.results.schema_check import schema_problem

TESTS = Path(__file__).parents[1]
SAVED = [path.parent for path in sorted(TESTS.glob("recorded/*/run.json"))]
SAVED += [path.parent for path in sorted(TESTS.glob("results/saved/*/run.json"))]
DEFINITIONS = schema_check._definitions("results")
OPTIONS = Options(
    checks=("driver",),
    scopes=("all",),
    duration_s=20.0,
    timing=Timing(("default",)),
    over_hosts=MultiHostOptions(sizes=(1,), iterations=1, warmups=1),
    training=TrainingOptions(MODELS["tiny"], ranks=(2,), named=("dtype",)),
    timeout_s=900.0,
    require_coverage_percent=80.0,
    variables=("a",),
    site={"checks/fans.py": "0" * 64},
    sweep={"id": "cluster.1", "level": "nightly"},
    acceptance={"id": "rack7", "stage": "load"},
)
"""Every field with a value, and every list with an item."""
MAY_BE_NULL = {
    ("over_hosts", "iterations"),
    ("over_hosts", "warmups"),
    ("training",),
    ("require_coverage_percent",),
}
KINDS = {bool: True, int: 1, float: 1.5, str: "x", list: [], dict: {}}


def record(options: Options = OPTIONS) -> dict[str, Any]:
    """Return a ``run.json``."""
    meta = RunMeta(
        *("r", "2026-01-31T12:00:00Z", (), (HostPlan("a", "192.0.2.1"),)), options=to_dict(options)
    )
    made: dict[str, Any] = json.loads(json.dumps(meta.to_record()))
    return made


def paths(value: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Return where each value of an object is, those of the objects in it among them."""
    for name, part in value.items():
        yield (*above, name)
        if isinstance(part, dict):
            yield from paths(part, (*above, name))


def value_at(path: tuple[str, ...]) -> Any:
    value = record()["options"]
    for name in path:
        value = value[name]
    return value


def problem_with(path: tuple[str, ...], value: Any) -> str:
    """Return why a ``run.json`` is refused that has this value there."""
    changed = record()
    place = changed["options"]
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return schema_problem(changed, "run")


PATHS = list(paths(record()["options"]))


def test_every_field_is_in_the_schema_and_none_besides() -> None:
    properties = options_schema(DEFINITIONS)["properties"]
    assert set(properties) == {field.name for field in fields(Options)}
    assert set(properties["over_hosts"]["properties"]) == {
        field.name for field in fields(MultiHostOptions)
    }
    training = properties["training"]["anyOf"][0]["properties"]
    assert set(training) == {field.name for field in fields(TrainingOptions)}
    assert set(training["model"]["properties"]) == {field.name for field in fields(ModelShape)}


def test_the_record_that_is_changed_has_every_option_and_fits() -> None:
    assert {path[0] for path in PATHS} == {field.name for field in fields(Options)}
    assert [path for path in PATHS if value_at(path) in (None, [])] == []
    assert schema_problem(record(), "run") == ""
    assert schema_problem(record(Options(duration_s=20.0, timeout_s=900.0)), "run") == ""


@pytest.mark.parametrize("path", PATHS, ids=".".join)
def test_a_value_of_another_type_is_refused(path: tuple[str, ...]) -> None:
    value = value_at(path)
    taken = {float: (int, float)}.get(type(value), (type(value),))
    where = "/".join(("options", *path[:1]))
    for kind, wrong in KINDS.items():
        if kind not in taken:
            assert problem_with(path, wrong).startswith(where), wrong
    assert (problem_with(path, None) == "") == (path in MAY_BE_NULL)
    if isinstance(value, list):
        assert problem_with(path, [{}]).startswith(where)
    if isinstance(value, dict):
        assert problem_with((*path, "surplus"), 1).startswith(where)


@dataclass(frozen=True)
class Inner:
    amount: int = 0


@pytest.mark.parametrize(
    ("hint", "fits", "wrong"),
    [
        (str, ["", "x" * 200], ["x" * 201, 1, None]),
        (int, [0, 2**63 - 1], [-1, 2**63, 1.5, True, "1", None]),
        (float, [0, 1.5, 1e300], [-0.1, 1e301, True, "1", None]),
        (bool, [True, False], [1, "yes", None]),
        (tuple[int, ...], [[], [1] * MOST], [[1] * (MOST + 1), ["x"], [None], "x", None]),
        (
            Mapping[str, str],
            [{}, {"a": "b"}, dict.fromkeys(map(str, range(MOST)), "")],
            [{"a": 1}, {"x" * 201: ""}, dict.fromkeys(map(str, range(MOST + 1)), ""), [], None],
        ),
        (int | None, [None, 1], ["x", -1, 1.5]),
        (Annotated[str | None, {"maxLength": 2}], [None, "xx"], [1, "xxx"]),
        (Inner, [{}, {"amount": 1}], [{"amount": "x"}, {"surplus": 1}, [], None]),
        (Annotated[str, {"enum": ["a", "b"]}], ["a"], ["c", 1, None]),
        (Annotated[tuple[str, ...], {"maxItems": 1}], [["a"]], [["a", "b"], [1]]),
        (Annotated[float | None, {"type": "number"}], [1], [None, -1, "x"]),
    ],
)
def test_a_type_says_what_is_taken(hint: Any, fits: list[Any], wrong: list[Any]) -> None:
    check = fastjsonschema.compile(shape_of(hint, DEFINITIONS))
    for value in fits:
        check(value)
    for value in wrong:
        with pytest.raises(fastjsonschema.JsonSchemaValueException):
            check(value)


@pytest.mark.parametrize("hint", [bytes, list[str], tuple[int, str], Mapping[int, str], Any])
def test_a_type_that_no_option_has_is_refused(hint: Any) -> None:
    with pytest.raises(TypeError, match=r"no option in run\.json is of this type"):
        shape_of(hint, DEFINITIONS)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("scopes", 10),
        ("variables", 100_000),
        ("over_hosts.sizes", 1000),
        ("over_hosts.collectives", 100),
        ("training.strategies", 1000),
        ("training.legs", 100),
        ("training.ranks", 100_000),
        ("training.named", 100),
    ],
)
def test_of_several_there_are_only_so_many(name: str, most: int) -> None:
    path = tuple(name.split("."))
    item = value_at(path)[0]
    assert problem_with(path, [item] * most) == ""
    assert problem_with(path, [item] * (most + 1)).startswith(f"options/{path[0]}")


def test_the_name_of_a_variable_is_as_long_as_a_command_may_be() -> None:
    assert problem_with(("variables",), ["x" * 1_000_000]) == ""
    assert problem_with(("variables",), ["x" * 1_000_001]) != ""


@pytest.mark.parametrize("folder", SAVED, ids=lambda folder: folder.name)
def test_a_run_that_was_recorded_before_is_read(folder: Path) -> None:
    """``of_every_option`` is of the version in which the schema of the options was written down."""
    saved = json.loads((folder / "run.json").read_text("utf-8"))
    assert schema_problem(saved, "run") == ""
    meta = read_meta(folder)
    assert meta
    assert meta.options == saved.get("options", {})


def test_some_were_recorded_with_options_and_some_without() -> None:
    with_options = ["options" in json.loads((run / "run.json").read_text("utf-8")) for run in SAVED]
    assert set(with_options) == {True, False}


def test_options_of_a_former_version_may_be_fewer() -> None:
    former = record()
    kept = ("checks", "profile", "inventory", "limit")
    former["options"] = {name: former["options"][name] for name in kept}
    assert schema_problem(former, "run") == ""
    for name in kept:
        fewer = deepcopy(former)
        del fewer["options"][name]
        assert schema_problem(fewer, "run") == f"options: lacks {name}"


def test_only_a_run_has_the_schema_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(definitions: Mapping[str, Any]) -> dict[str, Any]:
        raise AssertionError("made")

    monkeypatch.setattr(schema_check, "options_schema", fail)
    for schema in ("sample", "host", "series", "group", "training"):
        schema_check._compiled.__wrapped__(schema)
    with pytest.raises(AssertionError, match="made"):
        schema_check._compiled.__wrapped__("run")


def test_a_word_that_is_not_among_those_of_an_option_is_refused() -> None:
    for path, words in {
        ("engine",): ("torch", "nccl-tests"),
        ("launcher",): ("ssh", "slurm"),
        ("over_hosts", "dtype"): ("float", "bfloat16"),
        ("training", "dtype"): ("bf16", "fp32"),
    }.items():
        assert [problem_with(path, word) for word in words] == ["", ""]
        assert problem_with(path, "another").startswith(f"options/{path[0]}")
    assert problem_with(("scopes",), ["pairs", "all", "rails"]) == ""
    assert "must be one of ['pairs', 'all', 'rails']" in problem_with(("scopes",), ["node"])
