"""A whole load over the simulated NVML, ended for safety's sake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from hwcheck.results.series import unpack
from tests.lab.scenario import load as load_scenario

HOT = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from hwcheck.contract.columnar import pack
from hwcheck.node.load.run import Load, Times
from hwcheck.node.load.sampler import Sampler
from hwcheck.node.nvml.nvml import Nvml
from tests.lab import nvml

class Burn:
    backend, library = "cuda", "none"
    work = Path(os.environ["HWLAB_NVML_LOAD"])
    def start(self):
        nvml.begin_load(self.work)
    def stop(self):
        nvml.end_load(self.work)
        return ()
    def problem(self):
        return ""

said = []
library = Nvml()
sampler = Sampler(library.sampled())
run = Load(library.gpus(), Burn(), sampler, Times(0.5, 30.0, 2.0), said.append).run()
print(json.dumps({"load": pack(run), "said": said}))
"""


def test_over_the_simulated_nvml_a_gpu_that_gets_hot_ends_it(tmp_path: Path) -> None:
    scenario = load_scenario("h100x8")
    gpus = [dict(gpu) for gpu in (scenario.nvml or {})["gpus"]]
    heat = {"power_w": 690, "ambient_c": 25, "sm_mhz": 1980, "time_constant_s": 3}
    for index, gpu in enumerate(gpus):
        gpu["under_load"] = {**heat, "resistance_c_per_w": 0.12 if index == 5 else 0.05}
    hot = replace(scenario, nvml={**(scenario.nvml or {}), "gpus": gpus})
    environment, _ = hot.install(tmp_path / "node")
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", HOT, root],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    run = unpack(said["load"]).load
    assert run is not None
    assert run.stopped.startswith("gpu5 reached ")
    assert 1 < run.load_end_s < 15
    columns = run.series.columns
    assert max(filter(None, columns["gpu0"]["temperature_c"])) < 65
    assert columns["gpu0"]["power_w"][0] < 200 < max(filter(None, columns["gpu0"]["power_w"]))
    peak = max(filter(None, columns["gpu5"]["temperature_c"]))
    last = next(value for value in reversed(columns["gpu5"]["temperature_c"]) if value)
    assert last < peak, "it cools down"
    assert any("hottest gpu5" in text and "kW" in text for text in said["said"])
