"""The bandwidth between hosts against what their network carries, so that all may be slow. Pure.

A run over several hosts is slow against others (``run``); where all hosts are equally slow only the
rates of the ports, or of the network interface, tell. It knows no fabric, so it only ever warns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hwcheck.checks.pcie_link import PCIE_LINK_GENERATION_MAX, PCIE_LINK_WIDTH_MAX, pcie_link
from hwcheck.checks.shared.leg_checks import BUSBW_GBPS
from hwcheck.checks.topology import PCI_ADDRESS, topology
from hwcheck.contract.reasons import remark
from hwcheck.contract.wire import Value
from hwcheck.judge.host_case import HostCase, values_of
from hwcheck.judge.interconnect import links_of
from hwcheck.judge.legs import LEAST_BYTES
from hwcheck.judge.network import NAMED, active_ports
from hwcheck.judge.prediction import COLLECTIVES, Prediction, pcie_gbps, predict
from hwcheck.judge.records import MULTI_HOST, Finding
from hwcheck.node.collective.proof import TEXT
from hwcheck.results.multi_host import MultiHostRun
from hwcheck.results.transport import SOCKET
from hwcheck.text import number

SCOPES = ("pairs", "all")
RDMA = "NET/IB"

RDMA_SHARE = 0.65
"""Published figures of healthy fabrics reach 0.82 of their ports at least (8 ports of 400 Gb/s: 328
to 487 GB/s, 4 of 200: 86 to 122); half of the rate is 0.5 at most."""

SOCKET_SHARE = 0.6
SOCKET_GBPS = 3.125
"""25 Gb/s: of a faster interface TCP takes what CPUs let it (published: 2.0 to 5.4 GB/s)."""

STAGED_SHARE = 0.5
"""Without GPUDirect RDMA data is copied through host memory first."""

HALF_MIB_PER_GBPS = 0.3
"""Between two hosts half of the peak is reached at so many MiB for each GB/s of it; over more hosts
at as much more. GH200 reaches 22.9 of 25 GB/s at 128 MiB."""

RDMA_SOURCE = (
    "rates of the RDMA ports that NCCL names (Linux kernel, sysfs-class-infiniband, rate): a ring "
    "over hosts is as fast as the ports of one; published: 471 GB/s of 8 x 400 Gb/s (OCI), 188.5 "
    "of 8 x 200 (NVIDIA/deepops), 328.9 (GCP A3 Ultra, all_gather), 86 of 4 x 200 "
    "(NVIDIA/nccl-tests issue 175)"
)
SOCKET_SOURCE = (
    "rate of the network interface (Linux kernel, Documentation/ABI/testing/sysfs-class-net, "
    "speed), 25 Gb/s at most; published over TCP: 2.0 GB/s (aws-do-eks), 5.4 (eth-cscs/cscs-docs)"
)


@dataclass(frozen=True)
class Carried:
    """What a host's network carries each way in GB/s, and in words; ``share`` is what is usual."""

    gbps: float
    way: str
    share: float
    source: str

    def at(self, size_bytes: int, hosts: int) -> float:
        """Return what is expected of a message of this size over so many hosts."""
        half_bytes = HALF_MIB_PER_GBPS * self.gbps * max(1.0, hosts / 2) * 2**20
        return self.gbps / (1 + half_bytes / size_bytes)


def judge_fabric(
    hosts: Sequence[HostCase], findings: Sequence[Sequence[Finding]]
) -> Iterator[Finding]:
    """Yield for each host and scope whether the best of its runs is what the network carries.

    A host or a link that is accused already is left out, and with it who was held against it.
    """
    by_name = {host.name: host for host in hosts if host.multi_host is not None}
    accused = {
        finding.host
        for of_host in findings
        for finding in of_host
        if finding.check == MULTI_HOST and finding.outcome == "fail"
    }
    for host in by_name.values():
        if host.multi_host is None or host.name in accused:
            continue
        for scope in SCOPES:
            runs = [
                run
                for run in host.multi_host.runs
                if run.why == scope and host.name in run.hosts and not accused & set(run.hosts)
            ]
            best = max(
                filter(_is_judged, runs), key=lambda run: run.outcome.busbw_gbps, default=None
            )
            if best is not None:
                yield _finding(host, scope, best, by_name)


def _is_judged(run: MultiHostRun) -> bool:
    """Whether a run's bandwidth is one between hosts; NVLink between hosts takes no network."""
    return (
        run.outcome.kind == "ok"
        and run.collective in COLLECTIVES
        and run.library.startswith("NCCL")
        and run.sizes[-1].size_bytes >= LEAST_BYTES
        and any(kind.startswith("NET/") for each in run.transport for kind in each.facts)
    )


def _finding(
    host: HostCase, scope: str, run: MultiHostRun, hosts: Mapping[str, HostCase]
) -> Finding:
    carried = [_carried(hosts[name], run) if name in hosts else "" for name in run.hosts]
    unknown = next((each for each in carried if isinstance(each, str)), None)
    finding = Finding(
        host=host.name,
        check=MULTI_HOST,
        outcome="pass",
        metric=BUSBW_GBPS.name,
        subject=scope,
        value=run.outcome.busbw_gbps,
        unit="GB/s",
    )
    if unknown is not None:
        return finding._replace(
            reason=remark(f"nothing to hold busbw against: {unknown or 'no report'}")
        )
    size, count = run.sizes[-1].size_bytes, len(run.hosts)
    least = min((each for each in carried if isinstance(each, Carried)), key=lambda c: c.gbps)
    expected = least.at(size, count)
    slow = run.outcome.busbw_gbps < least.share * expected
    share = number(run.outcome.busbw_gbps / expected)
    return finding._replace(
        outcome="warn" if slow else "pass",
        limit=f"warn unless >= {least.share:g} x expectation ({number(least.share * expected)}); "
        f"expected {number(expected)} GB/s: {least.way}",
        source=least.source,
        confidence="derived",
        reason=remark(
            f"{scope}: {share} of the {number(expected)} GB/s expected from {least.way}, on the "
            "best of its runs: no host stands out, the fabric is slow as a whole"
            if slow
            else ""
        ),
    )


def _carried(host: HostCase, run: MultiHostRun) -> Carried | str:
    """Return what a host's network carries, or why that is not known."""
    facts = next((each.facts for each in run.transport if host.name in each.hosts), {})
    kinds = {kind for kind in facts if kind.startswith("NET/")}
    if kinds == {SOCKET}:
        return _over_sockets(host)
    if kinds == {RDMA}:
        return _over_rdma(host, run, facts)
    return f"the network that NCCL took is {', '.join(sorted(kinds)) or 'not named'}"


def _over_sockets(host: HostCase) -> Carried | str:
    rate = host.multi_host.interface_gbps.get(host.name) if host.multi_host else None
    if not rate:
        return f"the rate of the network interface of {host.name} is not known"
    gbps = min(rate / 8, SOCKET_GBPS)
    return Carried(gbps, f"an interface of {number(rate)} Gb/s", SOCKET_SHARE, SOCKET_SOURCE)


def _over_rdma(host: HostCase, run: MultiHostRun, facts: Mapping[str, Value]) -> Carried | str:
    network = str(facts.get("network", ""))
    named = set(NAMED.findall(network)) if len(network) < TEXT else set()
    rates = {port.name: port.rate_gbps for port in active_ports(host.record)}
    cards = values_of(host.record, topology, PCI_ADDRESS)
    if not named or not named <= {name for name, rate in rates.items() if rate}:
        return f"the rates of the RDMA ports that NCCL used on {host.name} are not known"
    by_card: dict[str, float] = {}
    for name in named:
        device = name.partition(":")[0]
        # Both ports of a card share its PCIe link.
        card = str(cards.get(device, device)).rpartition(".")[0] or device
        by_card[card] = max(by_card.get(card, 0.0), rates[name])
    # A GPU uses one card; which are for storage the slowest tell.
    used = sorted(by_card.values())[: max(1, len(host.facts.models))]
    inside = _inside(host, run)
    if isinstance(inside, str):
        return inside
    way = f"{len(used)} RDMA ports, {number(sum(used))} Gb/s together"
    carried = Carried(sum(used) / 8, way, RDMA_SHARE, RDMA_SOURCE)
    if facts.get("gdrdma") is not True:
        way = f"{way} and copied through host memory"
        carried = replace(carried, gbps=STAGED_SHARE * carried.gbps, way=way)
    if inside.peak_gbps < carried.gbps:
        carried = replace(carried, gbps=inside.peak_gbps, way=f"inside a host {inside.way}")
    return carried


def _inside(host: HostCase, run: MultiHostRun) -> Prediction | str:
    """Return what the GPUs of a host reach among themselves, or one GPU over its PCIe link."""
    if len(host.facts.models) == 1:
        lanes = values_of(host.record, pcie_link, PCIE_LINK_WIDTH_MAX).get("gpu0")
        generation = values_of(host.record, pcie_link, PCIE_LINK_GENERATION_MAX).get("gpu0")
        if type(lanes) is int and type(generation) is int:
            gbps = pcie_gbps(generation, lanes)
            if gbps is not None:
                return Prediction(gbps, "PCIe", f"PCIe {generation} x{lanes}")
        return f"the PCIe link of the GPU of {host.name} is not known"
    links = links_of(host.record)
    if links is None:
        return f"the way between the GPUs of {host.name} was not measured"
    return predict(links, run.collective, run.library)
