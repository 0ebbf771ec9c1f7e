"""validation_env: a virtual environment with the pinned packages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hwcheck.provision.state.asserts import ask, asserts

VERSION = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"


@asserts("validation_env_path")
def test_interpreter(host: Any, wanted: str) -> None:
    """The environment has an interpreter that starts, and is an environment of its own."""
    done = host.run("%s -c 'import sys; print(sys.prefix != sys.base_prefix)'", python(wanted))
    assert done.succeeded, f"{python(wanted)} does not start"
    assert done.stdout.strip() == "True", f"{wanted} is no virtual environment"


@asserts("validation_env_requirements", each=True)
def test_requirement(host: Any, wanted: str, role: Mapping[str, Any]) -> None:
    """The package has exactly its pinned version."""
    name, pinned, version = wanted.partition("==")
    if not pinned:
        pytest.skip(f"{wanted} is not pinned to a version")
    interpreter = python(str(role["validation_env_path"]))
    assert host.run("test -x %s", interpreter).succeeded, f"{interpreter} is missing"
    done = host.run("%s -c %s %s", interpreter, VERSION, name.partition("[")[0].strip())
    assert done.succeeded, f"{name} is not installed"
    # What stands after a plus says how it was built (torch's CUDA); it counts only where given.
    actual = done.stdout.strip()
    public = actual if "+" in version else actual.partition("+")[0]
    assert public == version.strip(), f"{name} is {actual}, not {version}"


@asserts("validation_env_wheelhouse")
def test_wheelhouse(host: Any, wanted: str) -> None:
    """The folder of wheels is there."""
    assert ask(host, "ls -d %s 2>/dev/null || echo none", wanted) == wanted, f"{wanted} is missing"


def python(folder: str) -> str:
    """Return the interpreter of a virtual environment."""
    return f"{folder}/bin/python"
