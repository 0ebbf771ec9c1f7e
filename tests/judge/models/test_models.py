"""The models: how a GPU is found, and what its file says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pytest

from hwcheck import checks
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.limits import FromModel
from hwcheck.judge.models import UNITS, Model, parse
from hwcheck.judge.models.records import size_bytes

MODELS = {model.id: model for model in shipped().models.every}
H200 = MODELS["h200_sxm"]

WANTED = (
    *("NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA H200", "NVIDIA H800"),
    *("NVIDIA H800 PCIe", "NVIDIA H20", "NVIDIA B200", "NVIDIA GB200", "NVIDIA B300 SXM6 AC"),
    "NVIDIA GB300",
    *("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-PCIE-40GB"),
    *("NVIDIA A100 80GB PCIe", "NVIDIA A800-SXM4-40GB", "NVIDIA A800-SXM4-80GB"),
    *("NVIDIA A800 80GB PCIe", "NVIDIA A800 40GB Active", "NVIDIA A40", "NVIDIA A30", "NVIDIA A10"),
    *("NVIDIA A10G", "NVIDIA L40S", "NVIDIA L40", "NVIDIA L20", "NVIDIA L4", "Tesla T4"),
    *("Tesla V100-SXM2-16GB", "Tesla V100-SXM3-32GB", "Tesla V100-PCIE-32GB", "TITAN RTX"),
    *("NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5090"),
    *("NVIDIA RTX 6000 Ada Generation", "NVIDIA RTX PRO 6000 Blackwell Server Edition"),
    *("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "NVIDIA GH200 120GB"),
    "NVIDIA GH200 480GB",
)


@pytest.mark.parametrize("name", WANTED)
def test_a_gpu_of_this_name_has_what_the_load_is_held_against(name: str) -> None:
    model = shipped().models.of(name)
    assert model is not None
    dtype = "fp16_tflops" if model.board.chip in ("GV100", "TU102", "TU104") else "bf16_tflops"
    assert (model.reached(dtype) or 0) > 0
    assert (model.reached("memory_gbps") or 0) > 0


def test_no_name_is_there_twice() -> None:
    names = [name for model in shipped().models.every for name in model.names]
    assert len(names) == len(set(names))


def test_every_figure_that_a_limit_asks_for_can_be_there() -> None:
    asked = {
        limit.operand.figure
        for check in checks.load().values()
        for metric in check.metrics
        for limit in metric.limits
        if isinstance(limit.operand, FromModel)
    }
    assert asked == set(UNITS)


UNNAMED = "NVIDIA Graphics Device"


@pytest.mark.parametrize(
    ("name", "device", "subsystem", "found"),
    [
        ("NVIDIA H200", "", "", "h200_sxm"),
        ("NVIDIA H200", "0x233510DE", "0x18BE10DE", "h200_sxm"),
        ("NVIDIA H200", "0x233B10DE", "", None),
        ("NVIDIA H200", "0xFFFF10DE", "", None),
        ("NVIDIA H200", "nonsense", "[REDACTED]", "h200_sxm"),
        ("NVIDIA H200 NVL", "0x233B10DE", "", "h200_nvl"),
        ("NVIDIA B200", "0x290110DE", "0x199910DE", "b200"),
        ("NVIDIA GeForce RTX 4090", "0x268410DE", "0x40BF1458", "rtx_4090"),
        ("NVIDIA GeForce RTX 4090", "0x268510DE", "", None),
        ("", "", "", None),
        (UNNAMED, "", "", None),
        (UNNAMED, "0x294110DE", "0x204610DE", "gb200"),
        (UNNAMED, "0x290110DE", "", "b200"),
        (UNNAMED, "0x31C210DE", "0x21F110DE", "gb300"),
        ("NVIDIA GB200 of tomorrow", "0x294110de", "", "gb200"),
        (UNNAMED, "0xFFFF10DE", "0x204610DE", None),
        (UNNAMED, "0x29411002", "0x204610DE", None),
        # Other products have the device ids of the A100 SXM.
        (UNNAMED, "0x20B210DE", "0x146310DE", "a100_sxm_80gb"),
        ("NVIDIA PG509-210", "0x20B210DE", "0x162510DE", None),
        ("NVIDIA A100-PG509-200", "0x20B010DE", "0x145010DE", None),
        (UNNAMED, "0x20B210DE", "", None),
        ("NVIDIA A100-SXM4-80GB", "0x20B210DE", "0x123410DE", "a100_sxm_80gb"),
        # A part of a GPU has its device id and not its figures.
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "0x233010DE", "0x16C110DE", None),
        ("GRID T4-16Q", "0x1EB810DE", "", None),
        ("NVIDIA L40S-48C", "0x26B910DE", "", None),
    ],
)
def test_lookup(name: str, device: str, subsystem: str, found: str | None) -> None:
    model = shipped().models.of(name, device, subsystem)
    assert (model.id if model else None) == found


@pytest.mark.parametrize("model", shipped().models.every, ids=lambda model: model.id)
def test_every_model_is_found_by_name_and_by_each_of_its_pci_ids(model: Model) -> None:
    for pci_id in model.pci_ids:
        device, _, subsystem = pci_id.upper().partition(":")
        ids = (f"0x{device}10DE", f"0x{subsystem}" if subsystem else "")
        assert shipped().models.of(UNNAMED, *ids) is model
        assert all(shipped().models.of(name, *ids) is model for name in model.names)


def test_what_a_healthy_gpu_reaches() -> None:
    assert H200.reached("memory_gbps") == 0.87 * 4800
    assert H200.reached("no_such_figure") is None


def test_the_size_of_a_message() -> None:
    assert size_bytes("32 MiB") == 32 * 2**20
    with pytest.raises(ValueError, match="no size such as"):
        size_bytes("32 MB")


def _file(**changes: Any) -> Mapping[str, Any]:
    return {
        "names": ["A"],
        "pci_ids": ["2335"],
        "pci_source": "pci.ids (pci-ids.ucw.cz)",
        "board": asdict(H200.board),
        "figures": {"memory_gbps": asdict(H200.figures["memory_gbps"])},
        **changes,
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"odd": 1},
        {"figures": {"memory_gbps": {"value": 1.0}}},
        {"board": {"chip": "GH100"}},
        {"busbw": [{"joined": {"by": "pcie"}}]},
        {"busbw": [{**asdict(H200.busbw[0]), "joined": {"over": "pcie"}}]},
    ],
)
def test_a_key_too_many_or_too_few_is_refused(changes: dict[str, Any]) -> None:
    assert parse("a", _file()).names == ("A",)
    with pytest.raises(TypeError):
        parse("a", _file(**changes))


@pytest.mark.parametrize("field", ["size", "gpus", "algorithm", "measure", "source", "confidence"])
def test_a_busbw_without_what_makes_it_one_is_refused(field: str) -> None:
    busbw = {name: value for name, value in asdict(H200.busbw[0]).items() if name != field}
    with pytest.raises(TypeError):
        parse("a", _file(busbw=[busbw]))
