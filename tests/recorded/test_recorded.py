"""Runs of real GPUs, kept as they were recorded: what a healthy one showed is no complaint.

One H100 and one H200, each alone in a virtual machine, on 2026-11-26: driver 580.159.04, torch
2.11 with CUDA 13.0 and NCCL 2.28.9. Serials, UUIDs and the kernel's name are made up; all else is
as it came.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hwcheck.advise.assessment import assess
from hwcheck.advise.catalogue import shipped
from hwcheck.advise.training_figures import figures_of
from hwcheck.node.load.settle import WINDOW_S, settled
from hwcheck.results.multi_host import read_multi_host
from hwcheck.results.run_folder import read_run, read_series
from hwcheck.results.training import read_training

HERE = Path(__file__).parent


def complaints(path: Path) -> set[tuple[str, str]]:
    """The checks that did not pass, with their outcomes."""
    judged = assess(read_run(path), shipped(), read_multi_host(path), training=read_training(path))
    return {(each.check, each.outcome) for each in judged.judgement.findings} - {
        (each.check, "pass") for each in judged.judgement.findings
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("h100", {("time_sync", "warn")}),  # its machine had no network
        ("h200_load", set()),
        ("h200_training", {("training", "inconclusive")}),  # --prove, whose control takes 2 ranks
    ],
)
def test_a_healthy_gpu_is_not_complained_of(name: str, expected: set[tuple[str, str]]) -> None:
    assert complaints(HERE / name) == expected


def test_a_gpu_that_computes_a_sixth_slower_than_it_did_is_warned_of(tmp_path: Path) -> None:
    run = shutil.copytree(HERE / "h200_load", tmp_path / "run")
    record = run / "nodes" / "here.json"
    node = json.loads(record.read_text("utf-8"))
    for result in node["report"]["results"]:
        for sample in result["samples"]:
            if sample["metric"] in ("bf16_tflops", "tflops"):
                sample["value"] *= 5 / 6
    record.write_text(json.dumps(node), "utf-8")
    assert complaints(run) == {("sustained_tflops", "warn")}


def test_a_gpu_at_its_power_limit_settles() -> None:
    visit = read_series(HERE / "h200_load", "here")
    assert visit is not None
    assert visit.load is not None
    seconds = range(round(WINDOW_S), round(visit.load.load_end_s))
    at_s = next((at for at in seconds if settled(visit.load.series, at)), None)
    assert at_s is not None
    assert at_s < 90


def test_training_on_one_gpu_has_its_figures() -> None:
    record = read_training(HERE / "h200_training")
    assert record is not None
    figures = figures_of(record, record.runs[0], shipped().models)
    assert figures is not None
    assert figures.step_s == pytest.approx(0.0209, rel=0.01)
    assert figures.mfu == pytest.approx(0.17, rel=0.02)
    assert figures.joules_per_token is not None
