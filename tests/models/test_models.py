"""The figures of the GPU models: complete, in their units, and of the size that they can have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Any

import pytest

from hwcheck.limits import CONFIDENCES, FromModel
from hwcheck.models import UNITS, Figure, Model, model_of, models, parse
from hwcheck.node import checks

FURTHEST = 12.0
"""The fastest and the slowest model with a figure are no further from the middle of all."""

RATIOS = {
    ("fp16_tflops", "bf16_tflops"): (1.0, 1.0),
    ("bf16_tflops", "tf32_tflops"): (1.9, 2.1),
    ("tf32_tflops", "fp32_tflops"): (4.0, 10.0),
    ("fp16_tflops", "memory_gbps"): (0.07, 0.5),
}
"""What one figure of a chip is of another, over all generations: a slip of units is 1000 times."""


def problems(model: Model, all_models: tuple[Model, ...]) -> list[str]:
    """Return what is wrong with a model's figures."""
    found = []
    if not model.names or not all(name.strip() == name and name for name in model.names):
        found.append("names")
    if not all(re.fullmatch(r"[0-9a-f]{4}", device) for device in model.pci_device_ids):
        found.append("PCI device ids")
    if "memory_gbps" not in model.figures or "fp16_tflops" not in model.figures:
        found.append("figures that every model has")
    for name, figure in model.figures.items():
        found += [f"{name}: {what}" for what in _figure_problems(name, figure)]
        middle = median(other.figures[name].value for other in all_models if name in other.figures)
        if not middle / FURTHEST <= figure.value <= middle * FURTHEST:
            found.append(f"{name}: far from all others")
    for (one, other), (low, high) in RATIOS.items():
        if one in model.figures and other in model.figures:
            ratio = model.figures[one].value / model.figures[other].value
            if not low <= ratio <= high:
                found.append(f"{one} is {ratio:.3g} x {other}")
    return found


def _figure_problems(name: str, figure: Figure) -> list[str]:
    right = {
        "unit": UNITS.get(name) == figure.unit,
        "value": figure.value > 0,
        "measure": bool(figure.measure),
        "source": len(figure.source) >= 10 and len(figure.sustained_source) >= 10,
        "confidence": {figure.confidence, figure.sustained_confidence} <= set(CONFIDENCES),
        "sustained": 0.2 <= figure.sustained <= 1.0,
    }
    return [what for what, fine in right.items() if not fine]


@pytest.mark.parametrize("model", models(), ids=lambda model: model.id)
def test_figures(model: Model) -> None:
    assert problems(model, models()) == []


def test_no_name_is_there_twice() -> None:
    names = [name for model in models() for name in model.names]
    assert len(names) == len(set(names))
    assert len(names) > 20


H200 = next(model for model in models() if model.id == "h200_sxm")


def figure(name: str, **changes: Any) -> Model:
    """Return the H200 with one figure changed."""
    changed = replace(H200.figures[name], **changes)
    return replace(H200, figures={**H200.figures, name: changed})


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        (figure("memory_gbps", value=4.8), "memory_gbps: far from all others"),
        (figure("memory_gbps", value=4_800_000.0), "fp16_tflops is 0.000206 x memory_gbps"),
        (figure("bf16_tflops", value=1979.0), "bf16_tflops is 4 x tf32_tflops"),
        (figure("memory_gbps", unit="GiB/s"), "memory_gbps: unit"),
        (figure("memory_gbps", source=""), "memory_gbps: source"),
        (figure("memory_gbps", confidence="certain"), "memory_gbps: confidence"),
        (figure("memory_gbps", sustained=88.0), "memory_gbps: sustained"),
        (replace(H200, names=("H200 ",)), "names"),
        (replace(H200, pci_device_ids=("0x2335",)), "PCI device ids"),
        (replace(H200, figures={}), "figures that every model has"),
    ],
)
def test_a_slip_is_noticed(model: Model, problem: str) -> None:
    assert problem in problems(model, models())


def test_every_figure_that_a_limit_asks_for_can_be_there() -> None:
    asked = {
        limit.operand.figure
        for check in checks.load().values()
        for metric in check.metrics
        for limit in metric.limits
        if isinstance(limit.operand, FromModel)
    }
    assert asked == set(UNITS)


@pytest.mark.parametrize(
    ("name", "device", "found"),
    [
        ("NVIDIA H200", "", "h200_sxm"),
        ("NVIDIA H200", "0x233510DE", "h200_sxm"),
        ("NVIDIA H200", "0x233B10DE", None),
        ("NVIDIA H200", "nonsense", "h200_sxm"),
        ("NVIDIA H200 NVL", "0x233B10DE", "h200_nvl"),
        ("NVIDIA B200", "0x290110DE", "b200"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "", None),
        ("", "", None),
    ],
)
def test_lookup(name: str, device: str, found: str | None) -> None:
    model = model_of(name, device)
    assert (model.id if model else None) == found


def test_what_a_healthy_gpu_reaches() -> None:
    assert H200.reached("memory_gbps") == 4224.0
    assert H200.reached("no_such_figure") is None


def _file(**changes: Any) -> Mapping[str, Any]:
    return {
        "names": ["A"],
        "figures": {"memory_gbps": vars(H200.figures["memory_gbps"])},
        **changes,
    }


def test_a_key_too_many_or_too_few_is_refused() -> None:
    assert parse("a", _file()).names == ("A",)
    with pytest.raises(TypeError):
        parse("a", _file(odd=1))
    with pytest.raises(TypeError):
        parse("a", _file(figures={"memory_gbps": {"value": 1.0}}))
