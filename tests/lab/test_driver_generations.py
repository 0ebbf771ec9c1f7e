"""Every node of the lab, healthy, under every driver generation that its GPUs can have.

A driver that lacks a function, a field or a structure leaves no check without its answer that an
older or a newer one gives it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.lab import nvml
from tests.lab.every_node import IDLE, REGISTRY
from tests.lab.nvml_answers import ROOT
from tests.lab.places import with_places
from tests.lab.scenario import Scenario, load, names

DRIVERS = ("470.256.02", "525.147.05", "535.183.01", "550.90.07", "570.124.06", "580.82.07")
FIRST_DRIVER = {"volta": 470, "turing": 470, "ampere": 470, "ada": 525, "hopper": 525,
                "blackwell": 570}  # fmt: skip
"""The first of these that runs an architecture (CUDA Toolkit Release Notes, table of drivers)."""

ASK = """
import json, os, sys
from hwcheck import checks
from hwcheck.node.live import LiveNode
from hwcheck.node.main import run_check
from hwcheck.contract.wire import Request

EVERY_GPU = {"power_w", "temperature_c", "sm_clock_mhz", "clock_events"}
OF_VGPU = {"sm_clock_mhz"}  # its board's sensors stay with the host
root, expect, names, answers = json.load(sys.stdin)
registry = checks.load(names)
why = {}
for title, path in answers.items():
    os.replace(path, os.environ["HWLAB_NVML"])
    node = LiveNode(Request("0", tuple(names), host_root=root, expect=expect), "", lambda _: None)
    results = [run_check(check, node) for check in registry.values()]
    unmeasured = [result for result in results if result.state == "could_not_measure"]
    without = {result.check: result.reason.text for result in unmeasured}
    of_vgpu = node.gpus()[0].virtualization_mode() == "vgpu"
    lacking = (OF_VGPU if of_vgpu else EVERY_GPU) - set(node._nvml.sampled()[-1].sample(2))
    why[title] = {**without, **({"samples": " ".join(lacking)} if lacking else {})}
print(json.dumps(why))
"""


def architecture(scenario: Scenario) -> str:
    """Return what the first GPU says of itself; empty on a node without GPUs."""
    answers = scenario.nvml or {}
    gpus = [answers.get("gpu", {}), *answers.get("gpus", [])]
    return next((gpu["architecture"] for gpu in gpus if gpu and "architecture" in gpu), "")


def generations(scenario: Scenario) -> dict[str, Mapping[str, Any]]:
    """Return NVML's answers under each driver.

    Those that know one of two versions of a structure look at it first, or at the support.
    """
    assert scenario.nvml is not None
    since = FIRST_DRIVER[architecture(scenario)]
    return {
        f"{driver} {'version' if first else 'support'} first": {
            **with_places(scenario.nvml, scenario.host),
            "driver_version": driver,
            "version_checked_first": first,
        }
        for driver in DRIVERS
        for first in ((True, False) if driver[:3] in ("550", "570") else (True,))
        if int(driver[:3]) >= since
    }


def unanswered(
    scenario: Scenario, folder: Path, answers: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, str]]:
    """Return what has no answer with each of these answers of NVML, and why."""
    environment, variables = scenario.install(folder / "node")
    files = {title: str(folder / f"answers{place}") for place, title in enumerate(answers)}
    for title, path in files.items():
        nvml.write(Path(path), answers[title])
    order = (variables["hwcheck_host_root"], dict(scenario.expect), OF_GPUS, files)
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        input=json.dumps(order),
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    why: dict[str, dict[str, str]] = json.loads(done.stdout)
    return why


OF_GPUS = [name for name in IDLE if REGISTRY[name].gpu]
WITH_GPUS = [each for each in map(load, names()) if architecture(each)]
SOME = (
    *("v100x8", "titan_rtx_x2", "a100x8", "rtx4090x4", "h100x8", "gb200"),
    *("a100_mig", "vgpu_guest"),
)
"""One of each architecture, and parts of a board; ``make test-wide`` takes the others."""


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(each, id=each.name, marks=() if each.name in SOME else pytest.mark.wide)
        for each in WITH_GPUS
    ],
)
def test_no_driver_generation_leaves_a_question_without_an_answer(
    scenario: Scenario, tmp_path: Path
) -> None:
    answers = generations(scenario)
    assert len(answers) >= 3
    why = unanswered(scenario, tmp_path, answers)
    assert why.keys() == answers.keys()
    assert {tuple(each) for each in why.values()} == {scenario.unanswered}, why


def test_some_are_of_each_architecture() -> None:
    assert {architecture(load(name)) for name in SOME} == set(FIRST_DRIVER)


def test_a_function_that_no_generation_may_lack(tmp_path: Path) -> None:
    """Negative control of the test above."""
    scenario = load("titan_rtx_x2")
    healthy = with_places(scenario.nvml or {}, scenario.host)
    answers = {"without": {**healthy, "unsupported": ["nvmlDeviceGetTemperature"]}}
    why = unanswered(scenario, tmp_path, answers)["without"]
    assert {"temperature_idle", "thermal_margin", "samples"} <= set(why)
