"""Scenarios: what a simulated node is, and what may be wrong with it.

A scenario is a YAML file::

    doc: one line
    gpu_of: a40x8    the scenario over whose ``nvml: gpu`` that of this one lies; may be left out
    nvml: {...}      what NVML answers (keys: ``tests/lab/nvml.py``); null: there is no library
    host: {...}      what /proc, /sys and the kernel say (keys: ``tests/lab/host_tree.py``)
    expect: {...}    the inventory's variables without ``hwcheck_``
    unanswered: [xid]    checks that the node gives no answer to, healthy as it is
    faults:
      name: {doc: one line, check: pcie_link, outcome: fail, subjects: [gpu3], also: [...],
             blinds: false, nvml: {...}, host: {...}, expect: {...}}

A fault lies over the scenario: mappings merge; a mapping with whole numbers for keys changes those
items of a list (null removes one); everything else takes the place of what was there. ``check`` is
the one that must find it, with ``outcome`` its worst finding, at ``subjects`` and no others
where they are given. ``also`` names other checks that
rightly change their answer with it. With ``blinds: true`` the fault leaves others without an answer
too: they may end as inconclusive, and in no other way.

What NVML says of a GPU's place (``path``, ``cpu_affinity``, ``memory_affinity``) is
taken from the PCI tree of ``host`` where a scenario does not give it.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from hwcheck.inventory.expectations import VARIABLES
from hwcheck.judge.records import OUTCOMES
from hwcheck.shipped import parse_yaml
from tests.lab import kernel_answers, nvml
from tests.lab.host_tree import write_host
from tests.lab.places import with_places
from tests.lab.tree_writer import ScenarioError, section

FOLDER = Path(__file__).with_name("scenarios")

SCENARIO: Mapping[str, Any] = {
    "doc": "",
    "gpu_of": "",
    "nvml": None,
    "host": {},
    "expect": {},
    "unanswered": (),
    "faults": {},
}
OVERLAYS: Mapping[str, Any] = {"nvml": {}, "host": {}, "expect": {}}
FAULT: Mapping[str, Any] = {
    "doc": "",
    "check": "",
    "outcome": "",
    "subjects": (),
    "also": (),
    "blinds": False,
    **OVERLAYS,
}


@dataclass(frozen=True)
class Fault:
    """What is wrong, which check must say so and how; ``also``: others that say so too.

    ``blinds``: still others may be inconclusive with it.
    """

    name: str
    doc: str
    check: str
    outcome: str
    subjects: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    blinds: bool = False


@dataclass(frozen=True)
class Scenario:
    """A node, with its fault if it has one."""

    name: str
    doc: str
    nvml: Mapping[str, Any] | None
    host: Mapping[str, Any]
    expect: Mapping[str, Any]
    unanswered: tuple[str, ...] = ()
    fault: Fault | None = None
    faults: tuple[str, ...] = field(default=())

    def install(
        self, folder: Path, root: Path | None = None
    ) -> tuple[dict[str, str], dict[str, object]]:
        """Write the node below a new folder.

        ``root`` is the tree of a node that was installed before, for one with the same ``host``
        part that changes nothing in it. Returns the environment that the node's processes need and
        the inventory variables of its host.
        """
        folder = folder.resolve()
        if re.search(r"[\s:]", str(folder)):
            raise ScenarioError(f"{folder}: LD_PRELOAD takes no path with a space or a colon")
        folder.mkdir(parents=True)
        if root is None:
            root = folder / "root"
            write_host(root, self.host)
        kernel_answers.write(folder / "kernel", root, self.host)
        library = shutil.copy(libraries() / kernel_answers.LIBRARY, folder)
        environment = {"LD_PRELOAD": str(library), "HWLAB_KERNEL": str(folder / "kernel")}
        if self.nvml is not None:
            nvml.write(folder / "nvml", with_places(self.nvml, self.host))
            shutil.copy(libraries() / nvml.LIBRARY, folder)
            environment["LD_LIBRARY_PATH"] = str(folder)
            environment["HWLAB_NVML"] = str(folder / "nvml")
            environment["HWLAB_NVML_LOAD"] = str(folder / "load")
        variables: dict[str, object] = {f"hwcheck_{key}": self.expect[key] for key in self.expect}
        return environment, {"hwcheck_host_root": str(root), **variables}


def names() -> list[str]:
    """Return the scenarios that come with the lab."""
    return sorted(path.stem for path in FOLDER.glob("*.yml"))


def load(source: Path | str, fault: str | None = None) -> Scenario:
    """Read a scenario by path, or by name where it comes with the lab.

    Raises ScenarioError for a file that cannot be read and for a key or a fault that is not known.
    """
    path = FOLDER / f"{source}.yml" if str(source) in names() else Path(source)
    says = section(_read(path), path.name, SCENARIO)
    if says["gpu_of"]:
        of = _read(FOLDER / f"{says['gpu_of']}.yml")["nvml"]["gpu"]
        says["nvml"] = {**says["nvml"], "gpu": overlay(of, says["nvml"].get("gpu", {}))}
    known = says["faults"]
    found = None
    if fault is not None:
        if fault not in known:
            raise ScenarioError(f"{path.name}: no fault {fault!r}; known: {', '.join(known)}")
        own = section(known[fault], f"{path.name}: faults: {fault}", FAULT)
        if own["outcome"] not in OUTCOMES or own["outcome"] == "pass":
            raise ScenarioError(f"{path.name}: faults: {fault}: no outcome {own['outcome']!r}")
        words = {key: own[key] for key in ("doc", "check", "outcome", "blinds")}
        lists = {key: tuple(own[key]) for key in ("subjects", "also")}
        found = Fault(fault, **lists, **words)
        says |= {key: overlay(says[key], own[key]) for key in OVERLAYS}
    unknown = [key for key in says["expect"] if f"hwcheck_{key}" not in VARIABLES]
    if unknown:
        raise ScenarioError(f"{path.name}: expect: unknown: {', '.join(unknown)}")
    return Scenario(
        name=path.stem,
        doc=says["doc"],
        nvml=says["nvml"],
        host=says["host"],
        expect=says["expect"],
        unanswered=tuple(says["unanswered"]),
        fault=found,
        faults=tuple(known),
    )


def overlay(base: Any, over: Any) -> Any:
    """Return ``base`` with ``over`` laid on it (see the head of this file)."""
    if not isinstance(over, Mapping):
        return over
    if isinstance(base, list) and over and all(isinstance(key, int) for key in over):
        items = [overlay(item, over.get(place, {})) for place, item in enumerate(base)]
        if max(over) >= len(base):
            raise ScenarioError(f"no item {max(over)} in a list of {len(base)}")
        return [item for place, item in enumerate(items) if over.get(place, {}) is not None]
    if not over:
        return base
    if not isinstance(base, Mapping):
        return over
    return {**base, **{key: overlay(base.get(key, {}), value) for key, value in over.items()}}


@cache
def _read(path: Path) -> Any:
    try:
        return parse_yaml(path.read_text("utf-8"))
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}; known: {', '.join(names())}") from None
    except yaml.YAMLError as error:
        raise ScenarioError(f"{path}: {' '.join(str(error).split())}") from None


_LOCK = threading.Lock()
_BUILT: list[TemporaryDirectory[str]] = []


def libraries() -> Path:
    """Compile what stands in for the driver and the kernel, once per process; return the folder.

    A node gets copies: it may outlive this process.
    """
    with _LOCK:
        if not _BUILT:
            folder = TemporaryDirectory(prefix="hwlab-")
            kernel_answers.build(Path(folder.name))
            nvml.build(Path(folder.name))
            _BUILT.append(folder)
        return Path(_BUILT[0].name)
