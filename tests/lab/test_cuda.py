"""The simulated CUDA: what torch finds under its interpreter, and what NVML sees of the work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from tests.lab import loads
from tests.lab.loads import CUDA, LoadedNode

pytestmark = pytest.mark.urgent

FLOPS = 2 * 8192.0**3

ASK = """
import json, os, time
import torch

def product(count):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(count):
        torch.mm(left, right, out=out)
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / count

eye = torch.eye(3)
said = {
    "cuda": torch.version.cuda,
    "available": torch.cuda.is_available(),
    "count": torch.cuda.device_count(),
    "on_the_cpu": torch.mm(eye, 2 * eye).tolist() == (2 * eye).tolist(),
    "a_generator": torch.randn(3, generator=torch.Generator().manual_seed(1)).tolist(),
}
if said["count"]:
    torch.cuda.set_device(0)
    facts = torch.cuda.get_device_properties(0)
    said["capability"] = [facts.major, facts.minor, facts.multi_processor_count]
    said["free"], said["total"] = torch.cuda.mem_get_info()
    how = {"dtype": torch.bfloat16, "device": "cuda:0"}
    generator = torch.Generator(device="cuda:0").manual_seed(1)
    left, right = (torch.randn((8192, 8192), generator=generator, **how) for _ in range(2))
    out = torch.empty((8192, 8192), **how)
    said["short_ms"] = product(2)
    said["noticed"] = os.path.exists(os.environ["HWLAB_NVML_LOAD"] + ".2")
    began = time.monotonic()
    said["ms"], said["took_s"] = product(400), time.monotonic() - began
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> tuple[LoadedNode, dict[str, str], Path]:
    """Return a node, the environment of its processes, and the interpreter that has CUDA."""
    node = loads.load("h100x8")
    environment, variables = node.install(tmp_path_factory.mktemp("hwlab") / "node")
    return node, environment, Path(str(variables["hwcheck_torch_python"]))


def ask(python: Path, environment: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(
        [python, "-c", ASK], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_a_gpu_is_as_fast_as_its_file_says(
    node: tuple[LoadedNode, dict[str, str], Path],
) -> None:
    loaded, environment, python = node
    assert loaded.scenario.nvml is not None
    uuid = loaded.scenario.nvml["gpus"][2]["uuid"]
    said = ask(python, {**environment, "CUDA_VISIBLE_DEVICES": uuid})
    assert (said["cuda"], said["available"], said["count"]) == ("12.8", True, 1)
    assert said["capability"] == [9, 0, 132]
    assert 75e9 < said["free"] < said["total"] < 86e9
    assert said["on_the_cpu"]
    assert said["ms"] == pytest.approx(FLOPS / loaded.gpus[2]["tflops"] / 1e9, rel=1e-3)
    assert said["took_s"] >= 0.39 * said["ms"], "it takes its time"
    assert not said["noticed"], "two products draw no power that anybody sees"
    since, until = map(float, Path(environment["HWLAB_NVML_LOAD"] + ".2").read_text().split())
    # The process has ended, and with it, a moment later, what NVML sees of its work.
    assert since + said["took_s"] - 0.1 <= until < time.time() + 2.1
    assert not Path(environment["HWLAB_NVML_LOAD"] + ".1").exists()


def test_who_sees_no_gpu_has_none(node: tuple[LoadedNode, dict[str, str], Path]) -> None:
    _, environment, python = node
    said = ask(python, {**environment, "CUDA_VISIBLE_DEVICES": ""})
    assert (said["available"], said["count"]) == (False, 0)


def test_another_interpreter_is_left_alone() -> None:
    # The folder alone changes nothing: other tests' interpreters may see it.
    said = ask(Path(sys.executable), {"PYTHONPATH": str(CUDA), "CUDA_VISIBLE_DEVICES": ""})
    assert (said["available"], said["on_the_cpu"]) == (False, True)
