"""The library is compiled against NVIDIA's header, and has what is asked of it."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pynvml
import pytest

from tests.lab import nvml
from tests.lab.nvml_keys import SOURCES, functions

ROOT = Path(__file__).parents[2]
PYNVML = Path(pynvml.__file__).read_text("utf-8")
ELSEWHERE = {"nvmlDeviceGetConfComputeMemSizeInfo", "nvmlDeviceGetRunningProcessDetailList"}
"""nvitop tells a structure by whether these are there; a driver without them is as real."""


def behind(name: str) -> set[str]:
    """Return the C functions that a function of pynvml asks, by itself or through another."""
    body = re.search(rf"^def {name}\(.*\n((?: .*\n|\n)+)", PYNVML, re.M)
    if not body:
        return set()
    found = set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', body[1]))
    return found.union(*map(behind, set(re.findall(r"\b(nvml[A-Z]\w+)\(", body[1])) - {name}))


def called(sources: Iterable[Path]) -> set[str]:
    """Return the C functions behind every function of pynvml that these sources name."""
    text = "".join(path.read_text("utf-8") for path in sources)
    return set().union(*map(behind, set(re.findall(r"\bnvml[A-Z]\w+", text))))


def package(name: str) -> list[Path]:
    spec = find_spec(name)
    assert spec is not None, f"{name} is not installed"
    assert spec.origin is not None
    return list(Path(spec.origin).parent.rglob("*.py"))


def test_the_library_has_every_function_that_the_payload_calls() -> None:
    sources = list((ROOT / "hwcheck" / "node").rglob("*.py"))
    wanted = called(sources)
    assert len(wanted) > 40
    assert sorted(wanted - functions()) == []


@pytest.mark.parametrize("name", ["nvitop", "gpustat"])
def test_and_every_function_that_other_tools_call(name: str) -> None:
    wanted = called(package(name))
    assert len(wanted) > 15
    assert sorted(wanted - functions() - ELSEWHERE) == []


def test_a_function_that_is_lacking_would_be_seen(tmp_path: Path) -> None:
    """Negative control of the two tests above."""
    source = tmp_path / "new.py"
    source.write_text('ASK = ("nvmlDeviceGetGspFirmwareVersion", "nvmlDeviceGetCount")')
    wanted = called([source])
    assert wanted == {"nvmlDeviceGetGspFirmwareVersion", "nvmlDeviceGetCount_v2"}
    assert wanted - functions() == {"nvmlDeviceGetGspFirmwareVersion"}


def test_the_library_exports_these_functions_and_nothing_else(nvml_library: Path) -> None:
    library = ctypes.CDLL(str(nvml_library / nvml.LIBRARY))
    assert [name for name in sorted(functions()) if not hasattr(library, name)] == []
    assert not hasattr(library, "scenario_text")


def test_it_is_built_once_and_again_when_it_differs(tmp_path: Path) -> None:
    first = (nvml.build(tmp_path) / nvml.LIBRARY).stat().st_mtime_ns
    assert (nvml.build(tmp_path) / nvml.LIBRARY).stat().st_mtime_ns == first
    nvml.build(tmp_path, without=["nvmlDeviceGetName"])
    assert (tmp_path / nvml.LIBRARY).stat().st_mtime_ns != first
    assert not hasattr(ctypes.CDLL(str(tmp_path / nvml.LIBRARY)), "nvmlDeviceGetName")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("nvmlReturn_t nvmlDeviceGetModuleId(nvmlDevice_t d, int *m) { return *m = !d; }",
         "conflicting types"),
        ("nvmlReturn_t nvmlDeviceGetColor(nvmlDevice_t d) { return d != 0; }",
         "no previous prototype"),
    ],
)  # fmt: skip
def test_what_the_header_does_not_declare_does_not_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, words: str
) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "scenario.h").write_text((SOURCES / "scenario.h").read_text("utf-8"), "utf-8")
    (sources / "wrong.c").write_text(f'#include "scenario.h"\n{source}\n', "utf-8")
    monkeypatch.setattr(nvml, "SOURCES", sources)
    with pytest.raises(RuntimeError, match=words):
        nvml.build(tmp_path / "built")
    assert not (tmp_path / "built" / nvml.LIBRARY).exists()


def test_without_the_header_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "files", lambda name: [])
    with pytest.raises(RuntimeError, match="install nvidia-nvml-dev"):
        nvml.header()
