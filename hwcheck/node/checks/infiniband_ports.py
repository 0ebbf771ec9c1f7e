"""Every RDMA port with a link is ready to carry data."""

from __future__ import annotations

from typing import Iterator

from hwcheck.limits import AtLeast, Equal, FromInventory
from hwcheck.node.check import Metric, Node, NotApplicable, Remedy, check
from hwcheck.node.host_facts import RdmaPort
from hwcheck.wire import Sample

IBTA = "InfiniBand Architecture Specification, volume 1, "
ABI = "Linux ABI, stable/sysfs-class-infiniband, "
LINKED = "LinkUp"
ACTIVE = "ACTIVE"


@check(
    metrics=[
        Metric(
            "active_ports",
            "ports",
            "ports that carry data",
            (
                Equal(
                    FromInventory("rdma_ports"),
                    source="the inventory's hwcheck_rdma_ports",
                    confidence="inventory",
                ),
                AtLeast(
                    ABI + "state; a node has RDMA devices to use at least one of their ports",
                    warn=1,
                    confidence="derived",
                ),
            ),
        ),
        Metric("port_state", "", "logical and physical state of a port without a link"),
        Metric(
            "linked_state",
            "",
            "logical state of a port whose physical link is up",
            (
                Equal(
                    ACTIVE,
                    source=IBTA + "port states: only a port that the subnet manager has made "
                    "active carries data",
                ),
            ),
        ),
        Metric(
            "port_lanes",
            "lanes",
            "lanes of an InfiniBand link",
            (
                AtLeast(
                    IBTA + "link width: ports have 4 lanes, or 2 behind a splitter cable; one "
                    "lane is what is left of a link that lost the others",
                    warn=2,
                    confidence="derived",
                ),
            ),
        ),
        Metric("port_rate_gbps", "Gb/s", "rate of the port; 1e9 bit/s"),
        Metric("link_layer", "", "InfiniBand or Ethernet"),
        Metric("firmware", "", "firmware of the device"),
        Metric("symbol_error", "errors", "symbol errors since the driver was loaded"),
        Metric("link_error_recovery", "errors", "links that recovered from errors"),
        Metric("link_downed", "errors", "times that the link went down"),
        Metric("port_rcv_errors", "errors", "packets that came in damaged"),
        Metric("local_link_integrity_errors", "errors", "times that errors passed the threshold"),
        Metric("excessive_buffer_overrun_errors", "errors", "buffer overruns"),
    ],
    remedy=Remedy(
        cause="no subnet manager, a cable or module that is not seated, or a port that is shut",
        fix="start the subnet manager where ports stay in INIT; reseat or replace cable and module "
        "where a link is down, narrow or counts errors",
        command="ibstat; rdma link; mlxlink -d mlx5_0 -c",
    ),
    optional="RDMA devices",
)
def infiniband_ports(node: Node) -> Iterator[Sample]:
    """Read state, rate, firmware and error counters of every RDMA port.

    A port whose link is up and that is not active has no subnet manager and carries nothing, so
    NCCL silently leaves it out or hangs. A port without a link may be one that nobody uses: it is
    recorded, and the number of active ones is held against the inventory's
    ``hwcheck_rdma_ports``. Not applicable without RDMA devices.
    """
    ports = node.host.rdma_ports()
    if not ports:
        raise NotApplicable("no RDMA device")
    active = sum(port.state == ACTIVE for port in ports)
    yield Sample("active_ports", active, "ports")
    for port in ports:
        yield from _port(port)


def _port(port: RdmaPort) -> Iterator[Sample]:
    subject = "port " + port.name
    yield Sample("link_layer", port.link_layer or "unknown", "", subject)
    yield Sample("firmware", port.firmware or "unknown", "", subject)
    if port.physical_state != LINKED:
        state = "%s, %s" % (port.state or "unknown", port.physical_state or "unknown")
        yield Sample("port_state", state, "", subject)
        return
    yield Sample("linked_state", port.state, "", subject)
    if port.rate_gbps is not None:
        yield Sample("port_rate_gbps", port.rate_gbps, "Gb/s", subject)
    if port.lanes is not None and port.link_layer == "InfiniBand":
        yield Sample("port_lanes", port.lanes, "lanes", subject)
    for name, count in port.counters.items():
        yield Sample(name, count, "errors", subject)
