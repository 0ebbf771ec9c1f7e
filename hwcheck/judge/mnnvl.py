"""Whether NCCL uses NVLink between hosts of one NVLink domain (MNNVL). Pure.

A run of such hosts was repeated without it. Both together show whether it was in use: NCCL names
the way in its log, and the network is a fraction as fast.
"""

from __future__ import annotations

from collections.abc import Iterator

from hwcheck.contract import reasons
from hwcheck.contract.reasons import Reason, remark
from hwcheck.judge.host_case import HostCase
from hwcheck.judge.legs import LEAST_BYTES
from hwcheck.judge.records import MULTI_HOST, Finding, unmeasured
from hwcheck.results.multi_host import MNNVL_OFF, MultiHostRecord, MultiHostRun
from hwcheck.text import number

METRIC = "mnnvl_busbw_gbps"
WAY = "P2P/MNNVL"
NOT_IN_USE = "MNNVL is not in use"

GAIN = 1.1
"""NVLink of a GB200 carries 900 GB/s each way for a GPU, its network 50 or 100."""

SOURCE = (
    "NVIDIA/nccl, src/transport/p2p.cc: connections are named P2P/MNNVL where it is in use; "
    "Cluster Readiness Engine, validation results: all_reduce over 4 GB200 trays at 16 GB, 882 "
    "GB/s with it and 191 without"
)


def judge_mnnvl(host: HostCase) -> Iterator[Finding]:
    """Yield whether NVLink was in use between this host and others of its domain."""
    record = host.multi_host
    off = next((run for run in record.runs if run.why == MNNVL_OFF), None) if record else None
    if record is None or off is None or host.name not in off.hosts or off.outcome.kind != "ok":
        return
    on = _run_with(record, off)
    if on is None:
        return
    if _has(off, WAY):
        text = "NCCL took NVLink between hosts under NCCL_MNNVL_ENABLE=0 too"
        yield unmeasured(host.name, MULTI_HOST, Reason(reasons.OTHER_WAY, text))
        return
    problem = _problem(on, off)
    yield Finding(
        host=host.name,
        check=MULTI_HOST,
        outcome="warn" if problem else "pass",
        metric=METRIC,
        subject="node",
        value=on.outcome.busbw_gbps,
        unit="GB/s",
        limit=f"warn unless NCCL names {WAY}, and > {GAIN:g} x what the network alone reaches "
        f"({number(off.outcome.busbw_gbps)})",
        source=SOURCE,
        confidence="derived",
        reason=remark(
            f"{NOT_IN_USE} between hosts of one NVLink domain: {problem}" if problem else ""
        ),
    )


def _run_with(record: MultiHostRecord, off: MultiHostRun) -> MultiHostRun | None:
    """Return the run that was repeated without MNNVL."""
    for run in record.runs:
        same = (run.hosts, run.collective, run.dtype) == (off.hosts, off.collective, off.dtype)
        if not same or run.why not in ("all", "pairs") or run.outcome.kind != "ok":
            continue
        if run.sizes[-1].size_bytes == off.sizes[-1].size_bytes:
            return run
    return None


def _problem(on: MultiHostRun, off: MultiHostRun) -> str:
    networks = sorted({kind for each in on.transport for kind in each.facts if kind[:4] == "NET/"})
    if networks and not _has(on, WAY):
        return f"NCCL used {' and '.join(networks)}"
    with_it, without = on.sizes[-1], off.sizes[-1]
    gain = max(GAIN, 1 + with_it.spread + without.spread)
    if with_it.size_bytes >= LEAST_BYTES and with_it.busbw_gbps <= gain * without.busbw_gbps:
        return f"{number(with_it.busbw_gbps)} GB/s, and {number(without.busbw_gbps)} without it"
    return ""


def _has(run: MultiHostRun, way: str) -> bool:
    return any(way in each.facts for each in run.transport)
