"""The files of nodes that can be loaded are read strictly, and their faults lie over each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab import loads, scenario
from tests.lab.tree_writer import ScenarioError

FILE: dict[str, Any] = yaml.safe_load((loads.FOLDER / "h100x8.yml").read_text("utf-8"))


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def change(**changes: Any) -> None:
        (tmp_path / "h100x8.yml").write_text(yaml.safe_dump({**FILE, **changes}))

    monkeypatch.setattr(loads, "FOLDER", tmp_path)
    loads._read.cache_clear()
    yield change
    loads._read.cache_clear()


def test_every_file_completes_a_scenario_and_names_its_sources() -> None:
    assert set(loads.names()) <= set(scenario.names())
    assert {"h100x8", "a100x8", "rtx4090x4"} <= set(loads.names())
    for name in loads.names():
        assert (loads.FOLDER / f"{name}.yml").read_text("utf-8").startswith("# Sources. ")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"cuda": {**FILE["cuda"], "gflops": 1}}, "gpu0: unknown or missing: gflops"),
        ({"cuda": {}}, "unknown or missing: copy_gbps, from_device_share, processors, tflops"),
        ({"gpus": {3: {"flips": 1}}}, "gpu3: unknown or missing: flips"),
        ({"hosts": {}}, "loads/h100x8.yml: unknown: hosts"),
        ({"faults": {"slow": {"found": {}}}}, "h100x8: faults: slow: unknown: found"),
        ({"faults": {"hot": {}}}, "h100x8: no fault 'slow'; known: hot"),
    ],
)
def test_what_is_refused(write: Any, changes: dict[str, Any], problem: str) -> None:
    write(**changes)
    with pytest.raises(ScenarioError) as refusal:
        loads.load("h100x8", "slow")
    assert problem in str(refusal.value)


def test_faults_lie_over_each_other() -> None:
    healthy, both = loads.load("h100x8"), loads.load("h100x8", "slow", "bad_contact")
    assert both.name == "h100x8 slow bad_contact"
    assert both.finds == {
        "sustained_tflops gpu1": "fail",
        "thermal_slope gpu6": "warn",
        "thermal_spread gpu6": "warn",
    }
    assert both.gpus[1]["tflops"] == pytest.approx(0.8 * healthy.gpus[1]["tflops"], rel=0.02)
    assert [both.gpus[i] for i in (0, 2, 7)] == [healthy.gpus[i] for i in (0, 2, 7)]
    assert both.scenario.nvml is not None
    assert both.scenario.nvml["gpus"][6]["under_load"]["time_constant_s"] == 2
    assert (healthy.finds, healthy.doc) == ({}, "")


def test_a_lower_clock_is_measured_against_a_healthy_one() -> None:
    braked = loads.load("h100x8", "power_brake")
    assert braked.scenario.nvml is not None
    assert braked.scenario.nvml["gpus"][5]["under_load"]["sm_mhz"] == 800
    assert braked.gpus[5]["sm_mhz"] == 1755


def test_chips_differ_within_their_spread() -> None:
    tflops = [gpu["tflops"] for gpu in loads.load("h100x8").gpus]
    low, high = (FILE["cuda"]["tflops"] * (1 + sign * FILE["cuda"]["spread"]) for sign in (-1, 1))
    assert low <= min(tflops) < max(tflops) <= high
