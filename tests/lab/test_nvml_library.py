"""Unmodified pynvml over the library: each quantity as the scenario says it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab import nvml
from tests.lab.nvml_answers import Stand
from tests.lab.nvml_quantities import GPU, NODE, QUANTITIES


def test_every_quantity_is_read_back(stand: Stand) -> None:
    stand.says({**NODE, "gpus": [GPU]})
    said = stand.answers(list(QUANTITIES))
    assert said.pop("nvmlInit()") is None
    assert said == QUANTITIES


def test_another_value_is_noticed(stand: Stand) -> None:
    """Negative control of the comparison above."""
    stand.says({**NODE, "gpus": [{**GPU, "pcie_replays": 68}]})
    said = stand.answers(list(QUANTITIES))
    different = [question for question in QUANTITIES if said[question] != QUANTITIES[question]]
    assert different == ["nvmlDeviceGetPcieReplayCounter(gpu)"]


OF_A_GPU = [each for each in QUANTITIES if each.endswith("(gpu)") and each[:4] == "nvml"]


def test_what_a_scenario_does_not_give_is_not_supported(stand: Stand) -> None:
    stand.says({"gpus": [{}]})
    said = stand.answers([*OF_A_GPU, "nvmlSystemGetDriverVersion()"])
    assert said.pop("nvmlInit()") is None
    assert set(said.values()) == {"error: Not Supported"}


def test_energy_goes_on_with_power(stand: Stand) -> None:
    stand.says({"gpus": [{"power_w": 100, "total_energy_j": 5e6}]})
    up_s = "__import__('time').clock_gettime(7)"
    question = f"[{up_s}, nvmlDeviceGetTotalEnergyConsumption(gpu), {up_s}]"
    with stand.asker() as asker:
        first_s, energy_mj, latest_s = asker.ask(question)
        assert energy_mj / 1000 == pytest.approx(5e6 + 100 * latest_s, abs=100)
        later_s, more_mj, last_s = asker.ask(question)
    # Whatever ran between a clock and the counter; both are whole numbers of mJ.
    assert (later_s - latest_s) * 1e5 - 1 <= more_mj - energy_mj <= (last_s - first_s) * 1e5 + 1


def test_values_change_while_a_program_runs(stand: Stand) -> None:
    stand.says({"gpus": [{"temperature_c": 31, "name": "A"}]})
    temperature = "nvmlDeviceGetTemperature(gpu, 0)"
    with stand.asker() as asker:
        assert asker.ask(temperature) == 31
        stand.says({"gpus": [{"temperature_c": 32, "name": "B"}]})
        assert (asker.ask(temperature), asker.ask("nvmlDeviceGetName(gpu)")) == (32, "B")
        stand.scenario.unlink()
        assert asker.ask(temperature) == "error: Invalid Argument"


def test_the_scenario_may_lie_beside_the_library(nvml_library: Path, tmp_path: Path) -> None:
    shutil.copy(nvml_library / nvml.LIBRARY, tmp_path / nvml.LIBRARY)
    beside = Stand(tmp_path, tmp_path / "scenario")
    beside.says({"gpus": [{"temperature_c": 44}]})
    environment = beside.environment()
    del environment["HWLAB_NVML"]
    code = "from pynvml import *; nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(0); "
    code += "print(nvmlDeviceGetTemperature(gpu, 0))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert done.stdout == b"44\n", done.stderr.decode()


def test_many_threads_read_while_the_scenario_changes(stand: Stand) -> None:
    stand.says({"gpus": [{"mig_mode": True, "temperature_c": 40}]})
    pool = "__import__('multiprocessing.pool').pool.ThreadPool(4)"
    question = f"{pool}.map(lambda _: nvmlDeviceGetTemperature(gpu, 0), range(20000))"
    with stand.asker() as asker:
        asker.send(f"sorted(set({question}))")
        written = 0
        while not asker.has_answered():
            written += 1
            stand.says({"gpus": [{"mig_mode": True, "temperature_c": 40 + written % 2}]})
        assert asker.answer() == [40, 41]
    assert written > 10
