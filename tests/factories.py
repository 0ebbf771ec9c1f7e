"""Builders of records for tests. The figures are our own; no host was measured for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hwcheck.judge.records import OUTCOMES, Finding, HostVerdict, Judgement
from hwcheck.results import HostPlan, HostRecord, Run, RunMeta
from hwcheck.wire import CheckResult, Leg, Report, Sample, SizeTiming

MIB = 1024 * 1024
CHECKS = (
    "all_reduce",
    "driver",
    "gpu_count",
    "pcie_link",
    "persistence_mode",
    "power_cap",
    "temperature_idle",
)
HOSTILE = (
    "<script>alert(1)</script>",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J",
    "]]> & </testcase> <!-- ",
    "a | b ` c ``` [x](javascript:alert(1)) **bold** _it_ ![i](http://example.invalid/x.png)",
    "[bold red]markup[/bold red] [/] [link=http://example.invalid]",
    "nul \x00 bell \x07 del \x7f csi \x9b lone \ud800 bidi \u202e end",
    "one\ntwo\r\nthree\u2028four",
    "x" * 10_000,
    "{{ 7 * 7 }} {% raw %} ${HOME} $(id) `id` %s %(a)s $x^2$",
    "NCCL_ALGO=Ring\nNCCL_PROTO=LL128",
)


def sizes(
    peak_gbps: float, *, ranks: int = 8, largest: int = 1024 * MIB, spread: float = 0.02
) -> tuple[SizeTiming, ...]:
    """Timings of an all_reduce from 1 MiB up to ``largest`` that nears ``peak_gbps`` (busbw)."""
    made, size = [], MIB
    factor = 2 * (ranks - 1) / ranks
    while size <= largest:
        busbw = peak_gbps * size / (size + 8 * MIB)
        algbw = busbw / factor if factor else peak_gbps
        time_us = size / algbw / 1e3
        shown = busbw if factor else 0.0
        made.append(SizeTiming(size, 20, time_us, time_us * 1.1, spread, algbw, shown, 0))
        size *= 2
    return tuple(made)


def leg(name: str = "default", peak_gbps: float = 450.0, **changes: Any) -> Leg:
    """One clean NCCL leg of all_reduce; ``changes`` replace any field."""
    ranks = changes.get("ranks", 8)
    spread = changes.pop("spread", 0.02)
    largest = changes.pop("largest", 1024 * MIB)
    made = Leg(
        collective="all_reduce",
        leg=name,
        backend="nccl",
        ranks=ranks,
        state="done",
        library="NCCL 2.27.5",
        env={"p2p_off": {"NCCL_P2P_DISABLE": "1"}}.get(name, {}),
        sizes=sizes(peak_gbps, ranks=ranks, spread=spread, largest=largest),
        duration_s=4.2,
    )
    return replace(made, **changes)


def hung(name: str = "default", **changes: Any) -> Leg:
    """A leg that hung in its first size."""
    tail = "rank 0: 1 MiB warm-up\nrank 1: 1 MiB warm-up\nno sign of life for 20 s, killed"
    reason = "no progress for 20 s"
    return leg(name, state="hang", sizes=(), reason=reason, log_tail=tail, **changes)


def wrong(name: str = "default", elements: int = 7, **changes: Any) -> Leg:
    """A leg that ran to its end with wrong data in its largest size."""
    made = leg(name, **changes)
    last = replace(made.sizes[-1], wrong=elements)
    return replace(made, sizes=(*made.sizes[:-1], last))


def gloo_legs(ranks: int = 4) -> tuple[Leg, ...]:
    """The three legs as a machine without a GPU runs them."""
    return tuple(
        leg(name, 1.8, ranks=ranks, backend="gloo", exercise=True, library="gloo", largest=64 * MIB)
        for name in ("default", "p2p_off", "net")
    )


def gpu_facts(
    count: int = 8, name: str = "NVIDIA H100 80GB HBM3", nvlink_links: Any = 18
) -> list[dict[str, Any]]:
    """``report.facts["gpus"]``."""
    return [
        {"index": i, "name": name, "uuid": f"GPU-{i:08d}", "nvlink_links": nvlink_links}
        for i in range(count)
    ]


def gpu_samples(check: str, gpus: int, **values: float) -> tuple[Sample, ...]:
    """Samples of one of the GPU checks for ``gpus`` healthy GPUs."""
    per_gpu: dict[str, list[tuple[str, Any, str]]] = {
        "power_cap": [
            ("power_limit_w", values.get("power_limit_w", 700.0), "W"),
            ("power_limit_default_w", 700.0, "W"),
        ],
        "temperature_idle": [("temperature_c", 0, "C"), ("temperature_slowdown_c", 89, "C")],
        "pcie_link": [("pcie_width", 16, "lanes"), ("pcie_width_max", 16, "lanes")],
        "persistence_mode": [("persistence_mode", True, "")],
    }
    made = []
    for index in range(gpus):
        for metric, value, unit in per_gpu.get(check, []):
            shown = 31 + index % 4 if metric == "temperature_c" else value
            made.append(Sample(metric, shown, unit, f"gpu{index}"))
    if check == "gpu_count":
        for metric in ("gpus_on_pci_bus", "gpus_in_nvml"):
            made.append(Sample(metric, values.get(metric, gpus)))
    if check == "driver":
        made.append(Sample("driver_version", "570.86.15"))
    return tuple(made)


def results(legs: Sequence[Leg], gpus: int = 8, **values: float) -> tuple[CheckResult, ...]:
    """What a healthy GPU host answers, with these legs."""
    made = [CheckResult("all_reduce", "done", legs=tuple(legs), duration_s=21.0)]
    for check in CHECKS[1:]:
        made.append(CheckResult(check, "done", samples=gpu_samples(check, gpus, **values)))
    return tuple(made)


def cpu_results() -> tuple[CheckResult, ...]:
    """What a host without a GPU answers."""
    why = "no NVIDIA device on the PCI bus and none expected"
    made = [CheckResult("all_reduce", "done", legs=gloo_legs(), duration_s=9.0)]
    return (*made, *(CheckResult(check, "not_applicable", why) for check in CHECKS[1:]))


def record(
    host: str,
    answers: Sequence[CheckResult] | None,
    *,
    gpus: Sequence[Mapping[str, Any]] = (),
    **changes: Any,
) -> HostRecord:
    """A host's record; ``answers`` None means that it was never reached."""
    report = None
    if answers is not None:
        facts = {"hostname": host, "kernel": "6.8.0-generic", "gpus": list(gpus)}
        report = Report(facts, tuple(answers), 40.0)
    state = "reported" if answers is not None else "unreachable"
    made = HostRecord(host, state, started="2026-01-31T12:00:00Z", duration_s=41.5, report=report)
    return replace(made, **changes)


def gpu_host(
    host: str, legs: Sequence[Leg] | None = None, *, nvlink_links: Any = 18, **values: float
) -> HostRecord:
    """A healthy host with 8 GPUs."""
    legs = (leg(), leg("p2p_off", 40.0), leg("net", 9.0)) if legs is None else legs
    return record(host, results(legs, **values), gpus=gpu_facts(nvlink_links=nvlink_links))


def run(*records: HostRecord, checks: Sequence[str] = CHECKS, **changes: Any) -> Run:
    """A finished run of these records."""
    plans = tuple(HostPlan(item.host, f"10.0.0.{n}") for n, item in enumerate(records, 1))
    meta = RunMeta(
        id="20260131T120000Z-a1b2c3",
        started="2026-01-31T12:00:00Z",
        finished="2026-01-31T12:01:10Z",
        checks=tuple(checks),
        hosts=plans,
        inventory="cluster.yml",
        payload_sha256="0f" * 32,
    )
    return Run(Path("runs") / meta.id, replace(meta, **changes), tuple(records))


def passing(item: HostRecord) -> list[Finding]:
    """Pass findings for the samples that a real run holds against a limit."""
    judged = {
        "power_limit_w": "fail unless >= 0.95 x power_limit_default_w (665)",
        "temperature_c": "warn unless <= 60",
        "gpus_in_nvml": "= gpus_on_pci_bus (8)",
        "pcie_width": "= pcie_width_max (16)",
    }
    found = []
    for result in item.report.results if item.report else ():
        for sample in result.samples:
            if sample.metric in judged:
                found.append(
                    Finding(
                        host=item.host,
                        check=result.check,
                        outcome="pass",
                        metric=sample.metric,
                        subject=sample.subject,
                        value=sample.value,
                        unit=sample.unit,
                        limit=judged[sample.metric],
                        source="the board's own default",
                        confidence="vendor",
                    )
                )
    return found


def judgement(a_run: Run, findings: Iterable[Finding] = ()) -> Judgement:
    """Judge by hand: passing findings for every sample, replaced by ``findings`` where given."""
    given = {(f.host, f.check, f.metric, f.subject): f for f in findings}
    for item in a_run.records:
        for found in passing(item):
            given.setdefault((found.host, found.check, found.metric, found.subject), found)
        if item.state != "reported":
            reason = f"{item.state}: {item.reason}"
            given[(item.host, "", "", "node")] = Finding(
                item.host, "", "inconclusive", reason=reason
            )
    verdicts = tuple(_verdict(item, a_run, list(given.values())) for item in a_run.records)
    outcome = min((v.outcome for v in verdicts), key=OUTCOMES.index)
    code = {"pass": 0, "warn": 0, "fail": 1, "inconclusive": 3}[outcome]
    return Judgement(outcome, code, verdicts, tuple(given.values()))


def _verdict(item: HostRecord, a_run: Run, findings: Sequence[Finding]) -> HostVerdict:
    own = [finding for finding in findings if finding.host == item.host]
    outcome = min((finding.outcome for finding in own), key=OUTCOMES.index, default="pass")
    states = {result.check: result for result in (item.report.results if item.report else ())}
    skipped = tuple(
        (name, states[name].reason if name in states else item.reason or "no answer")
        for name in a_run.meta.checks
        if name not in states or states[name].state != "done"
    )
    absent = sum(result.state == "not_applicable" for result in states.values())
    bad = [f.reason or f"{f.check}: {f.metric}" for f in own if f.outcome == outcome != "pass"]
    return HostVerdict(
        host=item.host,
        outcome=outcome,
        state=item.state,
        reason="; ".join(dict.fromkeys(bad)),
        asked=len(a_run.meta.checks) - absent,
        measured=sum(result.state == "done" for result in states.values()),
        not_applicable=absent,
        skipped=skipped,
    )
