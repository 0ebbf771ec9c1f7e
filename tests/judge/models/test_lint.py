"""The lint of the GPU models: nothing on those that are there, and each slip that is planted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.judge.models import Model
from hwcheck.judge.models.hardware import MOST_SUSTAINED
from hwcheck.judge.models.lint import BOARD_HAS, check, main, problems
from hwcheck.judge.models.lint_text import is_source, quoted_share
from hwcheck.judge.models.records import Joined

MODELS = {model.id: model for model in shipped().models.every}
ALL = tuple(shipped().models.every)
FOLDER = Path(__file__).parents[3] / "hwcheck/judge/models"
H200 = "h200_sxm"


def changed(model_id: str, figures: str, **changes: Any) -> Model:
    """Return a model with some of its figures changed."""
    model = MODELS[model_id]
    planted = {name: replace(model.figures[name], **changes) for name in figures.split()}
    return replace(model, figures={**model.figures, **planted})


def on_board(model_id: str, **changes: Any) -> Model:
    model = MODELS[model_id]
    return replace(model, board=replace(model.board, **changes))


def busbw(model_id: str, **changes: Any) -> Model:
    """Return a model with its first busbw changed."""
    model = MODELS[model_id]
    first, *rest = model.busbw
    return replace(model, busbw=(replace(first, **changes), *rest))


def test_the_models_that_are_there_have_nothing() -> None:
    assert check([]) == []
    assert len(ALL) > 35


LACKING = [
    (changed(H200, "memory_gbps", measure=" "), "measure:"),
    (changed(H200, "bf16_tflops", measure="-"), "measure:"),
    (changed(H200, "memory_gbps", size=""), "size:"),
    (changed(H200, "memory_gbps", size="4 GB"), "size:"),
    (changed(H200, "bf16_tflops", size=""), "size:"),
    (changed(H200, "bf16_tflops", size="512 x 512 x 512"), "size:"),
    (changed(H200, "memory_gbps", algorithm=""), "algorithm:"),
    (changed(H200, "bf16_tflops", algorithm=""), "algorithm:"),
    (changed(H200, "memory_gbps", gpus=0), "gpus:"),
    (changed(H200, "nvlink_links", size="4 GiB"), "size, algorithm:"),
    (changed(H200, "memory_gbps", source=""), "source:"),
    (changed(H200, "memory_gbps", source="xxxxxxxxxx"), "source:"),
    (changed(H200, "memory_gbps", source="the vendor says so"), "source:"),
    (changed(H200, "memory_gbps", source="datasheet"), "source:"),
    (changed(H200, "memory_gbps", sustained_source="xxxxxxxxxx"), "sustained_source:"),
    (changed(H200, "tf32_tflops", sustained_source="derived"), "sustained_source:"),
    (changed(H200, "memory_gbps", confidence="certain"), "confidence:"),
    (changed(H200, "memory_gbps", confidence="inventory"), "confidence:"),
    (changed(H200, "memory_gbps", sustained_confidence=""), "sustained_confidence:"),
]

UNITS_AND_SIZES = [
    (changed(H200, "memory_gbps", unit="GiB/s"), "unit:"),
    (changed(H200, "memory_gbps", value=4.8), "value: 4.8 is not of HBM3e"),
    (changed(H200, "memory_gbps", value=4_800_000.0), "value: 4.8e+06 is not of HBM3e"),
    (changed(H200, "memory_gbps", value=2400.0), "value: 2400 is not of HBM3e"),
    (changed(H200, "memory_gbps", value=9600.0), "value: 9600 is not of HBM3e"),
    (changed(H200, "memory_gbps", value=0.0), "value: 0"),
    (changed(H200, "bf16_tflops fp16_tflops", value=1979.0), "takes 3660 MHz"),
    (
        changed(H200, "bf16_tflops", value=1979.0),
        "bf16_tflops: 1979 is not 1.9 to 2.1 x tf32_tflops",
    ),
    (changed("rtx_4090", "bf16_tflops fp16_tflops", value=330.3), "takes 5040 MHz"),
    (changed("l40s", "bf16_tflops fp16_tflops", value=733.0), "takes 5041 MHz"),
    (changed("a100_sxm_80gb", "fp32_tflops", value=39.0), "takes 2821 MHz"),
    (changed("b300", "bf16_tflops fp16_tflops tf32_tflops", value=4500.0), "is far from the 2450"),
    (changed(H200, "nvlink_links", value=180), "180 links, a GH100 has 18"),
    (changed("h100_sxm", "nvlink_links", value=2), "2 links carry 100 GB/s, the board 900"),
    (changed("h100_sxm", "nvlink_links", value=17.5), "17.5 links"),
    (changed("a800_sxm_80gb", "nvlink_links", value=12), "12 links carry 600 GB/s, the board 400"),
]

OUT_OF_REACH = [
    (changed(H200, "memory_gbps", sustained=1.0), "no healthy GPU keeps up 1"),
    (changed("l40", "memory_gbps", sustained=0.97), "no healthy GPU keeps up 0.97"),
    (changed(H200, "bf16_tflops", sustained=0.99), "no healthy GPU keeps up 0.99"),
    (changed(H200, "bf16_tflops", sustained=0.85), "is more than the 0.676 of its source"),
    (changed("h100_sxm", "fp16_tflops", sustained=0.85), "is more than the 0.664 of its source"),
    (changed(H200, "fp32_tflops", sustained=0.95), "no healthy GPU keeps up 0.95"),
    (changed(H200, "memory_gbps", sustained=88.0), "no healthy GPU keeps up 88"),
    (changed(H200, "nvlink_links", sustained=1.1), "no healthy GPU keeps up 1.1"),
    (changed(H200, "nvlink_links", sustained=0.5), "0.5 is below 1"),
    (changed(H200, "power_w", sustained=0.5), "0.5 is below 1"),
    (changed(H200, "power_w", value=0.7), "no board has a limit of 0.7 W"),
    (changed(H200, "power_w", size="4 GiB"), "size, algorithm:"),
    (changed(H200, "memory_gbps", sustained=0.1), "0.1 is below 0.65"),
    (
        changed(H200, "memory_gbps", sustained_source="it read 4210 GB/s on two H200 here"),
        "sustained_source:",
    ),
]

BUSBW = [
    (busbw(H200, unit="Gb/s"), "busbw 1: unit:"),
    (busbw(H200, measure=""), "busbw 1: measure:"),
    (busbw(H200, size=""), "busbw 1: size:"),
    (busbw(H200, size="large"), "busbw 1: size:"),
    (busbw(H200, gpus=1), "busbw 1: gpus:"),
    (busbw(H200, algorithm=""), "busbw 1: algorithm:"),
    (busbw(H200, collective="sum"), "busbw 1: collective:"),
    (busbw(H200, source="somebody"), "busbw 1: source:"),
    (busbw(H200, confidence=""), "busbw 1: confidence:"),
    (busbw(H200, value=36.3), "busbw 1: value:"),
    (busbw(H200, value=0.363), "busbw 1: value:"),
    (busbw(H200, value=3630.0), "busbw 1: value:"),
    (busbw("rtx_4090", value=44.0), "busbw 1: value:"),
    (busbw("a40", value=475.0), "busbw 1: value:"),
    (busbw(H200, joined=Joined("switches", 8, 26.5625)), "busbw 1: joined: 8 links"),
    (busbw(H200, joined=Joined("magic")), "busbw 1: joined:"),
    (busbw("h100_pcie", complaint="?"), "busbw 1: complaint:"),
]

IDENTITY = [
    (replace(MODELS[H200], names=("H200 ",)), "names:"),
    (replace(MODELS[H200], names=()), "names:"),
    (replace(MODELS[H200], pci_ids=("0x2335",)), "pci_ids:"),
    (replace(MODELS[H200], pci_ids=()), "pci_ids:"),
    (replace(MODELS[H200], pci_ids=("2330",)), "pci_ids: 2330 is h100_sxm's"),
    (replace(MODELS[H200], pci_source="a friend"), "pci_source:"),
    (
        replace(MODELS[H200], names=("NVIDIA H100 80GB HBM3",), pci_ids=("2330:123410de",)),
        "names: NVIDIA H100 80GB HBM3 is h100_sxm's",
    ),
    (replace(MODELS[H200], figures={}), "memory_gbps is missing"),
    (on_board(H200, source="?"), "board: source:"),
    (on_board(H200, chip="GX900"), "board: hardware.py knows no chip"),
    (on_board(H200, memory="GDDR6"), "board: no GH100 has GDDR6"),
    (on_board(H200, bus_bits=0), "board: a bus of 0 bits"),
    (on_board("rtx_4090", fp16_per_clock=1024), "board: no AD102 of this kind"),
    (on_board("b300", chip="GB202", memory="GDDR7"), "board: no GB202 of this kind"),
]


@pytest.mark.parametrize(
    ("model", "problem"), [*LACKING, *UNITS_AND_SIZES, *OUT_OF_REACH, *BUSBW, *IDENTITY]
)
def test_a_slip_is_refused(model: Model, problem: str) -> None:
    found = problems(model, ALL)
    assert [line for line in found if problem in line], found


def test_a_figure_of_no_known_name_is_refused() -> None:
    model = MODELS[H200]
    odd = replace(model, figures={**model.figures, "speed": model.figures["memory_gbps"]})
    assert any(line.startswith("speed: there is no such figure") for line in problems(odd, ALL))


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.id)
@pytest.mark.parametrize("factor", [0.5, 2.0, 1000.0])
def test_half_and_double_and_a_slip_of_units_are_refused_on_every_figure(
    model: Model, factor: float
) -> None:
    for name, figure in model.figures.items():
        # Boards of one chip differ by more than two: a limit needs a reason that quotes it.
        reasons = " ".join(each.sustained_source for each in model.figures.values())
        if name != "power_w" or factor == 1000 or BOARD_HAS.search(reasons):
            assert problems(changed(model.id, name, value=figure.value * factor), ALL), name


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.id)
def test_a_limit_above_what_anybody_measured_is_refused_on_every_figure(model: Model) -> None:
    for name, figure in model.figures.items():
        above = MOST_SUSTAINED[figure.unit] + 0.01
        assert problems(changed(model.id, name, sustained=above), ALL), name


@pytest.mark.parametrize(
    ("text", "confidence", "fine"),
    [
        ("NVIDIA H200 datasheet", "vendor", True),
        ("https://example.org/h200", "published", True),
        ("NVIDIA/nccl#1374", "published", True),
        ("Reuters, 2022", "published", True),
        ("70 TFLOP/s, as one reads", "published", False),
        ("Some datasheet of 2022", "vendor", False),
        ("H200", "published", False),
        ("", "derived", False),
        ("4300 of 4800 GB/s in a copy on one H200", "measured", True),
        ("we measured it on one H200 last year", "measured", False),
    ],
)
def test_what_looks_like_a_source(text: str, confidence: str, fine: bool) -> None:
    assert is_source(text, confidence) == fine


def test_the_lowest_quoted_reading_of_the_peak_counts() -> None:
    assert quoted_share("300 of 312 and 265.2 TFLOP/s of 312, 10 of 20", 312.0) == pytest.approx(
        0.85
    )
    assert quoted_share("300 of 640", 312.0) is None


def test_a_file_that_is_not_in_the_package_yet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (FOLDER / "h200_sxm.yml").read_text("utf-8")
    fine = tmp_path / "h200_sxm.yml"
    fine.write_text(text, "utf-8")
    assert main([str(fine)]) == 0
    wrong = tmp_path / "mine.yml"
    wrong.write_text(text.replace("sustained: 0.87", "sustained: 1.0"), "utf-8")
    assert main([str(wrong)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "mine: pci_ids: 2335 is h200_sxm's" in lines
    assert any(line.startswith("mine: memory_gbps: sustained:") for line in lines)


@pytest.mark.parametrize("text", ["names: [", "names: [A]", "", "- 1", "figures: 3"])
def test_a_file_that_is_no_model_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.yml"
    path.write_text(text, "utf-8")
    (line,) = check([path])
    assert line.startswith("broken: ")


def test_a_value_that_is_no_number_is_refused(tmp_path: Path) -> None:
    text = (FOLDER / "h200_sxm.yml").read_text("utf-8")
    path = tmp_path / "h200_sxm.yml"
    path.write_text(text.replace("value: 4800", "value: fast"), "utf-8")
    assert [line for line in check([path]) if "h200_sxm: a value is of another kind" in line]


def test_a_key_that_lacks_is_named(tmp_path: Path) -> None:
    text = (FOLDER / "h200_sxm.yml").read_text("utf-8")
    path = tmp_path / "h200_sxm.yml"
    path.write_text(text.replace("    gpus: 1\n", "", 1), "utf-8")
    (line,) = check([path])
    assert "gpus" in line
