"""The file of open problems: read, and replaced as a whole."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path, PurePath
from typing import Any

import fastjsonschema

from hwcheck.fleet.notify.changes import LastSweep, OpenProblem, State
from hwcheck.fleet.notify.problems import Problem
from hwcheck.results.files import NotPlainError, read_plain, replace_file

FORMAT = 1
NAME = "problems.json"
MOST_BYTES = 256 * 2**20
"""100,000 problems take less."""
TIME = {"type": "string", "pattern": "^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z)?$"}
WORD = {"type": "string", "maxLength": 500}
SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "additionalProperties": False,
    "required": ["format", "sweep", "reminded", "open", "ended"],
    "properties": {
        "format": {"const": FORMAT},
        "sweep": WORD,
        "reminded": TIME,
        "ended": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "required": ["started", "finished", "hosts", "measured", "every_s"],
                "properties": {
                    "started": {**TIME, "minLength": 1},
                    "finished": {**TIME, "minLength": 1},
                    "hosts": {"type": "integer", "minimum": 0},
                    "measured": {"type": "integer", "minimum": 0},
                    "every_s": {"type": "number", "minimum": 0},
                },
            },
        },
        "open": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["problem", "since", "well"],
                "properties": {
                    "since": {**TIME, "minLength": 1},
                    "well": {"type": "integer", "minimum": 0},
                    "problem": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["host", "check", "outcome"],
                        "properties": {
                            "outcome": {"enum": ["fail", "inconclusive", "warn"]},
                            "subjects": {"type": "array", "items": WORD},
                            **dict.fromkeys(("host", "check", "cause", "evidence", "fix"), WORD),
                        },
                    },
                },
            },
        },
    },
}


class DamagedStateError(Exception):
    """The file of open problems cannot be read."""


def read(folder: Path) -> State:
    """Return what is open; nothing where there is no file. Raises DamagedStateError and OSError."""
    try:
        data = json.loads(read_plain(folder, PurePath(NAME), MOST_BYTES))
        _checked(data)
    except FileNotFoundError:
        return State()
    except NotPlainError as error:
        raise DamagedStateError(f"{folder / NAME}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # what a schema refuses is a ValueError
        raise DamagedStateError(f"{folder / NAME}: {error}") from None
    ended = {level: LastSweep(**each) for level, each in data["ended"].items()}
    return State(data["sweep"], data["reminded"], tuple(map(_open_problem, data["open"])), ended)


def write(folder: Path, state: State) -> None:
    """Replace the file. Raises OSError."""
    data = {"format": FORMAT, **asdict(state)}
    replace_file(folder / NAME, (json.dumps(data, indent=1) + "\n").encode(), sync=True)


def put_aside(folder: Path) -> Path:
    """Keep a damaged file under another name, which is returned. Raises OSError."""
    kept = folder / f"{NAME}.damaged"
    os.replace(folder / NAME, kept)
    return kept


def _open_problem(data: Mapping[str, Any]) -> OpenProblem:
    problem = data["problem"]
    subjects = tuple(problem.get("subjects", ()))
    return OpenProblem(Problem(**{**problem, "subjects": subjects}), data["since"], data["well"])


def _checked(data: Any) -> None:
    _validator()(data)


@cache
def _validator() -> Any:
    return fastjsonschema.compile(SCHEMA)
