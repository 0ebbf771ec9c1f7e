"""What watching GPUs costs on the node, beside nvitop's collector on the same simulated GPUs.

    python benchmarks/sampler.py [--scenario h100x8] [--seconds 60] [--delay-ms 0 2]

Both read all GPUs five times a second, each in a process of its own, from the stand-in NVML library
(``tests/lab/nvml/``), which ``--delay-ms`` makes as slow as a driver that waits for the chip. CPU
is user and system time of the process while it samples, start and imports not counted; 600 ms per
minute is 1 % of one core. ``read only`` is the same reading in a loop with no thread and no rows:
what asking NVML through pynvml costs by itself. See README.md beside this file for the results.
Exits with 1 when hwcheck went without a sample for longer than half a second.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.lab.scenario import load

ROOT = Path(__file__).parent.parent
LONGEST_GAP_MS = 500
MEASURE = """
import json, os, sys, threading, time
seconds = float(sys.argv[1])
cpu = time.process_time
def measured(begin, end):
    before = cpu()
    begin()
    time.sleep(seconds)
    spent = cpu() - before
    return {"cpu_ms_per_minute": spent * 60e3 / seconds, **end()}
"""

HWCHECK = """
from hwcheck.node.load.sampler import Sampler
from hwcheck.node.nvml.nvml import Nvml
sampler = Sampler(Nvml().sampled())
def end():
    sampler.stop()
    series = sampler.series(0)
    gaps = [late - early for early, late in zip(series.time_s, series.time_s[1:])]
    return {"rows_per_s": len(gaps) / seconds, "longest_gap_ms": max(gaps) * 1e3,
            "columns": sum(map(len, series.columns.values()))}
"""

CONTENDERS = {
    "hwcheck": HWCHECK + "print(json.dumps(measured(sampler.start, end)))",
    "read only": """
from hwcheck.node.load import sampler
from hwcheck.node.nvml.nvml import Nvml
readers = Nvml().sampled()
ticks = int(seconds * 5)
before = cpu()
for tick in range(ticks):
    for place, reader in enumerate(readers):
        reader.sample(0 if (tick + place) % sampler.OFTEN_TICKS else 1)
spent = cpu() - before
print(json.dumps({"cpu_ms_per_minute": spent * 60e3 / seconds}))
""",
    "nvitop": """
from nvitop import Device, ResourceMetricCollector
collector = ResourceMetricCollector(Device.all(), interval=0.2)
rows = []
def keep(metrics):
    rows.append(time.monotonic())
    return time.monotonic() < finish
def begin():
    global finish
    finish = time.monotonic() + seconds
    collector.daemonize(keep, interval=0.2)
def end():
    gaps = [late - early for early, late in zip(rows, rows[1:])]
    return {"rows_per_s": len(gaps) / seconds, "longest_gap_ms": max(gaps) * 1e3,
            "columns": 0}
print(json.dumps(measured(begin, end)))
""",
}


def once(code: str, seconds: float, environment: dict[str, str]) -> dict[str, Any]:
    """Run one contender; raises RuntimeError with its words when it fails."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE + code, str(seconds)],
        env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=seconds * 3 + 60,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-1000:])
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def main() -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(description="hwcheck's sampler beside nvitop's collector")
    parser.add_argument("--scenario", default="h100x8")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--delay-ms", type=float, nargs="+", default=[0.0, 2.0])
    options = parser.parse_args()
    scenario, gaps = load(options.scenario), 0
    for delay_ms in options.delay_ms:
        delay = {"delay_ms": delay_ms} if delay_ms else {}
        slow = replace(scenario, nvml={**(scenario.nvml or {}), **delay})
        print(f"\n{options.scenario}, {delay_ms:g} ms for each NVML call, {options.seconds:g} s")
        print(f"{'':12}{'CPU ms/min':>12}{'% of a core':>12}{'rows/s':>8}{'longest gap ms':>16}")
        with tempfile.TemporaryDirectory(prefix="hwcheck-bench-") as name:
            environment, _ = slow.install(Path(name) / "node")
            for contender, code in CONTENDERS.items():
                said = once(code, options.seconds, environment)
                cost = said["cpu_ms_per_minute"]
                rate, gap = said.get("rows_per_s", 0.0), said.get("longest_gap_ms", 0.0)
                print(f"{contender:12}{cost:12.0f}{cost / 600:12.2f}{rate:8.2f}{gap:16.0f}")
                if contender == "hwcheck" and gap > LONGEST_GAP_MS:
                    gaps += 1
    return int(gaps > 0)


if __name__ == "__main__":
    sys.exit(main())
