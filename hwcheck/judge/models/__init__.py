"""What a GPU of each model does: one YAML file for each, every figure with its source.

A vendor's figure is a peak that no GPU holds. ``sustained`` is the share of it that a healthy one
keeps up in a long large square product, or in a copy within its memory, and has a source of its
own. See ``docs/adding-a-gpu-model.md``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import Any

from hwcheck.judge.models.records import Board, Busbw, Joined, Model, ModelFigure
from hwcheck.shipped import parse_yaml

__all__ = [
    "UNITS",
    "Board",
    "Busbw",
    "Joined",
    "Model",
    "ModelFigure",
    "Models",
    "parse",
    "read",
    "shipped",
]

UNITS = {
    "bf16_tflops": "TFLOP/s",
    "fp16_tflops": "TFLOP/s",
    "tf32_tflops": "TFLOP/s",
    "fp32_tflops": "TFLOP/s",
    "memory_gbps": "GB/s",
    "nvlink_links": "links",
    "power_w": "W",
}
"""The figures there can be, each with its unit; TFLOP/s are 1e12/s of dense products, GB/s 1e9
bytes/s read and written together. NVLinks are given for boards that have them all wired, the power
limit for those that the vendor makes for one."""

DEVICE_ID = re.compile(r"0x([0-9A-Fa-f]{4})10[Dd][Ee]\Z")
SUBSYSTEM_ID = re.compile(r"0x([0-9A-Fa-f]{8})\Z")

PART_OF_A_GPU = re.compile(r"\bMIG\b|\bGRID\b|-\d+[ABCQ]\d?\Z")
"""Names of MIG instances and vGPUs (NVIDIA Virtual GPU Software User Guide, Virtual GPU Types):
they have the device id of the whole board and not its figures."""


@dataclass(frozen=True)
class Models:
    """Every model, by the names of their files; those of a site come last."""

    every: tuple[Model, ...]

    def of(self, name: str, device_id: str = "", subsystem_id: str = "") -> Model | None:
        """Return the model of a GPU that NVML names so, None where it is not known.

        The ids are NVML's (``0x233510DE``, ``0x18BE10DE``), or empty texts. Boards of one name
        differ, so a GPU with another PCI device id than those of its name is of another model; and
        a name that is not known ("NVIDIA Graphics Device") is looked up by the ids.
        """
        device = _hexadecimal(DEVICE_ID, device_id)
        subsystem = _hexadecimal(SUBSYSTEM_ID, subsystem_id)
        by_id = self._by_pci_id.get(f"{device}:{subsystem}") or self._by_pci_id.get(device)
        named = self._by_name.get(name, ())
        if by_id and (by_id in named or (not named and not PART_OF_A_GPU.search(name))):
            return by_id
        fitting = [model for model in named if not device or device in model.devices]
        return fitting[0] if len(fitting) == 1 else None

    @cached_property
    def by_id(self) -> Mapping[str, Model]:
        """The models by their ids, which are the names of their files."""
        return {model.id: model for model in self.every}

    @cached_property
    def _by_name(self) -> Mapping[str, tuple[Model, ...]]:
        by_name: dict[str, tuple[Model, ...]] = {}
        for model in self.every:
            for name in model.names:
                by_name[name] = (*by_name.get(name, ()), model)
        return by_name

    @cached_property
    def _by_pci_id(self) -> Mapping[str, Model]:
        return {pci_id: model for model in self.every for pci_id in model.pci_ids}


@cache
def shipped() -> Models:
    """Return our models."""
    folder = resources.files("hwcheck.judge.models")
    files = sorted(file.name for file in folder.iterdir() if file.name.endswith(".yml"))
    return Models(
        tuple(
            read(file.removesuffix(".yml"), folder.joinpath(file).read_text("utf-8"))
            for file in files
        )
    )


def read(model_id: str, text: str) -> Model:
    """Return the model that a file describes. Raises yaml.YAMLError, TypeError or KeyError."""
    return parse(model_id, parse_yaml(text))


def parse(model_id: str, data: Mapping[str, Any]) -> Model:
    """Return a model from what its file says. Raises TypeError for a key too many or too few."""
    rest = dict(data)
    figures = {name: ModelFigure(**figure) for name, figure in rest.pop("figures").items()}
    names, pci_ids = tuple(rest.pop("names")), tuple(rest.pop("pci_ids"))
    board, busbw = Board(**rest.pop("board")), tuple(map(_busbw, rest.pop("busbw", ())))
    return Model(model_id, names, figures, board, pci_ids, busbw=busbw, **rest)


def _busbw(data: Mapping[str, Any]) -> Busbw:
    joined = dict(data["joined"])
    pairs = tuple((one, other, links) for one, other, links in joined.pop("pairs", ()))
    return Busbw(**{**data, "joined": Joined(**joined, pairs=pairs)})


def _hexadecimal(form: re.Pattern[str], text: str) -> str:
    match = form.match(text)
    return match.group(1).lower() if match else ""
