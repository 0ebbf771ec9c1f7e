"""What a large run costs to judge and to render, from the run folder to its reports.

    python benchmarks/scale.py [--hosts 1000] [--bad 0.03] [--keep FOLDER] [--profile]

Writes a run of so many hosts with 8 GPUs each: what the payload says of the lab's simulated H100
node, figures of a load and NCCL legs, scattered as healthy hosts scatter, and a share of hosts with
a fault. Then ``fab report`` is run on it in a process of its own, and each stage by itself. Needs
gcc (the stand-in NVML library). See README.md beside this file for the results.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from hwcheck import checks
from hwcheck.advise.actions import advise
from hwcheck.advise.assessment import Assessment
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.wire import CheckResult, Report, Request, Sample
from hwcheck.judge.judge import judge
from hwcheck.report.html import html
from hwcheck.report.junit import junit
from hwcheck.report.markdown import markdown
from hwcheck.results.run_folder import HostPlan, HostRecord, RunFolder, RunMeta, read_run
from tests.factories import leg, reduce_result
from tests.lab.answers import answers
from tests.lab.scenario import load

SCENARIO, FAULTS = "h100x8", ("power_capped", "link_down", "narrow_link", "hot_at_idle", "xid_79")
GPUS = 8
TOKEN = "benchmark"
TIME_LIMIT_S = 60
SCATTER = 0.015

OF_PEERS = {"percent_of_peers": 100}
LOAD: dict[str, dict[str, float | bool]] = {
    "clocks_under_load": {
        "sm_clock_mhz": 1755,
        "uncapped_sm_clock_mhz": 1755,
        "application_sm_clock_mhz": 1980,
        "memory_clock_mhz": 2619,
        "memory_clock_percent": 100,
        "sm_clock_percent_of_peers": 100,
    },
    "cool_down": {"temperature_rise_c": 30, "temperature_drop_c": 20, "cool_down_s": 20},
    "device_to_host": {"from_device_gbps": 54.0, "pcie_gbps": 63.0, **OF_PEERS},
    "errors_under_load": {
        "new_uncorrected_errors": 0,
        "new_corrected_errors": 0,
        "new_pcie_replays": 0,
    },
    "hbm_bandwidth": {"copy_gbps": 2960.0, "copy_percent_of_peers": 100},
    "host_to_device": {"to_device_gbps": 55.0, "pcie_gbps": 63.0, **OF_PEERS},
    "pcie_link_under_load": {
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
    },
    "power_under_load": {
        "power_w": 690.0,
        "power_limit_w": 700.0,
        "power_percent": 98,
        "power_percent_of_peers": 100,
        "power_delivery_percent": 0,
    },
    "sustained_tflops": {
        "bf16_tflops": 790.0,
        "tflops": 790.0,
        "tflops_low": 780.0,
        "tflops_percent_of_peers": 100,
    },
    "temperature_under_load": {
        "temperature_c": 64,
        "temperature_slowdown_c": 89,
        "slowdown_margin_c": 25,
        "memory_temperature_c": 78,
        "memory_margin_c": 17,
        "ended_for_safety": False,
    },
    "thermal_slope": {"thermal_slope": 1.4, "slope_over_peers": 1.0},
    "thermal_spread": {"temperature_c": 64, "temperature_over_peers_c": 1},
    "throttle_under_load": {
        "hw_thermal_slowdown_percent": 0,
        "hw_power_brake_percent": 0,
        "hw_slowdown_percent": 0,
        "sw_thermal_slowdown_percent": 0,
        "sw_power_cap_percent": 80,
    },
}
"""What a healthy H100 shows under load, by check and metric."""

LEGS = {"default": 480.0, "p2p_off": 40.0, "net": 9.0}
SCATTERED = ("GB/s", "TFLOP/s", "MHz", "W")


def node_reports() -> dict[str, Report]:
    """Return what the payload says of the simulated node, by its fault; the healthy one is ''."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="hwscale-") as folder:
        for fault in ("", *FAULTS):
            scenario = load(SCENARIO, fault or None)
            environment, variables = scenario.install(Path(folder) / (fault or "healthy"))
            root = str(variables["hwcheck_host_root"])
            request = Request(TOKEN, idle_checks(), host_root=root, expect={"gpus": GPUS})
            found[fault], _ = answers(request, environment, timeout_s=TIME_LIMIT_S)
    return found


def idle_checks() -> tuple[str, ...]:
    """Return the checks that need no load."""
    return tuple(
        name for name, check in checks.load().items() if not (check.load or check.after_load)
    )


def host_report(host: str, base: Report, dice: random.Random) -> Report:
    """Return one host's report: GPUs of its own, figures that scatter."""
    gpus = base.facts["gpus"]
    facts = dict(base.facts, hostname=host)
    facts["gpus"] = [{**gpu, "uuid": f"GPU-{host}-{n}"} for n, gpu in enumerate(gpus)]
    results = [
        replace(result, samples=tuple(_scattered(sample, dice) for sample in result.samples))
        for result in base.results
        if result.check != "serials"
    ]
    results += [
        CheckResult(check, "done", samples=tuple(_load_samples(check, len(gpus), dice)))
        for check in LOAD
    ]
    results.append(
        reduce_result(
            [
                leg(name, gbps * dice.gauss(1, SCATTER), ranks=len(gpus))
                for name, gbps in LEGS.items()
            ]
        )
    )
    return Report(facts, tuple(results), 60.0)


def _scattered(sample: Sample, dice: random.Random) -> Sample:
    if isinstance(sample.value, float) and sample.unit == "W" and sample.metric == "power_w":
        return replace(sample, value=round(sample.value * dice.gauss(1, SCATTER), 2))
    return sample


def _load_samples(check: str, gpus: int, dice: random.Random) -> Iterator[Sample]:
    declared = checks.load()[check]
    for gpu in range(gpus):
        for name, value in LOAD[check].items():
            metric = declared.metric(name)
            assert metric is not None
            if isinstance(value, float) and metric.unit in SCATTERED:
                value = round(value * dice.gauss(1, SCATTER), 2)
            yield Sample(name, value, metric.unit, f"gpu{gpu}")


def write_run(out: Path, hosts: int, bad: float) -> Path:
    """Write a run of so many hosts, of which a share has a fault; return its folder."""
    reports, dice = node_reports(), random.Random(hosts)
    names = [f"node{number:05d}" for number in range(1, hosts + 1)]
    asked = (*idle_checks(), *LOAD, "all_reduce")
    plans = tuple(HostPlan(name, "10.0.0.1", {"gpus": GPUS}) for name in names)
    asked = tuple(name for name in asked if name != "serials")
    folder = RunFolder.create(out, RunMeta("", "", asked, plans, inventory="scale.yml"))
    for name in names:
        fault = dice.choice(FAULTS) if dice.random() < bad else ""
        report = host_report(name, reports[fault], dice)
        folder.write_host(HostRecord(name, "reported", duration_s=60.0, report=report))
    folder.finish(interrupted=False)
    return folder.path


def measure(path: Path) -> None:
    """Print what ``fab report`` takes on a run folder, as a process of its own."""
    code = "import sys; from pathlib import Path; from hwcheck.cli.outcome import show; "
    code += "show(Path(sys.argv[1]), None, as_json=False)"
    started = time.monotonic()
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    wall_s = time.monotonic() - started
    assert os.waitstatus_to_exitcode(status) == 0
    page = (path / "report.html").stat().st_size / 1e6
    print(
        f"report: {wall_s:.1f} s wall, {used.ru_utime + used.ru_stime:.1f} s CPU, "
        f"{used.ru_maxrss / 1024:.0f} MiB at most, report.html {page:.1f} MB"
    )


def stages(path: Path) -> None:
    """Print the CPU time of each stage, in this process."""
    timed: list[tuple[str, float]] = []

    def lap(name: str, started: float) -> float:
        now = time.process_time()
        timed.append((name, now - started))
        return now

    clock = time.process_time()
    run = read_run(path)
    clock = lap("read", clock)
    judgement = judge(run, shipped())
    clock = lap("judge", clock)
    advice = advise(run, judgement, shipped())
    clock = lap("diagnose and advise", clock)
    assessment = Assessment(run, judgement, advice, shipped())
    for name, render in (("html", html), ("markdown", markdown), ("junit", junit)):
        render(assessment)
        clock = lap(name, clock)
    shown = ", ".join(f"{name} {seconds:.1f}" for name, seconds in timed)
    amounts = {word: sum(h.outcome == word for h in judgement.hosts) for word in ("pass", "fail")}
    print(f"CPU s: {shown}; {len(judgement.findings)} findings, hosts {amounts}")


def main() -> None:
    """Write, measure, clean up."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--bad", type=float, default=0.03, help="share of hosts with a fault")
    parser.add_argument("--keep", type=Path, help="leave the run folder there")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hwscale-") as folder:
        path = write_run(options.keep or Path(folder), options.hosts, options.bad)
        print(f"{options.hosts} hosts x {GPUS} GPUs: {path}")
        measure(path)
        if not options.profile:
            stages(path)
            return
        with cProfile.Profile() as profile:
            stages(path)
        pstats.Stats(profile).sort_stats("tottime").print_stats(35)


if __name__ == "__main__":
    main()
