"""What one node costs at idle, beside nvitop and gpustat on the same simulated GPUs.

    python benchmarks/idle.py [--scenario h100x8] [--rounds 15] [--delay-ms 0 2]

All three ask the same stand-in NVML library (``tests/lab/nvml/``), which ``--delay-ms`` makes as
slow as a driver that waits for the chip. Rounds are interleaved and medians compared. hwcheck runs
every idle check, and for a fairer match only those that read GPUs; the time of an interpreter that
does nothing is printed beside them. See README.md beside this file for the results.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from hwcheck import checks
from hwcheck.connect import payload
from hwcheck.contract.wire import Deframer, Request, to_dict
from tests.lab.scenario import load

TOOLS = Path(sys.executable).parent
TIME_LIMIT_S = 120
TOKEN = "benchmark"


@dataclass(frozen=True)
class Contender:
    """A command, and the request of a visit."""

    name: str
    command: Sequence[str]
    request: bytes = b""


def contenders(root: str, expect: Mapping[str, object]) -> list[Contender]:
    """Return the commands; hwcheck's is what a visit runs on a node."""
    idle = [check for check in checks.load().values() if not (check.load or check.after_load)]
    request = Request(TOKEN, (), host_root=root, expect=dict(expect))
    gpus = replace(request, checks=tuple(check.id for check in idle if check.per_gpu))
    whole = replace(request, checks=tuple(check.id for check in idle))
    python = sys.executable
    visit = (python, *payload.bootstrap_arguments(payload.build().sha256, TOKEN))
    return [
        Contender("interpreter", (python, "-c", "")),
        Contender("hwcheck, GPUs", visit, json.dumps(to_dict(gpus)).encode()),
        Contender("hwcheck, all idle", visit, json.dumps(to_dict(whole)).encode()),
        Contender("gpustat --json", (str(TOOLS / "gpustat"), "--json")),
        Contender("nvitop -1", (str(TOOLS / "nvitop"), "-1")),
    ]


@dataclass(frozen=True)
class Took:
    """Wall time in s, and how much of it the payload's own clock shows (0 for others)."""

    wall_s: float
    measuring_s: float = 0.0


def once(contender: Contender, environment: Mapping[str, str]) -> Took:
    """Run it and return what it took. Raises RuntimeError when it fails."""
    env = {"PATH": os.environ["PATH"], "TERM": "xterm", **environment}
    started = time.perf_counter()
    if contender.request:
        output, code, log = _visit(contender, env)
    else:
        done = subprocess.run(
            contender.command, capture_output=True, env=env, timeout=TIME_LIMIT_S, check=False
        )
        output, code, log = done.stdout, done.returncode, done.stderr
    took = time.perf_counter() - started
    if code:
        raise RuntimeError(f"{contender.name}: {log.decode(errors='replace')[-500:]}")
    if not contender.request:
        return Took(took)
    frames, _ = Deframer(TOKEN).feed(output)
    return Took(took, frames[-1]["report"]["duration_s"])


def _visit(contender: Contender, env: Mapping[str, str]) -> tuple[bytes, int, bytes]:
    """Do as a controller does: push what is missing, keep stdin open until the end."""
    with subprocess.Popen(
        contender.command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        start_new_session=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        hello, _ = Deframer(TOKEN).feed(process.stdout.readline())
        data = b"" if hello[0]["cached"] else payload.build().data
        header = f"hwcheck {TOKEN} {len(data)} {len(contender.request)}\n".encode()
        process.stdin.write(header + data + contender.request)
        process.stdin.flush()
        output, log = process.stdout.read(), process.stderr.read()
        return output, process.wait(TIME_LIMIT_S), log


def measure(scenario_name: str, delay_ms: float, rounds: int) -> dict[str, Took]:
    """Return the medians by contender."""
    scenario = load(scenario_name)
    slow = replace(scenario, nvml={**(scenario.nvml or {}), "delay_ms": delay_ms})
    with tempfile.TemporaryDirectory(prefix="hwcheck-bench-") as name:
        folder = Path(name)
        environment, variables = slow.install(folder / "node")
        root = str(variables.pop("hwcheck_host_root"))
        expect = {key.removeprefix("hwcheck_"): value for key, value in variables.items()}
        environment = {**environment, "HOME": name}  # where the payload is cached
        all_of_them = contenders(root, expect)
        times: dict[str, list[Took]] = {one.name: [] for one in all_of_them}
        for number in range(rounds + 1):
            for one in all_of_them:
                took = once(one, environment)
                if number:  # the first round pushes the payload and warms the caches
                    times[one.name].append(took)
    return {name: _median(taken) for name, taken in times.items()}


def _median(taken: Sequence[Took]) -> Took:
    wall_s = statistics.median(one.wall_s for one in taken)
    return Took(wall_s, statistics.median(one.measuring_s for one in taken))


def show(scenario: str, delay_ms: float, medians: Mapping[str, Took]) -> None:
    """Print the times and the ratios."""
    start_s = medians["interpreter"].wall_s
    print(f"\n{scenario}, {delay_ms:g} ms for each NVML call; ms")
    heads = ("wall", "beyond start", "measuring", "x gpustat", "x nvitop")
    print(" " * 20 + "".join(f"{head:>14}" for head in heads))
    for name, took in medians.items():
        figures = [took.wall_s, took.wall_s - start_s, took.measuring_s]
        ratios = [took.wall_s / medians[peer].wall_s for peer in ("gpustat --json", "nvitop -1")]
        shown = [f"{figure * 1e3:14.0f}" for figure in figures]
        print(f"{name:20}" + "".join(shown) + "".join(f"{ratio:14.2f}" for ratio in ratios))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="hwcheck at idle beside nvitop and gpustat")
    parser.add_argument("--scenario", default="h100x8")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--delay-ms", type=float, nargs="+", default=[0.0, 2.0])
    options = parser.parse_args()
    for delay_ms in options.delay_ms:
        show(options.scenario, delay_ms, measure(options.scenario, delay_ms, options.rounds))


if __name__ == "__main__":
    main()
