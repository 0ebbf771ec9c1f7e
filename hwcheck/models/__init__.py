"""What a GPU of each model does: one YAML file for each, every figure with its source.

A vendor's figure is a peak that no GPU holds. ``sustained`` is the share of it that a healthy one
keeps up in a long large square product, or in a copy within its memory, and has a source of its
own. See ``docs/adding-a-gpu-model.md``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import yaml

UNITS = {
    "bf16_tflops": "TFLOP/s",
    "fp16_tflops": "TFLOP/s",
    "tf32_tflops": "TFLOP/s",
    "fp32_tflops": "TFLOP/s",
    "memory_gbps": "GB/s",
    "nvlink_links": "links",
}
"""The figures there can be, each with its unit; TFLOP/s are 1e12/s of dense products, GB/s 1e9
bytes/s read and written together. NVLinks are given for boards that have them all wired."""

DEVICE_ID = re.compile(r"0x([0-9A-Fa-f]{4})10[Dd][Ee]\Z")


@dataclass(frozen=True)
class Figure:
    """One figure: the vendor's ``value``, and the share of it that a healthy GPU sustains."""

    value: float
    unit: str
    measure: str
    source: str
    confidence: str
    sustained: float
    sustained_source: str
    sustained_confidence: str


@dataclass(frozen=True)
class Model:
    """One model of GPU: how NVML names it, and its PCI device ids where they tell it apart."""

    id: str
    names: tuple[str, ...]
    figures: Mapping[str, Figure]
    pci_device_ids: tuple[str, ...] = field(default=())

    def reached(self, figure: str) -> float | None:
        """Return what a healthy GPU sustains of ``figure``, in its unit; None where not known."""
        known = self.figures.get(figure)
        return None if known is None else round(known.value * known.sustained, 1)


def model_of(name: str, device_id: str = "") -> Model | None:
    """Return the model of a GPU that NVML names so, None where it is not known.

    ``device_id`` is NVML's (``0x233510DE``), or an empty text. Boards of one name differ: where
    the model lists PCI device ids and the GPU gives another, it is another model.
    """
    model = _by_name().get(name)
    given = DEVICE_ID.match(device_id)
    if model is None or not model.pci_device_ids or not given:
        return model
    return model if given.group(1).lower() in model.pci_device_ids else None


@cache
def models() -> tuple[Model, ...]:
    """Return every model, by the names of their files."""
    folder = resources.files("hwcheck.models")
    files = sorted(file.name for file in folder.iterdir() if file.name.endswith(".yml"))
    return tuple(
        parse(file.removesuffix(".yml"), yaml.safe_load(folder.joinpath(file).read_text("utf-8")))
        for file in files
    )


def parse(model_id: str, data: Mapping[str, Any]) -> Model:
    """Return a model from what its file says. Raises TypeError for a key too many or too few."""
    rest = dict(data)
    figures = {name: Figure(**figure) for name, figure in rest.pop("figures").items()}
    names = tuple(rest.pop("names"))
    return Model(model_id, names, figures, tuple(rest.pop("pci_device_ids", ())), **rest)


@cache
def _by_name() -> Mapping[str, Model]:
    return {name: model for model in models() for name in model.names}
