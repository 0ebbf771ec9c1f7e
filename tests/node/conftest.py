"""Every question to NVML, asked of the stand-in in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hwcheck.node import load_lock

ROOT = Path(__file__).parents[2]

ASK_EVERYTHING = """
import inspect, json, os
from hwcheck.contract.check import CouldNotMeasure
from hwcheck.node.nvml.gpu import Gpu
from hwcheck.node.nvml.nvml import Nvml
from hwcheck.node.nvml.reader import NvmlReader

QUANTITIES = [name for name in dir(Gpu) if name[0] != "_" and not hasattr(NvmlReader, name)]
QUANTITIES.remove("facts")  # asked of all at once, below

def put(gpu, name):
    # What is asked about another GPU is asked about the other one of the two.
    question = getattr(gpu, name)
    about = inspect.signature(question).parameters
    return question(*[1 - int(gpu.subject[3:])] * len(about))

def plain(answer):
    if isinstance(answer, list):
        return [plain(each) for each in answer]
    return answer._asdict() if hasattr(answer, "_asdict") else answer

def ask(reader):
    try:
        return reader()
    except CouldNotMeasure as error:
        return "could not measure: " + str(error)

bound_s = float(os.environ.get("BOUND_S", "10"))
nvml = Nvml(timeout_s=bound_s, opening_s=lambda: float(os.environ.get("OPENING_S") or bound_s))
said = {"status": nvml.status(), "driver": ask(nvml.driver_version)}
said["cuda"] = ask(nvml.cuda_driver_version)
gpus = ask(nvml.gpus)
if isinstance(gpus, list):
    said["gpus"] = {
        gpu.subject: {name: plain(ask(lambda: put(gpu, name))) for name in QUANTITIES}
        for gpu in gpus
    }
else:
    said["gpus"] = gpus
said["opening_s"] = ask(nvml.opening_took_s)
said["facts"] = [gpu.to_dict() for gpu in nvml.facts()]
said["status after"] = nvml.status()
print(json.dumps(said))
"""

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def own_load_lock(monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the test a load lock of its own: somebody may be loading this machine for real."""
    name = f"\0hwcheck-test-{os.getpid()}"
    monkeypatch.setattr(load_lock, "NAME", name)
    return name


@pytest.fixture
def ask(fake_nvml: Path) -> Ask:
    """Ask every question of a node whose NVML deviates as named, in a process of its own.

    Who asks the same of the same node is given the same answer.
    """

    def run(
        deviation: str = "", library: str = "new", bound_s: float = 10, opening_s: float = 0
    ) -> dict[str, Any]:
        return deepcopy(_answer(fake_nvml / library, deviation, bound_s, opening_s))

    return run


@cache
def _answer(*of: Any) -> dict[str, Any]:
    return ask_everything(*of)


def ask_everything(
    library: Path,
    deviation: str = "",
    bound_s: float = 10,
    opening_s: float = 0,
    modules: Path = ROOT,
    python: str = sys.executable,
) -> dict[str, Any]:
    """Ask over the stand-in in this folder, with the package found in ``modules``.

    Without ``opening_s`` opening has the bound of every call.
    """
    own = {
        "LD_LIBRARY_PATH": str(library),
        "HWLAB_NVML": str(library / (deviation or "scenario")),
        "BOUND_S": str(bound_s),
        "OPENING_S": str(opening_s or ""),
        "PYTHONPATH": str(modules),
    }
    done = subprocess.run(
        [python, "-c", ASK_EVERYTHING],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said
