"""The network that NCCL took against the RDMA ports that the node has for it. Pure.

A node alone shows it in the leg ``net``, in which GPUs may reach each other over the network only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hwcheck.checks.infiniband_ports import (
    LINK_LAYER,
    LINKED_STATE,
    PORT_RATE_GBPS,
    infiniband_ports,
)
from hwcheck.checks.peermem import GPUDIRECT_RDMA, peermem
from hwcheck.checks.topology import NIC_PATH, topology
from hwcheck.contract.reasons import remark
from hwcheck.contract.wire import Leg, Value
from hwcheck.judge.host_case import HostCase, NodeFacts, samples_of, values_of
from hwcheck.judge.interconnect import NEAR, is_gpu
from hwcheck.judge.legs import is_clean
from hwcheck.judge.records import Finding
from hwcheck.node.collective.proof import TEXT
from hwcheck.results.run_folder import HostRecord
from hwcheck.results.transport import SOCKET
from hwcheck.text import line

NET = "net"
INFINIBAND = "InfiniBand"
LEAST_GBPS = 100.0
"""TCP carries what a slower port does; many boards have one of those for everything else."""

LEAST_PORTS = 4
"""Of fewer, half may well be there for storage."""

SOURCE = (
    "NCCL User Guide, Troubleshooting, Networking issues; 122.6 GB/s over RDMA and 5.4 over "
    "sockets (eth-cscs/cscs-docs); one port of four in use: NVIDIA/nccl issue 700"
)
SECOND_TRY_SOURCE = (
    "NCCL User Guide, NCCL_NET and NCCL_NET_PLUGIN: a plugin may be for traffic between nodes only"
)
ERRORS = re.compile(
    r"[^\n]{0,200}NET/IB[^\n]{0,60}(?:Got completion from peer [^\n]{1,200}|"
    r"Got async event ?: ?(?:port error|local catastrophic error|QP fatal error|"
    r"local work queue catastrophic error)[^\n]{0,60})"
)
"""What NCCL says of a transfer that did not end well or of a port that failed (NVIDIA/nccl,
src/transport/net_ib: ncclIbTest and ncclIbAsyncThreadMain; the words are those of libibverbs)."""
ERRORS_SOURCE = (
    "NVIDIA/nccl src/transport/net_ib: a completion is named only where its status is an error; "
    "status 12 is a transfer that was repeated until its retries ended (ibv_poll_cq(3))"
)
GPUDIRECT_SOURCE = (
    "NCCL User Guide, NCCL_NET_GDR_LEVEL: used by default where card and GPU are behind the same "
    "PCIe switches; GPU Direct RDMA, nvidia-peermem and dma-buf"
)
NAMED = re.compile(r"[A-Za-z0-9_]+:\d+(?=/)")
"""A port in what NCCL says of its network: ``IB mlx5_0:1/RoCE``."""


@dataclass(frozen=True)
class Port:
    """An active RDMA port by NCCL's name (``mlx5_0:1``); ``gpus`` reach it through switches."""

    name: str
    layer: str
    rate_gbps: float
    gpus: frozenset[str]


def judge_network(host: HostCase) -> Iterator[Finding]:
    """Yield what is to say of the leg ``net``; nothing where it says nothing about the node.

    An exercise, one GPU and a node without ports for it have no network that could be wrong.
    """
    for check, legs in host.legs:
        for leg in legs:
            if leg.backend == "nccl" and is_clean(leg):
                yield from _errors(host.name, check, leg)
            if leg.leg == NET and leg.first_failure and is_clean(leg):
                yield _second_try(host.name, check, leg)
            elif leg.leg == NET and _is_judged(leg, host.facts):
                active = active_ports(host.record)
                ports = compute_ports(active, host.facts)
                if ports:
                    yield from _findings(host.name, check, leg, ports, active)
                    yield from _gpudirect(host, check, leg, ports)


def _errors(host: str, check: str, leg: Leg) -> Iterator[Finding]:
    """Yield a warning where NCCL speaks of network errors in a leg that came to its end."""
    lines = [match.group() for match in ERRORS.finditer(leg.log_tail)]
    if lines:
        yield Finding(
            host=host,
            check=check,
            outcome="warn",
            metric="network_errors",
            subject=f"leg {leg.leg}",
            value=len(lines),
            unit="events",
            limit="warn above 0",
            source=ERRORS_SOURCE,
            confidence="derived",
            reason=remark(line(lines[-1].strip(), 200)),
        )


def _gpudirect(host: HostCase, check: str, leg: Leg, ports: Sequence[Port]) -> Iterator[Finding]:
    """Yield whether GPUDirect RDMA was used where the driver offers it and a port is near a GPU.

    Nothing where NCCL does not say, and over sockets.
    """
    if not {"gdrdma", "NET/IB"} <= leg.transport.keys() or not offers_gpudirect(host, ports):
        return
    used = bool(leg.transport["gdrdma"])
    yield Finding(
        host=host.name,
        check=check,
        outcome="pass" if used else "warn",
        metric="gpudirect_used",
        subject=f"leg {leg.leg}",
        value=used,
        limit="warn unless true where the driver offers it and ports are near GPUs",
        source=GPUDIRECT_SOURCE,
        confidence="derived",
        reason=remark(
            "" if used else "NCCL copies through host memory, though the driver offers it"
        ),
    )


def offers_gpudirect(host: HostCase, ports: Sequence[Port]) -> bool:
    """Whether the driver offers GPUDirect RDMA and one of these ports is near a GPU."""
    offered = values_of(host.record, peermem, GPUDIRECT_RDMA).get("node") is True
    return offered and any(port.gpus for port in ports)


def _second_try(host: str, check: str, leg: Leg) -> Finding:
    reason = f"over the network that NCCL chooses it failed: {line(leg.first_failure, 200)}"
    return Finding(
        host=host,
        check=check,
        outcome="warn",
        metric="network_transport",
        subject=f"leg {leg.leg}",
        value=line(", ".join(sorted(leg.transport)), 160) or SOCKET,
        limit="warn where it works over sockets alone",
        source=SECOND_TRY_SOURCE,
        confidence="derived",
        reason=remark(
            f"{reason}; over sockets it is well, so look at the plugin and not at the node"
        ),
    )


def _is_judged(leg: Leg, facts: NodeFacts) -> bool:
    return (
        leg.backend == "nccl"
        and not leg.exercise
        and leg.state == "done"
        and leg.ranks == len(facts.models) > 1
        and any(kind.startswith("NET/") for kind in leg.transport)
    )


def active_ports(record: HostRecord) -> list[Port]:
    """Return the active RDMA ports of a node."""
    values: dict[tuple[str, str], object] = {}
    for sample in samples_of(record, infiniband_ports):
        values[sample.metric, sample.subject] = sample.value
    names = [
        subject.removeprefix("port ")
        for (metric, subject), value in values.items()
        if metric == LINKED_STATE.name and value == "ACTIVE"
    ]
    near: dict[str, set[str]] = {}
    for sample in samples_of(record, topology) if names else ():
        if sample.metric == NIC_PATH.name and sample.value in NEAR:
            gpu, _, device = sample.subject.partition("-")
            if is_gpu(gpu):
                near.setdefault(device, set()).add(gpu)
    ports = []
    for name in names:
        device, _, number = name.partition("/")
        rate = values.get((PORT_RATE_GBPS.name, f"port {name}"))
        ports.append(
            Port(
                name=f"{device}:{number}",
                layer=str(values.get((LINK_LAYER.name, f"port {name}"), "")),
                rate_gbps=float(rate) if isinstance(rate, (int, float)) else 0.0,
                gpus=frozenset(near.get(device, ())),
            )
        )
    return ports


def compute_ports(active: Sequence[Port], facts: NodeFacts) -> list[Port]:
    """Return the active ports that a node has for collectives: the fastest of those near GPUs.

    Where the inventory declares RDMA ports, any may be one. Otherwise a port counts from 100 Gb/s
    on: near GPUs, or where none is, of InfiniBand. An Ethernet port far from the GPUs is everybody
    else's, and speaks RDMA because its driver does.
    """
    declared = bool(facts.expect.get("rdma_ports"))
    fast = [port for port in active if declared or port.rate_gbps >= LEAST_GBPS]
    chosen = (
        [port for port in fast if port.gpus]
        or [port for port in fast if port.layer == INFINIBAND]
        or (fast if declared else [])
    )
    best = max((port.rate_gbps for port in chosen), default=0.0)
    return [port for port in chosen if port.rate_gbps == best]


def _findings(
    host: str, check: str, leg: Leg, ports: Sequence[Port], active: Sequence[Port]
) -> Iterator[Finding]:
    kinds = sorted(kind for kind in leg.transport if kind.startswith("NET/"))
    wrong = kinds == [SOCKET]
    have = f"{len(ports)} active RDMA ports of {ports[0].rate_gbps:g} Gb/s"
    yield Finding(
        host=host,
        check=check,
        outcome="warn" if wrong else "pass",
        metric="network_transport",
        subject=f"leg {leg.leg}",
        value=line(", ".join(kinds), 160),
        limit=f"warn where it is {SOCKET} alone beside {have}",
        source=SOURCE,
        confidence="derived",
        reason=remark(f"TCP, although there are {have}" if wrong else ""),
    )
    named = named_ports(leg)
    if wrong or not named & {port.name for port in active}:
        return
    used = [port for port in ports if port.name in named]
    lost = _without(ports, named)
    few = len(ports) >= LEAST_PORTS and 2 * len(used) < len(ports)
    reason = f"NCCL uses {', '.join(sorted(named)[:8])}" if lost or few else ""
    if lost:
        reason += f"; the ports near {', '.join(lost)} are idle"
    yield Finding(
        host=host,
        check=check,
        outcome="warn" if lost or few else "pass",
        metric="network_ports",
        subject=f"leg {leg.leg}",
        value=len(used),
        unit="ports",
        limit=f"warn where a GPU has none of its own or fewer than half are used; {have}",
        source=SOURCE,
        confidence="derived",
        reason=remark(reason),
    )


def named_ports(leg: Leg) -> set[str]:
    """Return the ports that NCCL names as its network; none where their list was cut."""
    return ports_named_in(leg.transport)


def ports_named_in(facts: Mapping[str, Value]) -> set[str]:
    """Return the ports in what NCCL says of a leg's way; none where their list was cut."""
    network = str(facts.get("network", ""))
    return set(NAMED.findall(network)) if len(network) < TEXT else set()


def _without(ports: Sequence[Port], named: set[str]) -> list[str]:
    """Return the GPUs that have ports near them of which NCCL names none."""
    served = {gpu for port in ports if port.name in named for gpu in port.gpus}
    lost = {gpu for port in ports for gpu in port.gpus} - served
    return sorted(lost, key=lambda gpu: int(gpu[3:]))
