"""What is known of a check or a metric stands in it: no room above the checks calls one by name."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

from hwcheck import checks
from hwcheck.contract.wire import COLLECTIVES

PACKAGE = Path(__file__).parents[1] / "hwcheck"
ROOMS = (
    "advise",
    "cli",
    "explain",
    "fleet",
    "history",
    "inventory",
    "judge",
    "report",
    "results",
    "run",
    "scheduler",
    "site",
    "testing",
)
"""The rooms above the checks. Those below name what hardware, the kernel and the wire call so."""

APART = ("advise/rules/", "judge/models/", "testing/fake_")
"""Rules of diagnosis are about findings by name; models and fakes name figures of boards, and what
the readers of a node can be asked."""

OTHER_THINGS = {
    ("advise/training_figures.py", "bf16_tflops"): "a figure of a GPU model",
    ("advise/training_figures.py", "fp32_tflops"): "a figure of a GPU model",
    ("advise/training_figures.py", "tf32_tflops"): "a figure of a GPU model",
    ("explain/smi.py", "driver_version"): "a field of nvidia-smi",
    ("explain/smi.py", "pcie_generation"): "a field of nvidia-smi",
    ("explain/smi.py", "performance_state"): "a field of nvidia-smi",
    ("history/events.py", "pci_address"): "a column of the dataset",
    ("history/rows.py", "pci_address"): "a column of the dataset",
    ("report/load_plots.py", "memory_temperature_c"): "a column of a load's series",
    ("report/load_plots.py", "power_w"): "a column of a load's series",
    ("report/load_plots.py", "sm_clock_mhz"): "a column of a load's series",
    ("report/load_plots.py", "temperature_c"): "a column of a load's series",
    ("report/report.py", "wrong_elements"): "a filter of the templates",
    ("testing/cases.py", "nvml_status"): "what a fake node says",
}
"""What is called like a check or a metric by chance, by file; where it comes from is another."""


@cache
def names() -> frozenset[str]:
    """Return the names of all checks and metrics.

    A collective is what NCCL calls it; the check has its name.
    """
    registry = checks.load()
    metrics = {metric.name for check in registry.values() for metric in check.metrics}
    return frozenset((metrics | set(registry)) - set(COLLECTIVES))


def named(source: str, wanted: Collection[str]) -> list[str]:
    """Return the checks and metrics that a source calls by name.

    A name of several words is one wherever it stands as a text. A single word (``path``,
    ``driver``) is one where it is compared with a ``check`` or a ``metric``.
    """
    return list(_named(ast.parse(source), wanted))


def _named(tree: ast.AST, wanted: Collection[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and _about_checks(node):
            words = {text for side in (node.left, *node.comparators) for text in _texts(side)}
            yield from (word for word in sorted(words) if word in wanted and "_" not in word)
        elif isinstance(node, ast.Constant) and node.value in wanted and "_" in str(node.value):
            yield str(node.value)


def _about_checks(comparison: ast.Compare) -> bool:
    about = {"check", "metric"}
    return any(
        (isinstance(part, ast.Attribute) and part.attr in about)
        or (isinstance(part, ast.Name) and part.id in about)
        for side in (comparison.left, *comparison.comparators)
        for part in ast.walk(side)
    )


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _files() -> Iterator[tuple[str, str]]:
    for room in ROOMS:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            name = path.relative_to(PACKAGE).as_posix()
            if not name.startswith(APART):
                yield name, path.read_text("utf-8")


def test_no_room_above_the_checks_calls_one_by_name() -> None:
    wanted = names()
    calls = {(file, name) for file, source in _files() for name in named(source, wanted)}
    assert sorted(calls - set(OTHER_THINGS)) == []
    assert sorted(set(OTHER_THINGS) - calls) == [], "no longer there: take it off the list"


@pytest.mark.parametrize(
    "source",
    [
        'LOOSE = ("ecc_errors",)',
        'TABLE = {"link_downed": 3}',
        'values_of(record, checks.load()["pcie_link"], WIDTH)',
        'bad = finding.check == "driver"',
        'near = [s for s in samples if s.metric in ("path", "near")]',
        'rate = samples[metric] if metric == "firmware" else None',
    ],
)
def test_a_name_would_be_noticed(source: str) -> None:
    assert named(source, names())


@pytest.mark.parametrize(
    "source",
    ['facts.get("kernel")', 'legs["all_reduce"]', 'row = {"driver": 1}', 'name == "path"', '"x"'],
)
def test_a_word_of_another_thing_is_none(source: str) -> None:
    assert named(source, names()) == []


def test_the_rooms_are_there_and_hold_names_that_count() -> None:
    assert all((PACKAGE / room).is_dir() for room in ROOMS)
    assert len(names()) > 400
