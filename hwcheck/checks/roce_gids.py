"""Every RoCE port has an address that NCCL takes and that can be routed."""

from __future__ import annotations

from typing import Iterator, Mapping

from hwcheck.contract.check import Metric, NotApplicable, Remedy, check
from hwcheck.contract.facts import Gid
from hwcheck.contract.limits import AtLeast
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

ROCE_V2 = "RoCE v2"
LINK_LOCAL = "fe80:"
IPV4 = ":0000:ffff:"


ROUTABLE_GIDS = Metric(
    "routable_gids",
    "GIDs",
    "RoCE v2 GIDs of the port that are not link-local, of those that NCCL chooses from",
    (
        AtLeast(
            "NCCL User Guide, NCCL_IB_GID_INDEX, NCCL_IB_ROCE_VERSION_NUM (2) and "
            "NCCL_IB_ADDR_FAMILY (AF_INET): NCCL looks for a RoCE v2 GID of that family",
            warn=1,
        ),
    ),
    required=True,
)
GID_INDEX = Metric("gid_index", "", "index of the first that can be routed, IPv4 before IPv6")


@check(
    metrics=[
        ROUTABLE_GIDS,
        GID_INDEX,
        Metric("gid_kinds", "", "kinds of GIDs in the port's table", required=True),
    ],
    remedy=Remedy(
        cause="the network interface of the port has no IP address, or RoCE v2 is off, or NCCL's "
        "settings keep it from the address; IPv6 counts only where one of them asks for it",
        fix="give the interface its IP address, or on a fabric of IPv6 set "
        "NCCL_IB_ADDR_FAMILY=AF_INET6; set NCCL_IB_GID_INDEX only for NCCL before 2.21, which "
        "cannot choose by itself",
        command="show_gids; rdma link; ip -br address",
    ),
    optional="active RoCE ports",
    group="network",
    follows=("infiniband_ports",),
)
def roce_gids(node: Node) -> Iterator[Sample]:
    """Read the GID table of every active RoCE port.

    Without a routable RoCE v2 address NCCL takes a link-local one or RoCE v1, which works between
    two ports of a switch and nowhere else; the same where all addresses are IPv6 and
    NCCL_IB_ADDR_FAMILY does not say so. A port without any GID carries no RoCE. The index is
    recorded because a fixed NCCL_IB_GID_INDEX is right only where it is the same on all nodes. Not
    applicable without an active Ethernet port of an RDMA device; one of iWARP has a table of GIDs
    too, and no RoCE.
    """
    ports = [
        port
        for port in node.host.rdma_ports()
        if port.link_layer == "Ethernet" and port.state == "ACTIVE" and not port.iwarp
    ]
    if not ports:
        raise NotApplicable("no active RoCE port")
    settings = {setting.name: setting.value for setting in node.host.nccl_settings()}
    for port in ports:
        subject = "port " + port.name
        routable = sorted(filter(_routable, port.gids), key=_is_ipv6)
        taken = [gid for gid in routable if _may_be_chosen(gid, settings)]
        yield Sample("routable_gids", len(taken), "GIDs", subject)
        if routable:
            yield Sample("gid_index", routable[0].index, "", subject)
        kinds = sorted({gid.kind for gid in port.gids if gid.kind})
        yield Sample(
            "gid_kinds", ", ".join(kinds) or ("unknown" if port.gids else "none"), "", subject
        )


def _routable(gid: Gid) -> bool:
    return gid.kind == ROCE_V2 and not gid.address.lower().startswith(LINK_LOCAL)


def _is_ipv6(gid: Gid) -> bool:
    return IPV4 not in gid.address.lower()


def _may_be_chosen(gid: Gid, settings: Mapping[str, str]) -> bool:
    index = settings.get("NCCL_IB_GID_INDEX", "")
    if index.isdigit():  # -1, the default, leaves the choice to NCCL
        return gid.index == int(index)
    return _is_ipv6(gid) == (settings.get("NCCL_IB_ADDR_FAMILY") == "AF_INET6")
