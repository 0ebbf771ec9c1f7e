"""What the project says of its dependencies is so: docs/dependencies.md and requirements.txt."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.closure import closure

tomllib = pytest.importorskip("tomllib", reason="Python 3.11 or newer reads TOML")
ROOT = Path(__file__).resolve().parent.parent
LOCKED = (ROOT / "requirements.txt").read_text("utf-8")
ROW = re.compile(r"^\| ([\w.-]+) \| (\d[\w.]*) \| .+ \| .+ \|$", re.MULTILINE)
only_on_3_11 = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="requirements.txt is for Python 3.11"
)


def direct() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return {canonicalize_name(Requirement(each).name) for each in project["dependencies"]}


def pinned(python: str) -> dict[str, str]:
    """Return by package the version in constraints.txt for a Python."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {
        canonicalize_name(pin.name): str(pin.specifier).removeprefix("==")
        for pin in pins
        if pin.marker is None or pin.marker.evaluate({"python_version": python})
    }


def locked() -> dict[str, tuple[str, int]]:
    """Return by package its version in requirements.txt, and how many hashes it has there."""
    entries = re.split(r"\n(?=[A-Za-z])", re.sub(r"^#.*\n", "", LOCKED, flags=re.MULTILINE))
    of_entry = re.compile(r"([\w.-]+)==(\S+)")
    found = {}
    for entry in entries:
        match = of_entry.match(entry)
        assert match, entry[:80]
        found[canonicalize_name(match[1])] = (
            match[2],
            len(re.findall("sha256:[0-9a-f]{64}", entry)),
        )
    return found


def test_the_page_has_a_row_for_each_dependency_with_its_version() -> None:
    rows = dict(ROW.findall((ROOT / "docs" / "dependencies.md").read_text("utf-8")))
    pins = pinned("3.11")
    assert rows == {name: pins[name] for name in direct()}


def test_the_hashed_versions_are_those_of_the_constraints() -> None:
    pins = pinned("3.11")
    assert {name: version for name, (version, _) in locked().items()} == {
        name: pins[name] for name in locked()
    }


def test_every_hashed_package_has_hashes() -> None:
    assert [name for name, (_, hashes) in locked().items() if not hashes] == []


@only_on_3_11
def test_all_that_is_needed_is_hashed_and_nothing_else() -> None:
    assert set(locked()) == closure(direct())
