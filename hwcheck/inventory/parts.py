"""``hwcheck_parts``: what was ordered of a host, as a list or in a CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from hwcheck.errors import Complaints
from hwcheck.inventory.variables import Variables

FIELDS = ("model", "number", "serial", "firmware", "place", "neighbor")
KEYS = ("part", "count", *FIELDS)
COLUMNS = ("host", *KEYS)
SHAPE = '{part: gpu, count: 8, model: NVIDIA H200}, {part: cpu0, serial: "F4D1"}'
MOST_ROWS = 1000
MOST_COUNT = 1024
CHARACTERS = 200
CSV_BYTES = 64 << 20


def parts(variables: Variables, key: str) -> list[dict[str, Any]]:
    """Return the rows of a host, each with the keys of ``KEYS`` that it has.

    A text is the name of a CSV file beside the inventory, with a header; a row without ``host`` is
    about every host. Raises UsageError, a line for each row that is wrong.
    """
    declared = variables.raw.get(key)
    if isinstance(declared, list):
        rows = [(f"{key}[{place}]", row) for place, row in enumerate(declared, 1)]
    elif isinstance(declared, str):
        rows = list(_of_file(variables, key))
    else:
        raise variables.error(key, f"is neither a list nor the name of a CSV file: [{SHAPE}]")
    if len(rows) > MOST_ROWS:
        raise variables.error(key, f"{len(rows)} rows of one host; at most {MOST_ROWS}")
    taken = []
    complaints = Complaints()
    for where, row in rows:
        with complaints.noting():
            taken.append(_row(variables, where, row))
    complaints.refuse()
    return taken


def _of_file(variables: Variables, key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    name = variables.text(key) or ""
    path = variables.folder / name
    try:
        with path.open("rb") as stream:
            content = stream.read(CSV_BYTES + 1)
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no text in UTF-8"
        raise variables.error(key, f"{str(path)[:200]}: {why}") from None
    if len(content) > CSV_BYTES:
        raise variables.error(key, f"{path}: larger than {CSV_BYTES >> 20} MiB")
    reader = csv.DictReader(io.StringIO(text, newline=""))
    for column in reader.fieldnames or ("",):
        if column not in COLUMNS:
            problem = f"{path}: column {column[:60]!r} is none of {', '.join(COLUMNS)}"
            raise variables.error(key, problem)
    for row in reader:
        where = f"{key}: {path.name}:{reader.line_num}"
        if None in row:
            raise variables.error(where, "it has more values than the header has columns")
        if (row.get("host") or variables.host) == variables.host:
            yield where, {name: text for name, text in row.items() if text and name != "host"}


def _row(variables: Variables, where: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise variables.error(where, f"is no mapping; write {SHAPE}")
    for word in given:
        if word not in KEYS:
            raise variables.error(where, f"{str(word)[:60]!r} is none of {', '.join(KEYS)}")
    if not given.get("part"):
        raise variables.error(where, f"part is missing: write {SHAPE}")
    row: dict[str, Any] = {}
    for name in ("part", *FIELDS):
        if given.get(name) is None:
            continue
        value = given[name]
        if isinstance(value, (bool, float)):
            raise variables.error(
                where, f"{name}: {value} was read as a number; write it in quotes"
            )
        text = variables.value(where, value).strip()
        if not 0 < len(text) <= CHARACTERS:
            raise variables.error(
                where, f"{name}: a text of 1 to {CHARACTERS} characters is wanted"
            )
        row[name] = text
    if given.get("count") is not None:
        text = str(given["count"]).strip()
        if not (text.isascii() and text.isdigit() and 0 < int(text) <= MOST_COUNT):
            problem = f"count: {text[:40]!r} is no whole number from 1 to {MOST_COUNT}"
            raise variables.error(where, problem)
        row["count"] = int(text)
    return row
