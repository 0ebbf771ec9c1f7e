"""An example run to look at: ``python -m tests.render.example FOLDER`` renders it into a folder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from hwcheck.advise.actions import advise
from hwcheck.advise.assessment import Assessment
from hwcheck.advise.nccl_files import nccl_conf
from hwcheck.judge.judge import judge
from hwcheck.render.html import html
from hwcheck.render.junit import junit
from hwcheck.render.markdown import markdown
from hwcheck.render.terminal import terminal
from hwcheck.results.run_folder import HostRecord, Run
from tests import factories
from tests.factories import gpu_host, hung, leg


def judged(run: Run) -> Assessment:
    """Judge a run and add the advice."""
    judgement = judge(run)
    return Assessment(run, judgement, advise(run, judgement))


def example() -> Assessment:
    """Six hosts: two healthy, a low power cap, a dead one, a hanging leg, a missing GPU."""
    late = "no answer from 10.0.0.4:22 within 10 s"
    return judged(
        factories.run(
            gpu_host("node01"),
            gpu_host("node02", [leg(peak_gbps=437.0), leg("p2p_off", 38.9), leg("net", 8.8)]),
            gpu_host("node03", power_limit_w=(3, 400.0)),
            factories.record("node04", None, phase="connect", reason=late),
            gpu_host(
                "node05",
                [hung(), leg("p2p_off", 21.0), leg("net", 9.0)],
                gpu_name="NVIDIA GeForce RTX 4090",
                nvlink_links=0,
            ),
            gpu_host("node06", nvml_gpus=7),
        )
    )


def fleet(hosts: int) -> Assessment:
    """Hosts in racks of eight; one of 32 is capped, one hangs, is away, lacks a GPU."""
    late = "no answer from 10.0.0.{}:22 within 10 s"
    bad: dict[int, Callable[[str, int], HostRecord]] = {
        3: lambda name, at: gpu_host(name, power_limit_w=(at % 8, 400.0)),
        11: lambda name, at: gpu_host(name, [hung(), leg("p2p_off", 21.0), leg("net", 9.0)]),
        17: lambda name, at: factories.record(
            name, None, phase="connect", reason=late.format(at % 250)
        ),
        23: lambda name, at: gpu_host(name, nvml_gpus=7),
    }
    run = factories.run(
        *(
            bad.get(at % 32, lambda name, at: gpu_host(name))(f"node{at:04}", at)
            for at in range(1, hosts + 1)
        )
    )
    plans = tuple(replace(plan, rack=f"R{at // 8}") for at, plan in enumerate(run.meta.hosts))
    return judged(replace(run, meta=replace(run.meta, hosts=plans)))


def write(folder: Path, result: Assessment) -> None:
    """Render a run in every format."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.html").write_text(html(result), "utf-8")
    (folder / "report.md").write_text(markdown(result), "utf-8")
    (folder / "junit.xml").write_text(junit(result), "utf-8")
    (folder / "nccl.conf").write_text(nccl_conf(result.advice.nccl), "ascii")


if __name__ == "__main__":
    shown = example()
    write(Path(sys.argv[1]), shown)
    Console().print(terminal(shown), crop=False)
