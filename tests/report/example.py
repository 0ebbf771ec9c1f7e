"""An example run to look at: ``python -m tests.report.example FOLDER`` renders it into a folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from hwcheck.advise.actions import advise
from hwcheck.advise.assessment import Assessment
from hwcheck.advise.catalogue import shipped
from hwcheck.advise.nccl_files import nccl_conf
from hwcheck.judge.judge import judge
from hwcheck.report.html import html
from hwcheck.report.junit import junit
from hwcheck.report.markdown import markdown
from hwcheck.report.terminal import terminal
from hwcheck.results.run_folder import HostRecord, Run
from hwcheck.testing.cases import answer_of
from tests import factories
from tests.factories import gpu_host, hung, leg


def judged(run: Run) -> Assessment:
    """Judge a run and add the advice."""
    judgement = judge(run, shipped())
    return Assessment(run, judgement, advise(run, judgement, shipped()), shipped())


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
    return judged(in_racks(run))


TROUBLES: tuple[Mapping[str, Mapping[str, Any]], ...] = (
    {"ecc_errors": {"ecc_uncorrected_volatile": {"gpu1": 1}}},
    {"row_remap": {"row_remap_pending": {"gpu2": True}}},
    {"retired_pages": {"retired_pages": {"gpu3": 64}}},
    {"xid": {"reset_events": {"pci 0000:20:00.0 xid 79": 1}}},
)
"""What some nodes of ``troubled_fleet`` say, each of them with a cause."""


def troubled_fleet(hosts: int) -> Assessment:
    """Hosts in racks of eight, none of which can pass: one in nine is away or has a cause."""
    late = "no answer from 10.0.0.{}:22 within 10 s"
    ways: tuple[Callable[[str], HostRecord], ...] = (
        lambda name: gpu_host(name, power_limit_w=(3, 400.0)),
        lambda name: gpu_host(name, [hung(), leg("p2p_off", 21.0), leg("net", 9.0)]),
        lambda name: gpu_host(name, nvml_gpus=7),
        lambda name: factories.record(
            name, None, phase="connect", reason=late.format(int(name[4:]) % 250)
        ),
        *(partial(_saying, said) for said in TROUBLES),
    )
    records = [
        (ways[at // 9 % len(ways)] if at % 9 == 0 else gpu_host)(f"node{at:04}")
        for at in range(1, hosts + 1)
    ]
    asked = (*factories.CHECKS, *(name for said in TROUBLES for name in said))
    return judged(in_racks(factories.run(*records, checks=asked)))


def _saying(said: Mapping[str, Mapping[str, Any]], name: str) -> HostRecord:
    made = gpu_host(name)
    assert made.report is not None
    answers = tuple(answer_of(*each, shipped().checks) for each in said.items())
    return replace(made, report=replace(made.report, results=(*made.report.results, *answers)))


def in_racks(run: Run) -> Run:
    """Return a run whose hosts are in racks of eight."""
    plans = tuple(replace(plan, rack=f"R{at // 8}") for at, plan in enumerate(run.meta.hosts))
    return replace(run, meta=replace(run.meta, hosts=plans))


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
