"""What a visit finds on a node without persistence mode, with a driver as slow as true ones.

    python benchmarks/opening.py [--scenario a100x8] [--seconds 3.5]

The stand-in NVML library (``tests/lab/nvml/``) takes ``--seconds`` to initialize each GPU, one
after the other: with 3.5 s, 28 s for 8 x A100 (25-30 s: Azure/AgentBaker pull request 2829). Prints
how long opening took, how many idle checks could measure, and the time of the whole visit. Exits
with 1 when one could not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from hwcheck import checks
from hwcheck.contract.wire import Request
from tests.lab.answers import answers
from tests.lab.scenario import load, overlay

TIME_LIMIT_S = 300.0


def main() -> int:
    """Run one visit and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", default="a100x8")
    parser.add_argument("--seconds", type=float, default=3.5)
    chosen = parser.parse_args()
    healthy = load(chosen.scenario)
    slow = {"open_s": chosen.seconds, "gpu": {"persistence_mode": False}}
    scenario = replace(healthy, nvml=overlay(healthy.nvml, slow))
    registry = checks.load().items()
    idle = tuple(name for name, check in registry if not (check.load or check.after_load))
    with tempfile.TemporaryDirectory(prefix="hwlab-") as name:
        environment, variables = scenario.install(Path(name) / "node")
        root = str(variables["hwcheck_host_root"])
        request = Request("0123abcd", idle, host_root=root, expect=dict(scenario.expect))
        begin_s = time.monotonic()
        report, _ = answers(request, environment, timeout_s=TIME_LIMIT_S)
        took_s = time.monotonic() - begin_s
    states = Counter(result.state for result in report.results)
    print(f"visit: {took_s:.1f} s; checks: {dict(states)}")
    for result in report.results:
        if result.state == "could_not_measure":
            print(f"{result.check}: {result.reason}")
        for sample in result.samples:
            if sample.metric == "nvml_opening_s":
                print(f"NVML and its GPUs opened in {sample.value} s")
    return 1 if states["could_not_measure"] else 0


if __name__ == "__main__":
    sys.exit(main())
