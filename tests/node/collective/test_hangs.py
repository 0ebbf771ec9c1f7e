from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.node.collective.hangs import Hangs, nobody, problem_of
from tests.node.conftest import ROOT

SILENT = "the driver does not answer (NVML did not answer within 10 s)"


class Gpu:
    """One that says this of itself, or cannot say anything."""

    def __init__(self, says: str | CouldNotMeasure) -> None:
        self._says = says

    def loss(self) -> str:
        if isinstance(self._says, CouldNotMeasure):
            raise self._says
        return self._says


@pytest.mark.parametrize(
    ("says", "problem"),
    [
        ([], ""),
        (["", ""], ""),
        (["", "gpu1: GPU is lost"], "gpu1: GPU is lost"),
        (["", CouldNotMeasure("NVML did not answer within 10 s")], SILENT),
    ],
)
def test_every_gpu_is_asked(says: list[Any], problem: str) -> None:
    assert problem_of([Gpu(each) for each in says]) == problem  # type: ignore[misc]


# NVML is at work when the driver begins to say what the second scenario says.
OVER_NVML = """
import os, sys
from hwcheck.node.collective.hangs import problem_of
from hwcheck.node.nvml.nvml import Nvml
gpus = Nvml(timeout_s=0.5).gpus()
print(problem_of(gpus))
os.replace(*sys.argv[1:])
print(problem_of(gpus))
"""


@pytest.mark.parametrize(
    ("becomes", "problem"),
    [
        ("scenario", ""),
        ("hang_heat", "the driver does not answer (gpu1: temperature: NVML did not answer within"),
        ("lost", "gpu1: temperature: GPU is lost"),
    ],
)
def test_over_nvml_the_driver_is_asked_anew(
    fake_nvml: Path, tmp_path: Path, becomes: str, problem: str
) -> None:
    library = fake_nvml / "new"
    now, new = tmp_path / "now", tmp_path / "new"
    shutil.copy(library / "scenario", now)
    shutil.copy(library / becomes, new)
    own = {"LD_LIBRARY_PATH": str(library), "HWLAB_NVML": str(now), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", OVER_NVML, str(new), str(now)],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=60,
    )
    before, after = done.stdout.split("\n")[:2]
    assert before == "", done.stderr
    assert after.startswith(problem)
    assert bool(after) == bool(problem)


def test_a_leg_that_hung_is_not_tried_again_and_the_others_are() -> None:
    hangs = Hangs()
    assert hangs.refuses("default") == ""
    assert hangs.add("all_reduce", "default") == "answers"
    assert hangs.refuses("default") == (
        "leg default hung in all_reduce: not tried again in this visit"
    )
    assert hangs.refuses("net") == ""


def test_without_a_driver_no_leg_is_tried_again() -> None:
    hangs = Hangs(lambda: SILENT)
    assert hangs.add("alltoall", "p2p_sys") == SILENT
    reason = f"after leg p2p_sys of alltoall was killed, {SILENT}: reboot the node"
    assert [hangs.refuses(leg) for leg in ("p2p_sys", "net")] == [reason, reason]


def test_a_node_without_a_gpu_has_no_driver_to_ask() -> None:
    assert Hangs(nobody).add("all_reduce", "net") == "answers"
