"""``make demo``: six simulated hosts, four of them faulty, through ``fab validate``.

It ends by saying where the report is; nothing is opened. Returns 0 when the four faults were found
and the two healthy hosts passed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hwcheck.judge.judge import judge
from hwcheck.node import checks
from hwcheck.results.run_folder import read_run
from tests.lab.lab import Lab
from tests.lab.namespaces import why_not
from tests.lab.network import remove_leftovers
from tests.lab.scenarios_on_nodes import prepare

SCENARIO = "h100x8"
FAULTS = {
    "node02": "power_capped",
    "node03": "narrow_link",
    "node05": "link_down",
    "node06": "xid_79",
}
HOSTS = 6
RUNS = Path("runs")
FAB = Path(sys.executable).with_name("fab")


def main() -> int:
    """Return the exit code; 2 where no lab can be built."""
    problem = why_not()
    if problem:
        print(f"no lab can be built here: {problem}", file=sys.stderr)
        return 2
    remove_leftovers()
    names = [f"node{number:02}" for number in range(1, HOSTS + 1)]
    with Lab(names, prepare=prepare(SCENARIO, FAULTS)) as lab:
        command = [str(FAB), "validate", "--hosts", str(lab.inventory()), "--skip", loads()]
        before = set(RUNS.glob("2*"))
        code = subprocess.run([*command, "--out", str(RUNS)], check=False).returncode
    made = set(RUNS.glob("2*")) - before
    if len(made) != 1:
        return code or 1
    (run,) = made
    return _compare({v.host: v.outcome for v in judge(read_run(run)).hosts}, names)


def loads() -> str:
    """Return the checks to skip: the stand-in answers for NVML only, there is no GPU to load."""
    return ",".join(check.id for check in checks.load().values() if check.load)


def _compare(outcomes: dict[str, str], names: list[str]) -> int:
    wanted = {name: "fail" if name in FAULTS else "pass" for name in names}
    for name in names:
        if outcomes.get(name) != wanted[name]:
            print(f"{name}: {outcomes.get(name)} in place of {wanted[name]}", file=sys.stderr)
    return int(outcomes != wanted)


if __name__ == "__main__":
    sys.exit(main())
