"""Simulated nodes whose GPUs can be loaded: a scenario, its CUDA, and what only a load brings out.

A file of ``tests/lab/loads/`` bears the name of the scenario it completes::

    cuda: {...}         what every GPU does
    gpus: {3: {...}}    what one of them does otherwise
    nvml: {...}         laid over what NVML says
    faults:
      name: {doc: one line, finds: {"throttle_under_load gpu2": fail, ...}, cuda: ..., gpus: ...,
             nvml: ...}

``finds`` is all that the checks of the load shall say beside ``pass``, by check and subject, what
the fault is for first. What a GPU does (all but those with a default are required)::

    processors: 132            streaming multiprocessors
    tflops: 700                at the clock that NVML's ``under_load`` gives
    spread: 0.015              share by which GPUs differ, up and down
    copy_gbps: 2800            bytes read and written by a copy within its memory
    to_device_share: 0.85  from_device_share: 0.82     of what the PCIe link carries
    link_gbps: 450             of the way to the host, where it is not the PCIe link of NVML
    flip_every: 37             in every 37th product one bit is flipped
    peer_gbps: 370  peer_access: true       copies to another GPU, straight or through the host
    peer_faults: {"3": {gbps: 90, flip_every: 2, hang: true}}     to one of them
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.lab import scenario
from tests.lab.scenario import Scenario, overlay
from tests.lab.tree_writer import ScenarioError, section

FOLDER = Path(__file__).with_name("loads")
CUDA = Path(__file__).with_name("cuda")

LAYERS: Mapping[str, Any] = {"cuda": {}, "gpus": {}, "nvml": {}}
FILE: Mapping[str, Any] = {**LAYERS, "faults": {}}
FAULT: Mapping[str, Any] = {**LAYERS, "doc": "", "finds": {}}
REQUIRED = ("processors", "tflops", "copy_gbps", "to_device_share", "from_device_share")
OPTIONAL: Mapping[str, Any] = {
    "spread": 0.0,
    "link_gbps": 0.0,
    "flip_every": 0,
    "peer_gbps": 20.0,
    "peer_access": False,
    "peer_faults": {},
}

PYTHON = """\
#!/bin/sh
{start}export HWLAB_CUDA='{facts}' PYTHONPATH='{modules}'
exec '{python}' "$@"
"""


@dataclass(frozen=True)
class LoadedNode:
    """A node: its scenario, what each GPU does, and what the checks of the load shall find."""

    name: str
    doc: str
    scenario: Scenario
    gpus: tuple[Mapping[str, Any], ...]
    finds: Mapping[str, str]

    def install(
        self, folder: Path, root: Path | None = None
    ) -> tuple[dict[str, str], dict[str, object]]:
        """Write the node below a new folder; see ``Scenario.install``."""
        environment, variables = self.scenario.install(folder, root)
        return environment, {**variables, **self.install_cuda(folder)}

    def install_cuda(
        self, folder: Path, start: Mapping[str, object] | None = None
    ) -> dict[str, object]:
        """Write its CUDA and an interpreter that has it; return the variable that names that.

        ``start`` is what ``HWLAB_START`` shall say (see ``simulated_gpu``).
        """
        facts, python = folder / "cuda.json", folder / "python-with-cuda"
        facts.write_text(json.dumps(self.gpus), "utf-8")
        slow = f"export HWLAB_START='{json.dumps(start)}'\n" if start else ""
        words = {"facts": facts, "modules": CUDA, "python": sys.executable, "start": slow}
        python.write_text(PYTHON.format(**words))
        python.chmod(0o755)
        return {"hwcheck_torch_python": str(python)}


def names() -> list[str]:
    """Return the scenarios that can be loaded."""
    return sorted(path.stem for path in FOLDER.glob("*.yml"))


def faults(name: str) -> tuple[str, ...]:
    """Return the names of the faults of a scenario that only a load brings out."""
    return tuple(_read(name)["faults"])


def load(name: str, *faults: str, idle: str | None = None) -> LoadedNode:
    """Read a node with these faults, and one of its scenario that shows without a load.

    Raises ScenarioError for a fault or a key not known.
    """
    says, docs, finds = dict(_read(name)), [], {}
    for fault in faults:
        if fault not in says["faults"]:
            raise ScenarioError(f"{name}: no fault {fault!r}; known: {', '.join(says['faults'])}")
        own = section(says["faults"][fault], f"{name}: faults: {fault}", FAULT)
        docs.append(own["doc"])
        finds |= own["finds"]
        says |= {key: overlay(says[key], own[key]) for key in LAYERS}
    healthy = scenario.load(name)
    at_rest = scenario.load(name, idle)
    answers = overlay(healthy.nvml, _read(name)["nvml"])
    gpus = [overlay(answers["gpu"], gpu) for gpu in answers["gpus"]]  # the clock is a healthy one's
    cuda = tuple(_gpu(name, says, place, gpu) for place, gpu in enumerate(gpus))
    faulty = replace(at_rest, nvml=overlay(at_rest.nvml, says["nvml"]))
    return LoadedNode(" ".join([name, *faults]), "; ".join(docs), faulty, cuda, finds)


def ten_a40() -> LoadedNode:
    """Return 10 A40, which CUDA lets have no more than eight peers each, for copies between them.

    What they can do is made up.
    """
    node, gpu = scenario.load("a40x10"), load("h100x8").gpus[0]
    slower = {"peer_gbps": 24.0, "sm_mhz": 1740, "pcie_link_generation": 4}
    assert node.nvml is not None
    return LoadedNode("a40x10", "", node, tuple({**gpu, **slower} for _ in node.nvml["gpus"]), {})


def _gpu(name: str, says: Mapping[str, Any], place: int, nvml: Mapping[str, Any]) -> dict[str, Any]:
    own = {**OPTIONAL, **says["cuda"], **says["gpus"].get(place, {})}
    unlike = set(own) ^ {*REQUIRED, *OPTIONAL}
    if unlike:
        raise ScenarioError(f"{name}: gpu{place}: unknown or missing: {', '.join(sorted(unlike))}")
    place_of_chip = zlib.crc32(nvml["uuid"].encode()) / 2**31 - 1  # -1 to 1, always the same
    own["tflops"] *= 1 + own.pop("spread") * place_of_chip
    at_work = {**nvml, **nvml["under_load"]}
    clock, generation = at_work["sm_mhz"], at_work.get("pcie_link_generation", 0)  # a vGPU has none
    return {**own, "sm_mhz": clock, "pcie_link_generation": generation}


@cache
def _read(name: str) -> Mapping[str, Any]:
    text = (FOLDER / f"{name}.yml").read_text("utf-8")
    return section(yaml.safe_load(text), f"loads/{name}.yml", FILE)
