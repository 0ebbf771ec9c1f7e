"""Builders of records for tests. The figures are our own; no host was measured for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hwcheck.checks.shared.leg_checks import leg_samples
from hwcheck.contract.busbw import busbw_factor
from hwcheck.contract.reasons import NOT_MEASURED, Reason
from hwcheck.contract.wire import CheckResult, Leg, Report, Sample, SizeTiming
from hwcheck.judge.legs import planned_env
from hwcheck.judge.records import Finding, Judgement
from hwcheck.results.run_folder import HostPlan, HostRecord, Run, RunFolder, RunMeta

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


def _with_reason(changes: dict[str, Any]) -> dict[str, Any]:
    """Return changes with a reason that is given as a text as one of no code that decides."""
    text = changes.get("reason")
    return changes | {"reason": Reason(NOT_MEASURED, text)} if isinstance(text, str) else changes


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
        env=planned_env(name) or {},
        sizes=sizes(peak_gbps, ranks=ranks, spread=spread, largest=largest),
        duration_s=4.2,
    )
    return replace(made, **_with_reason(changes))


def slow_in_small(of: Leg, times: float) -> Leg:
    """A leg whose small messages take so many times as long."""
    timings = (
        replace(
            size,
            time_us=size.time_us * times,
            algbw_gbps=size.algbw_gbps / times,
            busbw_gbps=size.busbw_gbps / times,
        )
        if size.size_bytes < 16 * MIB
        else size
        for size in of.sizes
    )
    return replace(of, sizes=tuple(timings))


def hung(name: str = "default", **changes: Any) -> Leg:
    """A leg that hung in its first size."""
    tail = "rank 0: 1 MiB warm-up\nrank 1: 1 MiB warm-up\nno sign of life for 20 s, killed"
    known = {"state": "hang", "sizes": (), "reason": "no progress for 20 s", "log_tail": tail}
    return leg(name, **(known | changes))


def wrong(name: str = "default", elements: int = 7, **changes: Any) -> Leg:
    """A leg that ran to its end with wrong data in its largest size."""
    made = leg(name, **changes)
    last = replace(made.sizes[-1], wrong=elements)
    return replace(made, sizes=(*made.sizes[:-1], last))


def as_alltoall(of: Leg) -> Leg:
    """Make a leg of all_reduce one of alltoall with the same busbw."""
    factor = busbw_factor("alltoall", of.ranks)
    sizes = []
    for size in of.sizes:
        algbw = size.busbw_gbps / factor
        time_us = size.size_bytes / algbw / 1e3
        sizes.append(replace(size, algbw_gbps=algbw, time_us=time_us))
    return replace(of, collective="alltoall", sizes=tuple(sizes))


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
    return [{"index": i, "name": name, "nvlink_links": nvlink_links} for i in range(count)]


def gpu_samples(check: str, gpus: int = 8, **values: Any) -> tuple[Sample, ...]:
    """Samples of one of the GPU checks on a healthy node; ``values`` replace a metric's value.

    ``power_limit_w=(3, 400.0)`` replaces it on gpu3 only.
    """
    cap = _pick(values, "power_limit_w", 700.0)
    per_gpu: dict[str, Callable[[int], list[tuple[str, Any, str]]]] = {
        "power_cap": lambda i: [
            ("power_limit_w", cap(i), "W"),
            ("power_limit_default_w", 700.0, "W"),
            ("power_limit_percent", round(cap(i) / 7.0, 1), "%"),
        ],
        "temperature_idle": lambda i: [
            ("temperature_c", _pick(values, "temperature_c", 31 + i % 4)(i), "C"),
            ("temperature_slowdown_c", 89, "C"),
        ],
        "pcie_link": lambda i: [
            ("pcie_link_width", _pick(values, "pcie_link_width", 16)(i), "lanes"),
            ("pcie_link_width_max", 16, "lanes"),
            ("pcie_link_generation", 5, ""),
            ("pcie_link_generation_max", 5, ""),
        ],
        "persistence_mode": lambda i: [
            ("persistence_mode", _pick(values, "persistence_mode", True)(i), "")
        ],
    }
    if check in per_gpu:
        return tuple(
            Sample(metric, value, unit, f"gpu{index}")
            for index in range(gpus)
            for metric, value, unit in per_gpu[check](index)
        )
    return _node_samples(check, gpus, values.get("nvml_gpus", gpus))


def _pick(values: Mapping[str, Any], name: str, healthy: Any) -> Callable[[int], Any]:
    value = values.get(name, healthy)
    if isinstance(value, tuple):
        return lambda index: value[1] if index == value[0] else healthy
    return lambda index: value


def _node_samples(check: str, gpus: int, seen: int) -> tuple[Sample, ...]:
    if check == "gpu_count":
        counts = (Sample("pci_gpus", gpus, "GPUs"), Sample("nvml_gpus", seen, "GPUs"))
        addresses = [f"0000:{0x18 + 8 * i:02x}:00.0" for i in range(gpus)]
        return counts + tuple(
            Sample("seen_by_nvml", i < seen, subject=f"pci {address}")
            for i, address in enumerate(addresses)
        )
    version = "570.86.15"
    return (
        Sample("driver_loaded", True),
        Sample("nvml_status", "ok"),
        Sample("driver_version", version),
        Sample("nvml_driver_version", version),
    )


def reduce_result(legs: Sequence[Leg]) -> CheckResult:
    """The all_reduce check's answer for these legs, with the samples that it derives from them."""
    samples = tuple(sample for leg in legs for sample in leg_samples(leg))
    return CheckResult("all_reduce", "done", samples=samples, legs=tuple(legs), duration_s=21.0)


def results(legs: Sequence[Leg], gpus: int = 8, **values: Any) -> tuple[CheckResult, ...]:
    """What a GPU host answers, healthy but for ``values`` (see ``gpu_samples``)."""
    others = (
        CheckResult(check, "done", samples=gpu_samples(check, gpus, **values), duration_s=0.2)
        for check in CHECKS[1:]
    )
    return (reduce_result(legs), *others)


def cpu_results() -> tuple[CheckResult, ...]:
    """What a host without a GPU answers."""
    why = "no NVIDIA device on the PCI bus and none expected"
    others = (
        CheckResult(check, "not_applicable", Reason("not_applicable", why)) for check in CHECKS[1:]
    )
    return (reduce_result(gloo_legs()), *others)


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
        own = [{"uuid": f"GPU-{host}-{index}", **gpu} for index, gpu in enumerate(gpus)]
        facts = {"hostname": host, "kernel": "6.8.0-generic", "gpus": own}
        report = Report(facts, tuple(answers), 40.0)
    state = "reported" if answers is not None else "unreachable"
    made = HostRecord(host, state, started="2026-01-31T12:00:00Z", duration_s=41.5, report=report)
    return replace(made, **_with_reason(changes))


def gpu_host(
    host: str,
    legs: Sequence[Leg] | None = None,
    *,
    gpu_name: str = "NVIDIA H100 80GB HBM3",
    nvlink_links: Any = 18,
    **values: Any,
) -> HostRecord:
    """A healthy host with 8 GPUs."""
    legs = (leg(), leg("p2p_off", 40.0), leg("net", 9.0)) if legs is None else legs
    gpus = gpu_facts(values.get("nvml_gpus", 8), gpu_name, nvlink_links)
    return record(host, results(legs, **values), gpus=gpus)


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


def saved(out: Path, *records: HostRecord, **changes: Any) -> Path:
    """Write a finished run of these records under ``out`` and return its folder."""
    folder = RunFolder.create(out, run(*records, **changes).meta)
    for item in records:
        folder.write_host(item)
    folder.finish(interrupted=False)
    return folder.path


def judgement(*findings: tuple[str, str, str, str]) -> Judgement:
    """Return one of findings by host, check, outcome and subject."""
    made = tuple(
        Finding(host, check, outcome, "m", subject) for host, check, outcome, subject in findings
    )
    return Judgement("fail", 1, (), made)


def hosts(count: int) -> Run:
    """Return a run of healthy GPU hosts."""
    return run(*(gpu_host(f"n{index:02}") for index in range(count)))
