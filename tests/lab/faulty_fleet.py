"""Five hosts with two and three faults each (``faulty_fleet.yml``), and the report about them.

``python -m tests.lab.faulty_fleet > docs/example-report.md`` writes the page of the documentation.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from hwcheck.advise.assessment import Assessment, assess
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.reasons import GPU_LOST, Reason
from hwcheck.contract.wire import CheckResult, Report, Request
from hwcheck.report.markdown import markdown
from hwcheck.results.run_folder import HostPlan, Run, RunMeta
from tests.lab import at_work
from tests.lab.answers import answers
from tests.lab.at_work import AtWork
from tests.lab.every_node import AT_A_TIME, IDLE, TIME_LIMIT_S, TOKEN, declared
from tests.lab.scenario import Scenario, load, overlay

FILE = Path(__file__).with_name("faulty_fleet.yml")
HEALTHY = "h100x8"
WHEN, UNTIL = "2026-01-31T12:00:00Z", "2026-01-31T12:06:40Z"
INTRODUCTION = """# Example: a fleet with several faults on one host

`report.md` of a run over five hosts of the lab (8x H100 SXM, simulated: no GPU was there).
`python -m tests.lab.faulty_fleet` makes it, and a test holds it current. What is wrong:
"""
LEGS = ("default", "p2p_off", "net")


@cache
def hosts() -> Mapping[str, Any]:
    """Return what the file says of each host."""
    said: Mapping[str, Any] = yaml.safe_load(FILE.read_text("utf-8"))["hosts"]
    return said


def scenario_of(host: str) -> Scenario:
    """Return a host: boards with serials of their own, and what is wrong with it."""
    says, healthy = hosts()[host], load(HEALTHY)
    assert healthy.nvml is not None
    number = int(host.removeprefix("node"))
    own = {
        place: {
            "serial": f"{gpu['serial'][:-4]}{number}{gpu['serial'][-3:]}",
            "uuid": f"{gpu['uuid'][:-12]}{number:02d}{gpu['uuid'][-10:]}",
        }
        for place, gpu in enumerate(healthy.nvml["gpus"])
    }
    nvml = overlay(overlay(healthy.nvml, {"gpus": own}), says.get("nvml", {}))
    return replace(healthy, nvml=nvml, host=overlay(healthy.host, says.get("host", {})))


def ask(host: str, folder: Path) -> Report:
    """Run the payload as the host would; return its report, without what goes by this machine."""
    scenario = scenario_of(host)
    environment, variables = scenario.install(folder / host)
    root = str(variables["hwcheck_host_root"])
    request = Request(TOKEN, tuple(IDLE), host_root=root, expect=declared(scenario))
    report = answers(request, environment, timeout_s=TIME_LIMIT_S)[0]
    facts = {**report.facts, "hostname": host, "python": "3.12.3", "machine": "x86_64"}
    results = tuple(replace(result, duration_s=0.1) for result in report.results)
    return replace(report, facts=facts, results=results, duration_s=40.0)


def assessment() -> Assessment:
    """Ask the five hosts, put those to work that can, and judge them as one run."""
    (work,) = (node.work for node in at_work.healthy() if node.name == HEALTHY)
    records, plans = [], []
    with TemporaryDirectory(prefix="hwlab-") as name, ThreadPoolExecutor(AT_A_TIME) as pool:
        reports = dict(
            zip(
                hosts(),
                pool.map(lambda host: ask(host, Path(name)), hosts()),
                strict=True,
            )
        )
    expect = declared(load(HEALTHY))
    healthy_legs = {leg: work["legs"][leg] for leg in LEGS}
    for number, (host, says) in enumerate(hosts().items(), 1):
        legs = {} if "no_legs" in says else overlay(healthy_legs, says.get("legs", {}))
        at_host = AtWork(host, HEALTHY, {**work, "legs": legs, "copies": {}})
        (record,) = at_host.run(reports[host], expect).records
        if "no_legs" in says and record.report is not None:
            blind = CheckResult(
                "all_reduce", "could_not_measure", Reason(GPU_LOST, says["no_legs"])
            )
            report = replace(record.report, results=(*record.report.results, blind))
            record = replace(record, report=report)
        records.append(replace(record, started=WHEN, duration_s=41.5))
        plans.append(HostPlan(host, f"10.0.0.{number}", expect))
    meta = RunMeta(
        id="20260131T120000Z-a1b2c3",
        started=WHEN,
        finished=UNTIL,
        checks=(*IDLE, "all_reduce"),
        hosts=tuple(plans),
        inventory="cluster.yml",
        payload_sha256="0f" * 32,
    )
    return assess(Run(Path("runs") / meta.id, meta, tuple(records)), shipped())


def page() -> str:
    """Return the page of the documentation."""
    faults = "\n".join(f"- {host}: {says['doc']}" for host, says in hosts().items())
    return f"{INTRODUCTION}\n{faults}\n\n---\n\n{markdown(assessment())}"


if __name__ == "__main__":
    sys.stdout.write(page())
