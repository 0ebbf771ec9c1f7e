"""Two runs that were asked differently are not compared as if alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.contract.wire import CheckResult, Sample, Timing, to_dict
from hwcheck.history.asked import DEPENDING
from hwcheck.history.compare import Difference, compare
from hwcheck.history.views import History
from hwcheck.results.options import MultiHostOptions, Options
from hwcheck.results.run_folder import HostRecord
from tests import factories
from tests.history.conftest import run_id, write_night

USUAL = Options(duration_s=20.0, timeout_s=900.0)


def host(factor: float = 1.0, digest: str = "a", wrong: int = 0) -> HostRecord:
    """A host of which every figure is another by a factor."""
    record = factories.gpu_host("node01", [factories.leg(peak_gbps=450.0 * factor)])
    assert record.report
    answers = {
        "sustained_tflops": (Sample("tflops", 700.0 * factor, "TFLOP/s", "gpu0"),),
        "compute_errors": (
            Sample("digest", digest, "", "gpu0"),
            Sample("wrong_products", wrong, "products", "gpu0"),
        ),
        "errors_under_load": (Sample("new_corrected_errors", 5 * wrong, "errors", "gpu0"),),
        "host_memory": (Sample("memory_total_gib", 2048.0 * factor, "GiB"),),
    }
    results = [CheckResult(name, "done", samples=samples) for name, samples in answers.items()]
    results = [*record.report.results, *results]
    return replace(record, report=replace(record.report, results=tuple(results)))


def compared(tmp_path: Path, before: Options | None, after: Options | None) -> list[Difference]:
    """Return the changes between two runs in which all that can be is another."""
    write_night(tmp_path, 0, host(), options=before)
    write_night(tmp_path, 1, host(0.7, "b", 1), options=after)
    with History.open(tmp_path) as history:
        return list(compare(history, run_id(0), run_id(1), shipped().checks).changes)


def whats(changes: list[Difference], *kinds: str) -> set[str]:
    return {change.what.partition(" at ")[0] for change in changes if change.kind in kinds}


LOADED, TIMED = "sustained_tflops.tflops", "all_reduce.busbw_gbps"
DIGEST, ALWAYS = "compute_errors.digest", "host_memory.memory_total_gib"
WRONG, ERRORS = "compute_errors.wrong_products", "errors_under_load.new_corrected_errors"
EVERY = {LOADED, TIMED, DIGEST, ALWAYS}


@pytest.mark.parametrize(
    ("changed", "said", "left"),
    [
        ({}, [], EVERY),
        ({"force": True}, ["force: no -> yes"], {DIGEST, ALWAYS}),
        ({"duration_s": 180.0}, ["duration: 20 s -> 3 min"], EVERY - {LOADED}),
        ({"load_dtype": "fp32"}, ["load_dtype: auto -> fp32"], {TIMED, ALWAYS}),
        ({"engine": "nccl-tests"}, ["engine: torch -> nccl-tests"], EVERY - {TIMED}),
        ({"scopes": ("all",)}, ["scopes: none named -> all"], EVERY),
        ({"profile": "standard"}, ["profile: quick -> standard"], EVERY - {LOADED}),
        (
            {"timing": Timing(("default",), iterations=5)},
            ["timing.iterations: 20 -> 5", "timing.legs: none named -> default"],
            EVERY - {TIMED},
        ),
        ({"timing": Timing(max_bytes=8 << 30)}, ["timing.max_bytes: 1 GiB -> 8 GiB"], EVERY),
        ({"forks": 3, "limit": "node01", "timeout_s": 60.0}, [], EVERY),
    ],
)
def test_what_differs_is_named_first_and_what_depends_on_it_is_no_change(
    tmp_path: Path, changed: dict[str, Any], said: list[str], left: set[str]
) -> None:
    changes = compared(tmp_path, USUAL, replace(USUAL, **changed))
    assert [change.text() for change in changes[: len(said)]] == said
    assert [change.kind for change in changes].count("option") == len(said)
    assert whats(changes, "figure", "setting") - {"all_reduce.largest_size_bytes"} == left
    counts = {WRONG, ERRORS} if LOADED in left else {WRONG}  # a longer load sees more errors
    assert whats(changes, "count") == counts, "one wrong product is too many"


def test_a_host_on_which_nothing_changed_is_the_same_however_it_was_asked(tmp_path: Path) -> None:
    write_night(tmp_path, 0, host(), options=USUAL)
    write_night(tmp_path, 1, host(), options=replace(USUAL, force=True))
    with History.open(tmp_path) as history:
        both = compare(history, run_id(0), run_id(1), shipped().checks)
    assert [change.text() for change in both.changes] == ["force: no -> yes"]
    assert both.same == ("node01",)


@pytest.mark.parametrize("before", [None, USUAL])
def test_runs_of_former_versions_are_compared_as_before(
    tmp_path: Path, before: Options | None
) -> None:
    changes = compared(tmp_path, before, None if before else replace(USUAL, force=True))
    assert whats(changes, "figure", "setting") == EVERY
    assert not [change for change in changes if change.kind == "option"]


def test_every_option_that_is_compared_is_one() -> None:
    options = to_dict(replace(USUAL, over_hosts=MultiHostOptions()))
    for name in DEPENDING:
        first, _, part = name.partition(".")
        assert part in options[first] if part else first in options, name
