"""What is left of a module does the same for those who use it."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import pynvml
import pytest

from hwcheck import payload
from hwcheck.shake import NOTE, shake
from tests.interpreters import interpreter
from tests.node.conftest import ask_everything

FULL = Path(pynvml.__file__).read_text("utf-8")
VERSIONS = ("3.8", "3.13")
SOURCE = """\
# Copyright of somebody.

import math

FIRST = 1
LIMIT_LOW = 2
LIMIT_HIGH = 3
OLD_A_NAME = 4
made = print("an effect")
ONE = 5; TWO = 6


def decorator(function):
    return function


@decorator
def used(value):
    return helper(value) / FIRST


@decorator
def unused(value):
    return only_for_unused(value)


def only_for_unused(value):
    return value


def helper(value):
    return math.floor(value)


if made:
    def in_a_block():
        return later()


def later():
    return 1
"""


def left(*users: str) -> set[str]:
    """The names that a run of the shaken source defines."""
    made: dict[str, Any] = {"print": lambda text: text}
    exec(compile(shake(SOURCE, users), "demo", "exec"), made)
    return set(made) - {"print", "math", "__builtins__"}


ALWAYS = {"made", "in_a_block", "later"}


@pytest.mark.parametrize(
    ("user", "names"),
    [
        ("", set()),
        ("from demo import FIRST\nFIRST", {"FIRST"}),
        ("demo.used(1)", {"used", "helper", "FIRST", "decorator"}),
        ("ask('used')", {"used", "helper", "FIRST", "decorator"}),
        ("ask('LIMIT_' + kind)", {"LIMIT_LOW", "LIMIT_HIGH"}),
        ("ask('OLD_A_%s' % kind)", {"OLD_A_NAME"}),
        ("ask('OLD_%s_NAME' % kind)", set()),  # what begins with so little could be anything
        ("ask('it was used')", set()),
        ("ask(r'LIMIT_\\w*')", set()),
        ("TWO", {"ONE", "TWO"}),  # one line stays or goes as a whole
    ],
)
def test_what_is_used_is_left_and_nothing_else(user: str, names: set[str]) -> None:
    assert left(user) == ALWAYS | names


def test_what_remains_stays_on_its_line_below_the_note() -> None:
    lines, before = shake(SOURCE, ["used"]).split("\n"), SOURCE.split("\n")
    assert lines[:2] == ["# Copyright of somebody.", NOTE]
    assert len(lines) == len(before)
    assert [line for line, old in zip(lines, before, strict=True) if line not in (old, "")] == [
        NOTE
    ]
    everything = ["used", "unused", "LIMIT_LOW", "LIMIT_HIGH", "OLD_A_NAME", "ONE"]
    assert shake(SOURCE, everything) == SOURCE, "no note where nothing was left out"


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The payload as a file."""
    path = tmp_path_factory.mktemp("pushed") / "payload.pyz"
    path.write_bytes(payload.build().data)
    return path


@pytest.fixture(scope="module")
def pynvml_there(pushed: Path) -> str:
    return zipfile.ZipFile(pushed).read("pynvml.py").decode()


def test_pynvml_is_a_tenth_with_its_license_and_a_note(pynvml_there: str) -> None:
    header = FULL[: FULL.index("from ctypes")].rstrip("#\n").replace("\n\n", f"\n{NOTE}\n", 1)
    assert pynvml_there.startswith(header)
    assert "Redistribution and use in source and binary forms" in header
    assert NOTE in header
    assert len(pynvml_there) < len(FULL) / 6
    assert pynvml_there.count("\n") == FULL.count("\n")


def defined(source: str, name: str) -> bool:
    return re.search(rf"^((def|class) {name}\(|{name}\s*=)", source, re.MULTILINE) is not None


def test_every_name_that_the_node_asks_for_is_there(pynvml_there: str) -> None:
    sources = "\n".join(path.read_text("utf-8") for path in payload.PACKAGE.glob("node/**/*.py"))
    quoted = re.findall(r"""["']((?:nvml[A-Z]|NVML_|c_nvml)\w+)["']""", sources)
    asked = {
        name for name in quoted + re.findall(r"_pynvml\.(\w+)", sources) if defined(FULL, name)
    }
    assert len(asked) > 80
    assert {name for name in asked if not defined(pynvml_there, name)} == set()
    assert not defined(pynvml_there, "nvmlDeviceSetPowerManagementLimit")


def test_nothing_that_is_left_uses_what_is_gone(
    pynvml_there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("reduced")
    monkeypatch.setitem(sys.modules, "reduced", module)  # where its own code looks for it
    exec(compile(pynvml_there, "reduced", "exec"), vars(module))
    nodes = list(ast.walk(ast.parse(pynvml_there)))
    names = {node.id for node in nodes if isinstance(node, ast.Name) and hasattr(pynvml, node.id)}
    assert {name for name in names if not hasattr(module, name)} == set()
    del module.__dict__["_nvmlCheckReturn"]
    assert {name for name in names if not hasattr(module, name)} == {"_nvmlCheckReturn"}


ERRORS = """
import json, pynvml
codes = {name: getattr(pynvml, name) for name in dir(pynvml) if name.startswith("NVML_ERROR_")}
said = {}
for name, code in codes.items():
    error = pynvml.NVMLError(code)
    said[name] = [code, type(error).__name__, str(error)]
print(json.dumps([said, pynvml.__file__]))
"""


def errors(python: str, path: str) -> Any:
    """What the pynvml below a path says of every error, and where it is."""
    code = f"import sys; sys.path.insert(0, {path!r})" + ERRORS
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("version", VERSIONS)
def test_errors_have_the_same_classes_and_texts(version: str, pushed: Path) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    said, where = errors(python, str(pushed))
    assert where == f"{pushed}/pynvml.py"
    assert said["NVML_ERROR_GPU_IS_LOST"] == [15, "NVMLError_GpuIsLost", "GPU is lost"]
    assert said == errors(python, str(Path(pynvml.__file__).parent))[0]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("library", ["new", "old"])
def test_nvml_is_read_as_with_the_whole_pynvml(
    version: str, library: str, pushed: Path, fake_nvml: Path
) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    for deviation in ("", "code_4711", "lost", "margin", "mig", "fabric_v2", "blackwell"):
        whole = ask_everything(fake_nvml / library, deviation)
        there = ask_everything(fake_nvml / library, deviation, modules=pushed, python=python)
        assert there == whole


def test_a_function_that_is_missed_shows(pushed: Path, fake_nvml: Path, tmp_path: Path) -> None:
    """Negative control of the comparison above."""
    files = zipfile.ZipFile(pushed)
    lacking = {name: files.read(name) for name in files.namelist()}
    lacking["pynvml.py"] = lacking["pynvml.py"].replace(b"def nvmlDeviceGetUUID(", b"def other(")
    path = tmp_path / "lacking.pyz"
    path.write_bytes(payload.zip_files(lacking))
    said = ask_everything(fake_nvml / "new", modules=path)
    assert said["gpus"]["gpu0"].pop("uuid") == (
        "could not measure: gpu0: UUID: pynvml has no nvmlDeviceGetUUID"
    )
    assert said != ask_everything(fake_nvml / "new")
