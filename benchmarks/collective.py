"""What three legs of all_reduce cost, and what our timing takes from the bandwidth, on the CPU.

    python benchmarks/collective.py [--max-bytes 4M] [--ranks 2] [--rounds 3]

Three ways to time all_reduce over gloo on this machine, with the same sizes, warm-ups, iterations
and verification of data, in turn in each round:

- hwcheck: the payload, which imports torch once and forks the ranks of all legs;
- torchrun: an equivalent script, started by ``torchrun`` once for each leg, because NCCL reads its
  environment once;
- bare: a loop of ``all_reduce`` between barriers, for the bandwidth alone.

Prints the ratio of the wall times, and of our busbw at the largest size to that of the bare loop,
each the median over the rounds. See README.md beside this file for what was seen. Exits with 1 when
the wall time is above 0.5 of torchrun's or busbw below 0.97 of the bare loop's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from hwcheck.cli.values import Size
from hwcheck.contract.collective_spec import EVERY_NODE_LEGS, CollectiveSpec
from hwcheck.node.together import launch

ROOT = Path(__file__).parent.parent
MOST_OF_TORCHRUN, LEAST_OF_BARE = 0.5, 0.97
WARMUPS, ITERATIONS = 5, 20

SCRIPT = """
import os, sys, time
import torch, torch.distributed as dist

most, bare = int(sys.argv[1]), sys.argv[2] == "bare"
dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(max(1, (os.cpu_count() or 1) // ranks))

def verified(buffer):
    index = torch.arange(buffer.numel()) %% 8191 + 1
    buffer.copy_(index * (rank + 1))
    dist.all_reduce(buffer)
    assert bool((buffer == index * (ranks * (ranks + 1) // 2)).all())

size = most if bare else 1 << 20
while size <= most:
    buffer = torch.ones(size // 4)
    if not bare:
        verified(buffer)
    times = []
    for turn in range(%(turns)d):
        for iteration in range(%(all)d):
            start = time.perf_counter()
            dist.all_reduce(buffer)
            if iteration >= %(warmups)d:
                times.append(time.perf_counter() - start)
        dist.barrier()
        buffer.fill_(1)
        if not bare and size < most:
            break
    slowest = torch.tensor(times)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    if not bare:
        verified(buffer)
    if rank == 0:
        print(size, float(size / slowest.median() / 1e9 * 2 * (ranks - 1) / ranks), flush=True)
    size *= 2
dist.destroy_process_group()
"""


def main() -> int:
    """Run the rounds and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-bytes", default="4M", help="largest size (default 4M)")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    most = Size().convert(args.max_bytes, None, None)
    ours, theirs, of_bare = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "equivalent.py"
        counts = {"turns": CollectiveSpec.turns, "warmups": WARMUPS, "all": WARMUPS + ITERATIONS}
        script.write_text(SCRIPT % counts)
        for number in range(1, args.rounds + 1):
            wall, busbw = timed(lambda: hwcheck(most, args.ranks))
            wall_torchrun, _ = timed(
                lambda: [torchrun(script, most, args.ranks, "whole") for _ in EVERY_NODE_LEGS]
            )
            bare = torchrun(script, most, args.ranks, "bare")
            ours.append(wall)
            theirs.append(wall_torchrun)
            of_bare.append(busbw / bare)
            print(
                f"round {number}: hwcheck {wall:.1f} s, torchrun {wall_torchrun:.1f} s; busbw "
                f"{busbw:.3f} GB/s, bare {bare:.3f} GB/s"
            )
    wall_ratio = median(a / b for a, b in zip(ours, theirs, strict=True))
    busbw_ratio = median(of_bare)
    print(f"wall time, hwcheck / torchrun: {wall_ratio:.2f} (at most {MOST_OF_TORCHRUN})")
    print(f"busbw, hwcheck / bare loop:    {busbw_ratio:.3f} (at least {LEAST_OF_BARE})")
    return int(wall_ratio > MOST_OF_TORCHRUN or busbw_ratio < LEAST_OF_BARE)


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the wall time (s) and what came of it."""
    start = time.monotonic()
    result = run()
    return time.monotonic() - start, result


def hwcheck(most: int, ranks: int) -> float:
    """Time three legs as the payload does; return the best leg's busbw at the largest size."""
    spec = CollectiveSpec(
        ("all_reduce",),
        ranks,
        0,
        budget_s=600.0,
        memory_available_bytes=64 * most * ranks,
        max_bytes=most,
        warmups=WARMUPS,
        iterations=ITERATIONS,
    )
    legs = list(launch.drive(spec, sys.executable, str(ROOT), lambda _: None))
    assert [leg.state for leg in legs] == ["done"] * len(EVERY_NODE_LEGS), legs
    assert all(leg.sizes[-1].size_bytes == most for leg in legs)
    return median(leg.sizes[-1].busbw_gbps for leg in legs)


def torchrun(script: Path, most: int, ranks: int, what: str) -> float:
    """Run the equivalent script once; return its busbw at the largest size."""
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "0"),
        *("--nproc-per-node", str(ranks), str(script), str(most), what),
    ]
    env = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    rows = [line.split() for line in done.stdout.splitlines() if line[:1].isdigit()]
    if done.returncode or not rows or int(rows[-1][0]) != most:
        raise SystemExit(f"torchrun ended with {done.returncode}: {done.stderr[-2000:]}")
    return float(rows[-1][1])


if __name__ == "__main__":
    sys.exit(main())
