"""Every port is cabled to where the plan of the fabric has it."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import CouldNotMeasure, Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import AtMost
from hwcheck.contract.reasons import NO_PERMISSION
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

NEIGHBOR = Metric("neighbor", "", "what a port is cabled to: the switch, and the port there")


@check(
    metrics=[
        Metric(
            "ports_with_neighbor",
            "ports",
            "ports that say what they are cabled to",
        ),
        NEIGHBOR,
        Metric(
            "ports_at_this_end",
            "ports",
            "ports of this node that name one and the same port of a switch",
            (
                AtMost(
                    "IEEE 802.1AB and InfiniBand Architecture Specification, NodeInfo: a port has "
                    "one cable, so no two ports have one end",
                    fail=1,
                    confidence="derived",
                ),
            ),
        ),
    ],
    remedy=Remedy(
        cause="a cable in the wrong port, or a plan that was changed",
        fix="move the cable to the port of the plan; where the plan is wrong, correct "
        "hwcheck_parts",
        command="sudo smpquery nodedesc -D 0,1; lldpctl",
    ),
    gpu=False,
    optional="ports whose neighbors can be asked",
    group="network",
    stage="inventory",
)
def cabling(node: Node) -> Iterator[Sample]:
    """Read which port of which switch each port is cabled to.

    Two cables that were exchanged cost nothing that a single node notices, and put two GPUs on the
    rail of another. InfiniBand is asked by smpquery (infiniband-diags, as root), Ethernet by lldpd.
    Held against the plan where the inventory declares one (hwcheck_parts, neighbor). Not applicable
    where neither program is there or no port has an answer, unless the plan wants one.
    """
    wanted = [row for row in node.request.expect.get("parts", ()) if row.get("neighbor")]
    try:
        neighbors = node.host.neighbors()
    except CouldNotMeasure as error:
        if wanted:
            raise
        raise NotApplicable(str(error)) from None  # its code is that of a failure
    if not neighbors:
        if wanted:
            words = "no port says what it is cabled to; smpquery needs root"
            raise CouldNotMeasure(words, NO_PERMISSION)
        raise NotApplicable("no port says what it is cabled to")
    if not wanted and not any(each.port for each in neighbors):
        raise NotApplicable("no port says which port of a switch it is cabled to")
    yield Sample("ports_with_neighbor", len(neighbors), "ports")
    ends = [(each.name, each.port) for each in neighbors]
    for each in neighbors:
        yield Sample("neighbor", " ".join(filter(None, (each.name, each.port))), "", each.subject)
        if each.port:
            same = ends.count((each.name, each.port))
            yield Sample("ports_at_this_end", same, "ports", each.subject)
