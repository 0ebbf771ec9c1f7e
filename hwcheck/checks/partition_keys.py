"""Every InfiniBand port belongs to the partition that its neighbors belong to."""

from __future__ import annotations

from typing import Iterator

from hwcheck.checks.shared.ports import sites
from hwcheck.contract.check import CouldNotMeasure, Metric, NotApplicable, Remedy, check
from hwcheck.contract.facts import RdmaPort
from hwcheck.contract.limits import Equal, FromSample, like_most
from hwcheck.contract.reasons import NO_PERMISSION
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import majority
from hwcheck.node.node import Node

IBTA = "InfiniBand Architecture Specification, volume 1, Partitioning: "
FULL_MEMBER = 0x8000
LEAST_ALIKE = 3


@check(
    metrics=[
        Metric(
            "pkeys",
            "",
            "partition keys of the port",
            (
                like_most(
                    IBTA + "two ports reach each other only with a partition in common; the port "
                    "of this name on a card of this design has the same place in the network",
                    alike="design",
                ),
                Equal(
                    FromSample("pkeys_of_most"),
                    source=IBTA + "ports of one design that are as near to their GPU are of one "
                    "fabric",
                    confidence="derived",
                    otherwise="warn",
                ),
            ),
            required=True,
        ),
        Metric(
            "pkeys_of_most",
            "",
            "those that most ports of this design and as near to a GPU have here; the port's where "
            "these are fewer than three, or far from any",
            required=True,
        ),
        Metric("design", "", "design of the card, by its maker or the bus", required=True),
        Metric(
            "full_member",
            "",
            "whether the port is a full member of a partition",
            (
                Equal(
                    True,
                    source=IBTA + "limited members of a partition do not accept packets of each "
                    "other; OpenSM makes all ports full members of 0x7fff unless told otherwise",
                    otherwise="warn",
                ),
            ),
            required=True,
        ),
    ],
    remedy=Remedy(
        cause="the subnet manager's partitions leave the port out, or give it less than its "
        "neighbors",
        fix="add the port's GUID to the partition, as a full member, in the subnet manager "
        "(partitions.conf, UFM), or have the cloud do it",
        command="grep -H . /sys/class/infiniband/*/ports/*/pkeys/* | grep -v 0x0000; "
        "ibstat | grep -i guid",
    ),
    optional="active InfiniBand ports",
    group="network",
    follows=("infiniband_ports",),
)
def partition_keys(node: Node) -> Iterator[Sample]:
    """Read the partition keys of every active InfiniBand port.

    A port outside the partition of the others is active at full rate and reaches nobody: NCCL
    hangs at its start, or ends with a timeout of that port. Not applicable without an active
    InfiniBand port.
    """
    ports = [
        port
        for port in node.host.rdma_ports()
        if port.link_layer == "InfiniBand" and port.state == "ACTIVE"
    ]
    if not ports:
        raise NotApplicable("no active InfiniBand port")
    if any(port.may_be_bridge for port in ports):
        raise CouldNotMeasure(
            "which ports are of what manages the NVSwitches, and in partitions of their own, the "
            "VPD of the devices says: run as root",
            NO_PERMISSION,
        )
    if not any(port.pkeys for port in ports):
        raise CouldNotMeasure("the kernel shows no partition key of any port")
    of = sites(node.host, ports)
    for port in ports:
        subject = "port " + port.name
        site = of[port.name]
        alike = [_keys(other) for other in ports if of[other.name].kind == site.kind]
        compared = bool(site.path) and len(alike) >= LEAST_ALIKE
        usual = majority(alike) if compared else _keys(port)
        yield Sample("pkeys", _keys(port), "", subject)
        yield Sample("pkeys_of_most", usual, "", subject)
        yield Sample("design", port.design or "unknown", "", subject)
        yield Sample("full_member", any(key & FULL_MEMBER for key in port.pkeys), "", subject)


def _keys(port: RdmaPort) -> str:
    return ", ".join("0x%04x" % key for key in port.pkeys) or "none"
