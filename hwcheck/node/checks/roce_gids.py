"""Every RoCE port has an address that NCCL can route."""

from __future__ import annotations

from typing import Iterator

from hwcheck.limits import AtLeast
from hwcheck.node.check import Metric, Node, NotApplicable, Remedy, check
from hwcheck.node.host_facts import Gid
from hwcheck.wire import Sample

ROCE_V2 = "RoCE v2"
LINK_LOCAL = "fe80:"
IPV4 = ":0000:ffff:"


@check(
    metrics=[
        Metric(
            "routable_gids",
            "GIDs",
            "RoCE v2 GIDs of the port that are not link-local",
            (
                AtLeast(
                    "NCCL User Guide, NCCL_IB_GID_INDEX, NCCL_IB_ROCE_VERSION_NUM (2) and "
                    "NCCL_IB_ADDR_FAMILY: NCCL looks for a RoCE v2 GID of an IP address",
                    warn=1,
                ),
            ),
            required=True,
        ),
        Metric("gid_index", "", "index of the first of them, IPv4 before IPv6"),
        Metric("gid_kinds", "", "kinds of GIDs in the port's table", required=True),
    ],
    remedy=Remedy(
        cause="the network interface of the port has no IP address, or RoCE v2 is off",
        fix="give the interface its IP address; set NCCL_IB_GID_INDEX only for NCCL before 2.21, "
        "which cannot choose by itself",
        command="show_gids; rdma link; ip -br address",
    ),
    optional="active RoCE ports",
)
def roce_gids(node: Node) -> Iterator[Sample]:
    """Read the GID table of every active RoCE port.

    Without a routable RoCE v2 address NCCL takes a link-local one or RoCE v1, which works between
    two ports of a switch and nowhere else. The index is recorded because a fixed
    NCCL_IB_GID_INDEX is right only where it is the same on all nodes. Not applicable without an
    active Ethernet port of an RDMA device.
    """
    ports = [
        port
        for port in node.host.rdma_ports()
        if port.link_layer == "Ethernet" and port.state == "ACTIVE" and port.gids
    ]
    if not ports:
        raise NotApplicable("no active RoCE port")
    for port in ports:
        subject = "port " + port.name
        # NCCL takes IPv4 unless NCCL_IB_ADDR_FAMILY says otherwise.
        routable = sorted(filter(_routable, port.gids), key=lambda gid: IPV4 not in gid.address)
        yield Sample("routable_gids", len(routable), "GIDs", subject)
        if routable:
            yield Sample("gid_index", routable[0].index, "", subject)
        kinds = sorted({gid.kind for gid in port.gids if gid.kind})
        yield Sample("gid_kinds", ", ".join(kinds) or "unknown", "", subject)


def _routable(gid: Gid) -> bool:
    return gid.kind == ROCE_V2 and not gid.address.lower().startswith(LINK_LOCAL)
