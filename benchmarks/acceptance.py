"""What ``hwcheck accept --explain`` estimates against what it takes, in the lab (root only).

    python benchmarks/acceptance.py [--hosts 2]

Two simulated hosts go through inventory, idle checks and three runs of the collectives. The first
call is stopped while the second of these runs is under way; the estimate of what is left is read
then, and the second call is timed from its start as a process to its end. Printed are estimate,
time and their ratio, and the same stage by stage. What is planned before anything was measured is
for hosts with GPUs, whose collectives take minutes; it is printed for comparison and not judged.

The exit code is 1 where the estimate is off by more than 20 %.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.lab.lab import Lab, Node
from tests.lab.scenario import load
from tests.lab.scenarios_on_nodes import install_on
from tests.node.nccl_tests.stand_in import install as install_programs

HWCHECK = str(Path(sys.executable).parent / "hwcheck")
MOST_OFF = 0.2
RUNS = 3
CRITERIA = f"""\
format: 1
name: the estimate
gpu: h100_sxm
repeats: {RUNS}
engine: nccl-tests
requirements:
  - {{id: GPUS, text: every GPU, source: benchmark, stage: inventory, checks: [gpu_count]}}
  - {{id: LINKS, text: whole links, source: benchmark, stage: idle, checks: [pcie_link]}}
  - {{id: BUSBW, text: fast, source: benchmark, stage: collectives, checks: [all_reduce]}}
"""
START_S = 1.5
"""What NCCL takes to start on eight GPUs (``CollectiveSpec``: 1 to 4 s). Without it a stage would
be the work of this machine's processors alone, and as long as whatever else they do makes it."""
SPEEDS = {
    leg: {"busbw": busbw, "start_s": START_S}
    for leg, busbw in (("default", 455.0), ("p2p_off", 41.0), ("net", 9.0))
}
UNITS_S = {"s": 1, "min": 60, "h": 3600}
LENGTH = r"(\d[\d.]*) (s|min|h)\b"


def install(node: Node) -> Mapping[str, object]:
    """Make a node one with eight H100 and with stand-ins for the programs of nccl-tests."""
    variables = install_on(node, load("h100x8"))
    programs = install_programs(node.folder / "nccl-tests", **SPEEDS)
    return {**variables, "hwcheck_nccl_tests_dir": str(programs)}


def lengths_s(text: str) -> list[float]:
    """Return each length of time that a text names, in seconds."""
    return [float(number) * UNITS_S[unit] for number, unit in re.findall(LENGTH, text)]


def left_by_stage(explanation: str) -> dict[str, float]:
    """Return the seconds of each stage that is left, as ``--explain`` says them."""
    words = " ".join(explanation.split())
    match = re.search(r"Left: [^:]+: (.*?\))(?= \w+ [a-z]+ )", words)
    if not match:
        raise SystemExit(f"nothing is left:\n{explanation}")
    parts = re.findall(rf"(\w+) ({LENGTH}) \(", match[1])
    return {stage: lengths_s(length)[0] for stage, length, *_ in parts}


def accept(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Begin ``hwcheck accept`` in a folder."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [HWCHECK, "accept", *words], cwd=folder, text=True, stdout=pipe, stderr=pipe
    )


def answer(folder: Path, *words: str) -> str:
    """Return what ``hwcheck accept`` says, on both streams."""
    return "".join(accept(folder, *words).communicate())


def stop_in_second_run(call: subprocess.Popen[str]) -> None:
    """Stop a call when the second run of the collectives has begun, as it says itself.

    Whoever looks at the run folders instead takes from the first run what the estimate goes by.
    """
    assert call.stderr
    begun = (line for line in call.stderr if "stage collectives on" in line)
    if len(list(islice(begun, 2))) < 2:
        raise SystemExit("the first call ended before it was stopped")
    call.send_signal(signal.SIGINT)
    call.communicate()


def main() -> int:
    """Compare; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hosts", type=int, default=2)
    names = [f"node{number}" for number in range(1, parser.parse_args().hosts + 1)]
    with tempfile.TemporaryDirectory() as name, Lab(names, prepare=install) as lab:
        folder = Path(name)
        (folder / "criteria.yml").write_text(CRITERIA)
        words = ("run", "--hosts", str(lab.inventory()), "--criteria", "criteria.yml")
        planned = answer(folder, *words, "--explain")
        first = accept(folder, *words)
        stop_in_second_run(first)
        left_s = left_by_stage(answer(folder, *words, "--explain"))
        began_s = time.monotonic()
        said = answer(folder, *words)
        took_s = time.monotonic() - began_s
    print(
        "planned before anything was measured:",
        " ".join(planned.split()).partition(" inventory")[0],
    )
    for stage, stage_s in left_s.items():
        print(f"estimated: {stage} {stage_s:.0f} s")
    for line in said.splitlines():
        if " took " in line:
            print(line)
    estimate_s = sum(left_s.values())
    ratio = estimate_s / took_s
    print(f"estimate {estimate_s:.0f} s, took {took_s:.0f} s: ratio {ratio:.2f}")
    return int(abs(ratio - 1) > MOST_OFF)


if __name__ == "__main__":
    sys.exit(main())
