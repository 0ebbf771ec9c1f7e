"""What the figures of a run over several hosts say of its network. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from hwcheck.explain.command_line import CommandLine
from hwcheck.explain.records import BenchmarkRun
from hwcheck.node.collective.nccl_info import NcclInfo
from hwcheck.text import binary_size, number

PORT_RATES_GBITPS = (10, 25, 40, 50, 100, 200, 400, 800)
"""Rates of network ports (InfiniBand EDR to XDR, and Ethernet), in 1e9 bit/s."""

LEAST_RATE_GBITPS = 100
"""Hosts with GPUs of ``_DATA_CENTER`` have ports of this rate or more (the vendor's and the clouds'
own systems)."""

ALMOST = 0.8
"""From this share of a port's rate on a figure is what one port carries, less its headers."""

LARGE_BYTES = 64 << 20
ONE_NAMED_PORT_GBITPS = 400

_DATA_CENTER = re.compile(
    r"\b(?:GH200|GB[23]00|B[23]00|H[12]00|H20|H800|A100|A800|MI[23]\d\d[AX]?)"
)


def notes(
    runs: Sequence[BenchmarkRun], info: NcclInfo, commands: Sequence[CommandLine]
) -> Iterator[str]:
    """Yield what to make of the busbw between hosts; nothing of a run on one host."""
    for run in runs:
        if run.state not in ("done", "unchecked") or not run.peak_busbw_gbps:
            continue
        hosts = Counter(device.host for device in run.table.devices.values())
        if len(hosts) > 1 and (run.peak_bytes or 0) >= LARGE_BYTES:
            yield from _between_hosts(run, hosts, info)
        yield from _named_ports(run, commands)


def _between_hosts(run: BenchmarkRun, hosts: Counter[str], info: NcclInfo) -> Iterator[str]:
    busbw = run.peak_busbw_gbps or 0.0
    figure = f"{number(busbw)} GB/s between {len(hosts)} hosts"
    names = {device.name for device in run.table.devices.values()}
    slow = busbw < ALMOST * LEAST_RATE_GBITPS / 8
    if slow and all(map(_DATA_CENTER.search, names)) and "NET/Socket" not in info.transports:
        yield (
            f"{figure} is less than one port of {LEAST_RATE_GBITPS} Gb/s carries, and hosts with "
            "such GPUs have faster ones: most likely the wrong network transport (TCP, NET/Socket)"
            "; see what NCCL names at NCCL_DEBUG=INFO, and give it the plugin of the fabric "
            "(libfabric, UCX; NCCL_NET)"
        )
        return
    one_each = max(hosts.values()) == 1 and len(run.table.devices) == run.ranks
    rate = _rate_of(busbw)
    if one_each and rate:
        yield (
            f"{figure} with one rank each is {busbw / (rate / 8):.0%} of what one port of {rate} "
            f"Gb/s carries ({number(rate / 8)} GB/s): about one port in use"
        )


def _rate_of(busbw_gbps: float) -> int:
    """Return the rate of the port that this figure nearly fills, or 0."""
    fits = (rate for rate in PORT_RATES_GBITPS if ALMOST * rate / 8 <= busbw_gbps <= rate / 8)
    return next(fits, 0)


def _named_ports(run: BenchmarkRun, commands: Sequence[CommandLine]) -> Iterator[str]:
    """Say where one port would carry what a run gave that was told to use several."""
    named = commands[0].env.get("NCCL_IB_HCA", "") if len(commands) == 1 else ""
    ports = [port for port in named.lstrip("=").split(",") if port]
    one_gbps = ONE_NAMED_PORT_GBITPS / 8
    busbw = run.peak_busbw_gbps or 0.0
    if named.startswith("^") or len(ports) < 2 or busbw > one_gbps:
        return
    yield (
        f"NCCL_IB_HCA names {len(ports)} ports, and {number(busbw)} GB/s at "
        f"{binary_size(run.peak_bytes or 0)} is no more than one of {ONE_NAMED_PORT_GBITPS} Gb/s "
        f"carries ({number(one_gbps)} GB/s): if they are such, one port is used"
    )
