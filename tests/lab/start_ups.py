"""A quick profile's collectives on a simulated node that starts as slowly as a real one.

``python -m tests.lab.start_ups [name]`` runs them in true time and shows what came of it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hwcheck.contract.collective_spec import MIB
from hwcheck.contract.wire import Leg, Request, Timing
from hwcheck.judge.records import Finding
from hwcheck.run.plan import PROFILES
from tests.lab import loads
from tests.lab.answers import answers
from tests.lab.load_runs import TOKEN, declared, judged

CHECKS = ("all_reduce", "alltoall")

START_UPS: Mapping[str, Mapping[str, Any]] = {
    "at once": {},
    "usual": {"import_s": 3.0, "context_s": 1.5, "communicator_s": 0.75, "connect_s": 0.5},
    "slow": {
        "import_s": 8.0,
        "context_s": 4.0,
        "communicator_s": 3.82,
        "connect_s": 2.0,
        "exit_s": 4.0,
    },
    "cold DGX B200": {
        "import_s": 8.0,
        "context_s": 4.0,
        "communicator_s": 60.0,
        "connect_s": 2.0,
        "exit_s": 4.0,
    },
}
"""Communicators of 0.75 and 3.82 s are NCCL's own ``Init timings`` in public logs of 8 GPUs; a
minute is NVIDIA/nccl issue 1646."""

# As ``load_runs.START``, with the limits of a start, and of silence, as short as the rest.
START = """
import runpy, sys
from dataclasses import replace
lock, scale, payload = sys.argv[1:]
sys.path.insert(0, payload)
from hwcheck.node import load_lock
from hwcheck.node.together import launch
load_lock.NAME = chr(0) + lock
usual, scale = launch.spec_of, float(scale)
def scaled(*args):
    spec = usual(*args)
    limits = {name: getattr(spec, name) * scale for name in ("grace_s", "start_s", "connect_s")}
    return replace(spec, **limits)
launch.spec_of = scaled
runpy.run_path(payload, run_name="__main__")
"""


@dataclass(frozen=True)
class Visit:
    """What came of a node: its legs, what its judges find, and how long it took."""

    legs: tuple[Leg, ...]
    findings: tuple[Finding, ...]
    took_s: float

    def states(self) -> dict[tuple[str, str], str]:
        return {(leg.collective, leg.leg): leg.state for leg in self.legs}

    def complaints(self) -> dict[str, str]:
        """Return the outcome of each subject that is no pass."""
        return {f.subject: f.outcome for f in self.findings if f.outcome != "pass"}

    def outcomes(self, metric: str) -> dict[str, str]:
        return {f.subject: f.outcome for f in self.findings if f.metric == metric}


def visit(
    start: Mapping[str, Any],
    folder: Path,
    scale: float = 1.0,
    checks: tuple[str, ...] = CHECKS,
    timing: Timing | None = None,
    budget_s: float = PROFILES["quick"].budget_s,
) -> Visit:
    """Have the payload time the collectives of 8 x H100 that start like this; judge the node.

    At ``scale`` 0.1 a start takes a tenth of its time, and has a tenth of its limits.
    """
    node = loads.load("h100x8")
    environment, variables = node.install(folder / "node")
    request = Request(
        token=TOKEN,
        checks=checks,
        budget_s=budget_s,
        timing=timing or Timing(),
        host_root=str(variables["hwcheck_host_root"]),
        expect=declared(node),
        torch_python=str(variables["hwcheck_torch_python"]),
    )
    environment["HWLAB_START"] = json.dumps({**start, "scale": scale})
    began = time.monotonic()
    boot = ("-c", START, str(folder), str(scale))
    limit_s = PROFILES["quick"].timeout_s
    report, _ = answers(request, environment, timeout_s=limit_s, start=boot)
    took_s = time.monotonic() - began
    legs = tuple(leg for result in report.results for leg in result.legs)
    assert legs, [(result.state, result.reason.text) for result in report.results]
    return Visit(legs, judged(node, report, checks)[0], took_s)


def show(name: str) -> None:
    """Print what came of one way to start."""
    with TemporaryDirectory(prefix="hwlab-") as folder:
        came = visit(START_UPS[name], Path(folder))
    sys.stdout.write(f"{name}: {came.took_s:.0f} s\n")
    for leg in came.legs:
        last = leg.sizes[-1] if leg.sizes else None
        size = (
            f"{last.size_bytes // MIB} MiB {last.busbw_gbps:.1f} GB/s x{last.passes}"
            if last
            else ""
        )
        words = (
            leg.collective,
            leg.leg,
            leg.state,
            leg.reason.text,
            f"start {leg.start_s:.1f} s",
            size,
        )
        sys.stdout.write("  " + " ".join(filter(None, words)) + "\n")
    for finding in came.findings:
        if finding.outcome != "pass":
            words = (
                finding.outcome,
                finding.check,
                finding.metric,
                finding.subject,
                finding.reason.text,
            )
            sys.stdout.write("  " + " ".join(words) + "\n")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or START_UPS:
        show(chosen)
