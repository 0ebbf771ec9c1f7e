"""Refuses a figure that lacks something, cannot be, or no healthy GPU could reach.

``python -m hwcheck.judge.models.lint [FILE...]`` looks at the models of the package, and at files
that are not in it yet; it exits with 1 where it finds something.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import yaml

from hwcheck.contract.limits import CONFIDENCES
from hwcheck.judge.models import UNITS, Model, ModelFigure, read, shipped
from hwcheck.judge.models.hardware import CHIPS, LEAST_SUSTAINED, MOST_SUSTAINED, Chip
from hwcheck.judge.models.lint_busbw import busbw_problems
from hwcheck.judge.models.lint_text import has_word, is_source, quoted_share
from hwcheck.judge.models.records import SIZE

EVERY_MODEL = ("fp16_tflops", "memory_gbps")
PCI_ID = re.compile(r"[0-9a-f]{4}(:[0-9a-f]{8})?\Z")
BOARD_HAS = re.compile(r"(?:this board has|;) (\d+) W\b")
PRODUCT = re.compile(r"(\d{4,5}) x \1 x \1\Z")

SETTINGS = ("nvlink_links", "power_w")
"""What a board has, and no work is held against."""
BOARDS_W = (25, 2000)
"""NVML tells milliwatts and a rack's page kilowatts: a slip of units is found, no more."""

RATIOS = {
    ("fp16_tflops", "bf16_tflops"): (1.0, 1.0),
    ("bf16_tflops", "tf32_tflops"): (1.9, 2.1),
}
"""What one figure of a chip is of another, in every generation."""

NEIGHBORS = (0.6, 1.7)
"""A figure that cannot be computed is so far at most from the middle of those of its chip."""


def problems(model: Model, all_models: Sequence[Model]) -> list[str]:
    """Return what is wrong with a model, one line for each."""
    mistakes = [*_identity(model, all_models), *_board(model)]
    mistakes += [f"{name} is missing" for name in EVERY_MODEL if name not in model.figures]
    for name, figure in model.figures.items():
        wrong = [*_fields(name, figure), *_reach(figure), *_size(model, name, figure, all_models)]
        mistakes += [f"{name}: {what}" for what in wrong]
    for (one, other), (low, high) in RATIOS.items():
        if one in model.figures and other in model.figures:
            value, of = model.figures[one].value, model.figures[other].value
            if not low * of <= value <= high * of:
                mistakes.append(f"{one}: {value:g} is not {low:g} to {high:g} x {other} ({of:g})")
    for number, busbw in enumerate(model.busbw, 1):
        mistakes += [f"busbw {number}: {what}" for what in busbw_problems(busbw, model)]
    return mistakes


def _identity(model: Model, all_models: Sequence[Model]) -> Iterator[str]:
    if not model.names or not all(name.strip() == name and name for name in model.names):
        yield "names: there is none, or one with blanks around it"
    if not model.pci_ids or not all(PCI_ID.match(pci_id) for pci_id in model.pci_ids):
        yield "pci_ids: they look like 2335 or 20b2:146310de, in small letters"
    if not is_source(model.pci_source, "published"):
        yield "pci_source: this is no source"
    for other in all_models:
        if other.id == model.id:
            continue
        for pci_id in {*other.pci_ids} & {*model.pci_ids}:
            yield f"pci_ids: {pci_id} is {other.id}'s"
        # Two models of one name are told apart by their devices.
        for name in {*other.names} & {*model.names} if other.devices & model.devices else ():
            yield f"names: {name} is {other.id}'s"


def _board(model: Model) -> Iterator[str]:
    board, chip = model.board, CHIPS.get(model.board.chip)
    if not is_source(board.source, "published"):
        yield "board: source: this is no source"
    if chip is None:
        yield f"board: hardware.py knows no chip {board.chip!r}"
        return
    geforce = any("GeForce" in name for name in model.names)
    if board.fp16_per_clock not in (chip.geforce_fp16 if geforce else chip.fp16):
        yield f"board: no {board.chip} of this kind has fp16_per_clock {board.fp16_per_clock}"
    if board.memory not in chip.memory:
        yield f"board: no {board.chip} has {board.memory} memory"
    if board.bus_bits <= 0 or board.bus_bits % 64:
        yield f"board: a bus of {board.bus_bits} bits"


def _fields(name: str, figure: ModelFigure) -> Iterator[str]:
    if UNITS.get(name) is None:
        yield f"there is no such figure: {', '.join(UNITS)}"
        return
    if figure.unit != UNITS[name]:
        yield f"unit: {figure.unit!r} and not {UNITS[name]}"
    if not has_word(figure.measure):
        yield "measure: what it is of is not said"
    if figure.gpus != 1:
        yield f"gpus: {figure.gpus} and not 1: it is held against each GPU"
    if name in SETTINGS:
        if figure.size or figure.algorithm:
            yield "size, algorithm: a setting has neither"
    else:
        size = PRODUCT if name.endswith("_tflops") else SIZE
        if not size.match(figure.size):
            yield f"size: {figure.size!r} and not such as 8192 x 8192 x 8192, for a copy 4 GiB"
        if not has_word(figure.algorithm):
            yield "algorithm: how it is computed or copied is not said"
    for what in ("", "sustained_"):
        source, confidence = getattr(figure, f"{what}source"), getattr(figure, f"{what}confidence")
        if confidence not in CONFIDENCES or confidence == "inventory":
            yield f"{what}confidence: {confidence!r} and not measured, published, vendor or derived"
        elif not is_source(source, confidence):
            yield f"{what}source: this is no source for {confidence}"


def _reach(figure: ModelFigure) -> Iterator[str]:
    """Yield why a limit that is a share of the figure could not be reached, or finds nothing."""
    most, least = MOST_SUSTAINED.get(figure.unit), LEAST_SUSTAINED.get(figure.unit)
    if most is not None and figure.sustained > most:
        yield f"sustained: no healthy GPU keeps up {figure.sustained:g}, at most {most:g} of it"
    if least is not None and figure.sustained < least:
        yield f"sustained: {figure.sustained:g} is below {least:g}, which every GPU keeps up"
    if figure.sustained_confidence in ("measured", "published"):
        share = quoted_share(figure.sustained_source, figure.value)
        if share is None:
            yield f"sustained_source: it quotes no reading such as '271.2 of {figure.value:g}'"
        elif figure.sustained > share:
            yield f"sustained: {figure.sustained:g} is more than the {share:.3g} of its source"


def _size(
    model: Model, name: str, figure: ModelFigure, all_models: Sequence[Model]
) -> Iterator[str]:
    """Yield where the figure is not of the size that board or neighbors allow."""
    chip = CHIPS.get(model.board.chip)
    if chip is None or name not in UNITS:
        return
    if not figure.value > 0:
        yield f"value: {figure.value:g}"
    elif name == "nvlink_links":
        yield from _links(model, chip, figure.value)
    elif name == "power_w":
        if not BOARDS_W[0] <= figure.value <= BOARDS_W[1]:
            yield f"value: no board has a limit of {figure.value:g} W"
        others_w = {float(watts) for each in model.figures.values() for watts in _board_watts(each)}
        if others_w - {figure.value}:
            yield f"value: {figure.value:g}, other figures' sources say {max(others_w):g} W"
    elif name == "memory_gbps":
        yield from _pins(model, chip, figure.value)
    elif name in ("fp16_tflops", "bf16_tflops", "fp32_tflops"):
        per_clock = chip.fp32 if name == "fp32_tflops" else model.board.fp16_per_clock
        if model.board.multiprocessors and per_clock > 0:
            mhz = figure.value * 1e6 / (model.board.multiprocessors * per_clock)
            low, high = chip.boost_mhz
            if not low <= mhz <= high:
                yield f"value: {figure.value:g} takes {mhz:.0f} MHz, not {low:g} to {high:g}"
        else:
            yield from _neighbors(model, name, figure.value, all_models)


def _board_watts(figure: ModelFigure) -> list[str]:
    """Return the limits that the reasons for a share reckon with."""
    return BOARD_HAS.findall(" ".join(figure.sustained_source.split()))


def _links(model: Model, chip: Chip, links: float) -> Iterator[str]:
    if links != int(links) or not 0 < links <= chip.most_nvlinks:
        yield f"value: {links:g} links, a {model.board.chip} has {chip.most_nvlinks}"
    elif links * chip.nvlink_gbps != model.board.nvlink_gbps:
        total = links * chip.nvlink_gbps
        yield f"value: {links:g} links carry {total:g} GB/s, the board {model.board.nvlink_gbps:g}"


def _pins(model: Model, chip: Chip, gbps: float) -> Iterator[str]:
    rates = chip.memory.get(model.board.memory)
    if rates and model.board.bus_bits > 0:
        pin = gbps * 8 / model.board.bus_bits
        if not rates[0] <= pin <= rates[1]:
            what = f"{model.board.memory} on {model.board.bus_bits} bits"
            low, high = (rate * model.board.bus_bits / 8 for rate in rates)
            yield f"value: {gbps:g} is not of {what}, {low:.0f} to {high:.0f}"


def _neighbors(model: Model, name: str, value: float, all_models: Sequence[Model]) -> Iterator[str]:
    same = [
        other.figures[name].value
        for other in all_models
        if other.id != model.id and other.board.chip == model.board.chip and name in other.figures
    ]
    if not same:
        yield "value: neither multiprocessors nor another board of the chip bound it"
    elif not NEIGHBORS[0] <= value / median(same) <= NEIGHBORS[1]:
        yield f"value: {value:g} is far from the {median(same):g} of this chip's other boards"


def check(paths: Sequence[Path]) -> list[str]:
    """Return what is wrong with the package's models and with those of more files."""
    mistakes, added = [], []
    for path in paths:
        try:
            added.append(read(path.stem, path.read_text("utf-8")))
        except (yaml.YAMLError, TypeError, KeyError, AttributeError, ValueError) as error:
            mistakes.append(f"{path.stem}: {' '.join(str(error).split())}")
    by_id = {model.id: model for model in (*shipped().every, *added)}
    everything = tuple(by_id.values())
    for model in everything:
        try:
            wrong = problems(model, everything)
        except (TypeError, AttributeError) as error:
            wrong = [f"a value is of another kind than it should be: {error}"]
        mistakes += [f"{model.id}: {problem}" for problem in wrong]
    return mistakes


def main(arguments: Sequence[str]) -> int:
    """Write what is wrong, a line each; return 1 where something is."""
    mistakes = check([Path(argument) for argument in arguments])
    sys.stdout.write("".join(f"{line}\n" for line in mistakes))
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
