"""``make demo``: six simulated hosts, five of them faulty, through ``hwcheck validate``.

Everything that one command does is in it: what is read from idle nodes, collectives, a load, the
pairs of hosts, and NCCL settings for the hosts that need some. It ends by holding what was found
against what was planted; nothing is opened. Returns 0 when all of it was found and the healthy
hosts passed, 1 when not, 2 where no lab can be built.

``--idle`` leaves out all but what is read from idle nodes. ``--picture FILE`` has headless Chromium
draw the report's first screen, and keeps beside it what that depends on (``picture_of``).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hwcheck import checks
from hwcheck.advise.assessment import Assessment, assess
from hwcheck.advise.catalogue import shipped
from hwcheck.judge.records import MULTI_HOST
from hwcheck.results.multi_host import read_multi_host
from hwcheck.results.run_folder import read_run
from tests.lab import demo_picture, loads
from tests.lab.lab import Lab, Node
from tests.lab.namespaces import TOOLS, missing, why_not
from tests.lab.network import remove_leftovers
from tests.lab.scenarios_on_nodes import install_on

RUNS = Path("runs")
HWCHECK = Path(sys.executable).with_name("hwcheck")
COMPILER = {"gcc": "gcc libc6-dev"}
ALL = ["--scope", "node,pairs", "--skip", "alltoall"]
"""One collective is enough to see what the other would say, too."""


@dataclass(frozen=True)
class Planted:
    """A simulated host: the check that shall fail there, for which fault; empty for none.

    ``idle`` is a fault of the scenario, ``load`` are those that a load brings out, ``nccl`` what
    ``simulated_nccl`` shall do. ``needs`` are the NCCL settings that the host shall be given.
    """

    check: str = ""
    fault: str = ""
    scenario: str = "h100x8"
    idle: str | None = None
    load: tuple[str, ...] = ()
    nccl: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[tuple[str, str], ...] = ()

    def install(self, node: Node) -> Mapping[str, object]:
        """Make a node of the lab this host; return its inventory variables."""
        made = loads.load(self.scenario, *self.load, idle=self.idle)
        return {**install_on(node, made.scenario), **made.install_cuda(node.folder, self.nccl)}


HOSTS: Mapping[str, Planted] = {
    "node01": Planted(),
    "node02": Planted("power_cap", "one GPU may draw 500 of its 700 W", idle="power_capped"),
    "node03": Planted(
        "nvlink_state",
        "an NVLink is down, and collectives are that much slower",
        idle="link_down",
        nccl={"gbps": {"default": 425.0}},
    ),
    "node04": Planted(
        "throttle_under_load", "hardly any air reaches one GPU", load=("throttles_at_86",)
    ),
    "node05": Planted(
        MULTI_HOST,
        "its network carries a tenth of what the others carry",
        nccl={"gbps": {"hosts": 34.0}},
    ),
    "node06": Planted(
        "all_reduce",
        "copies between its GPUs never arrive",
        scenario="rtx4090x4",
        nccl={
            "gbps": {"default": 20.5, "p2p_off": 18.5, "net": 9.0, "hosts": 20.0},
            "faults": {"default": {"kind": "stop at connect"}},
        },
        needs=(("NCCL_P2P_DISABLE", "1"),),
    ),
}
IDLE = {"node02": "power_cap", "node03": "nvlink_state"}
"""What fails on nodes that are only read; the others pass then."""


def main(arguments: list[str]) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.demo")
    parser.add_argument("--idle", action="store_true", help="only what is read from idle nodes")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the report, as PNG")
    asked = parser.parse_args(arguments)
    tools = TOOLS | COMPILER | (demo_picture.BROWSER if asked.picture else {})
    problem = missing(tools) or why_not()
    if problem:
        print(f"no simulated hosts here: {problem}", file=sys.stderr)
        return 2
    remove_leftovers()
    loading = [check.id for check in checks.load().values() if check.load]
    words = ["--skip", ",".join(loading)] if asked.idle else ALL
    with Lab(list(HOSTS), prepare=lambda node: HOSTS[node.name].install(node)) as lab:
        command = [HWCHECK, "validate", "--hosts", lab.inventory(), *words, "--out", RUNS]
        before = set(RUNS.glob("2*"))
        code = subprocess.run(command, check=False).returncode
    made = set(RUNS.glob("2*")) - before
    if len(made) != 1:
        return code or 1
    (run,) = made
    if asked.picture:
        demo_picture.draw(run / "report.html", asked.picture, demo_picture.digest(HOSTS.items()))
    return compare(assess(read_run(run), shipped(), read_multi_host(run)), idle=asked.idle)


def compare(came: Assessment, *, idle: bool) -> int:
    """Say of each host what was planted and wanted; return 1 where something else was found."""
    checks_by_host = {name: IDLE.get(name, "") if idle else h.check for name, h in HOSTS.items()}
    lacking = list(_not_found(came, checks_by_host))
    lacking += [] if idle else _other_settings(came)
    for name, check in checks_by_host.items():
        fault = HOSTS[name].fault if check else "nothing that shows in such a run"
        print(f"{name}: planted: {fault}; wanted: {f'{check} fails' if check else 'passes'}")
    for words in lacking:
        print(words, file=sys.stderr)
    if not lacking:
        print("All that was planted was found, and the other hosts pass.")
    return int(bool(lacking))


def _not_found(came: Assessment, checks_by_host: Mapping[str, str]) -> Iterator[str]:
    outcomes = {each.host: each.outcome for each in came.judgement.hosts}
    failed = {(f.host, f.check) for f in came.judgement.findings if f.outcome == "fail"}
    for name, check in checks_by_host.items():
        fine = ("pass", "warn") if HOSTS[name].load else ("pass",)  # it may be warm at rest
        if not check and outcomes.get(name) not in fine:
            yield f"{name}: {outcomes.get(name)} in place of pass"
        elif check and (name, check) not in failed:
            yield f"{name}: {check} does not fail"


def _other_settings(came: Assessment) -> Iterator[str]:
    advices = {host: each.nccl for each in came.advice.groups for host in each.hosts}
    for name, host in HOSTS.items():
        settings = advices.get(name, came.advice.nccl).settings
        if {(each.name, each.value) for each in settings} != {*host.needs}:
            yield f"{name}: other NCCL settings than {dict(host.needs)}: {settings}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
