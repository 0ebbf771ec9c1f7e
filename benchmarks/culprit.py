"""Who is named when one of several hosts has a fifth of the others' link, time after time.

    python benchmarks/culprit.py [--runs 20] [--hosts 4] [--seed 1]

Hosts are network namespaces with an sshd each, links are shaped by tbf, collectives run over gloo.
Every run slows another host's link, lets the tournament and the bisection name it one after the
other, each on its own, and counts a run as right only when both name that host and no other; every
fourth run slows none, and nobody may be named. Needs root and the extra ``torch``. Exits with 1
when a run was wrong.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from hwcheck.results.multi_host import Suspect
from hwcheck.run.multi_host.participants import Participants
from hwcheck.run.multi_host.scope_runner import ScopeRunner
from tests.lab.groups import FIFTH, QUICK, RATE, opened, python_with_torch
from tests.lab.lab import Lab

CONTROL_EVERY = 4


def main() -> int:
    """Run it and print a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    names = [f"n{number}" for number in range(1, asked.hosts + 1)]
    draw = random.Random(asked.seed)
    culprits = [draw.choice(names) for _ in range(asked.runs)]
    controls = [""] * (asked.runs // CONTROL_EVERY)
    right = 0
    with Lab(names, rates=dict.fromkeys(names, RATE)) as lab:
        for number, culprit in enumerate([*culprits, *controls], 1):
            for name, node in lab.nodes.items():
                node.limit(FIFTH if name == culprit else RATE)
            right += one_run(lab, number, culprit)
    total = len(culprits) + len(controls)
    print(f"{right} of {total} runs right ({len(controls)} of them with no slow host)")
    return int(right != total)


def one_run(lab: Lab, number: int, culprit: str) -> bool:
    """Let both ways name the host; return whether each named it and nobody else."""
    started = time.monotonic()
    named = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        opened(python_with_torch(lab.hosts()), Path(folder)) as members,
    ):
        for scope in ("pairs", "all"):
            named[scope] = run(members, scope, Path(folder))
    right = all(
        [(one.hosts, one.kind) for one in suspects] == ([((culprit,), "slow")] if culprit else [])
        for suspects in named.values()
    )
    shown = "; ".join(f"{scope} {say(suspects)}" for scope, suspects in named.items())
    took = time.monotonic() - started
    verdict = "right" if right else "WRONG"
    print(f"{number:3} slow: {culprit or 'none':4} {shown}  {verdict} ({took:.0f} s)", flush=True)
    return right


def run(members: Participants, scope: str, folder: Path) -> Sequence[Suspect]:
    """Return whom one scope suspects, on its own."""
    return ScopeRunner(members, (scope,), folder, lambda _: None, QUICK).run().suspects


def say(suspects: Sequence[Suspect]) -> str:
    """Say who is suspected, for one line."""
    return ", ".join(f"{'-'.join(one.hosts)} {one.kind}" for one in suspects) or "nobody"


if __name__ == "__main__":
    sys.exit(main())
