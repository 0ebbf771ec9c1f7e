"""Every RDMA card uses the PCIe lanes and the speed that it and its slot have."""

from __future__ import annotations

from typing import Dict, Iterator, List, NamedTuple

from hwcheck.contract.check import (
    IDLE_LINK,
    OWN_MAXIMUM,
    CouldNotMeasure,
    Metric,
    NotApplicable,
    Remedy,
    check,
)
from hwcheck.contract.limits import AtLeast, FromSample, like_most
from hwcheck.contract.reasons import together
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node, NodeHost
from hwcheck.node.pcie import Card, cards

BOTH_ENDS = (
    "current_link_%s and max_link_%s of the card and of the port above it in sysfs, which the "
    "kernel reads from their Link Status and Link Capabilities registers; a slot may have been "
    "wired or set to less, so it is a warning"
)
LEAST_ALIKE = 2


@check(
    metrics=[
        Metric(
            "card_link_width",
            "lanes",
            "PCIe lanes in use",
            (
                AtLeast(
                    BOTH_ENDS % ("width", "width"),
                    warn=1.0,
                    of=FromSample("card_link_width_max"),
                    confidence="derived",
                ),
            ),
            required=True,
            varies=OWN_MAXIMUM,
        ),
        Metric(
            "card_link_width_max",
            "lanes",
            "lanes that both ends have",
            required=True,
            setting=True,
        ),
        Metric(
            "card_link_generation",
            "",
            "PCIe generation in use",
            (
                AtLeast(
                    BOTH_ENDS % ("speed", "speed"),
                    warn=1.0,
                    of=FromSample("card_link_generation_max"),
                    confidence="derived",
                ),
            ),
            required=True,
            varies=IDLE_LINK,
        ),
        Metric(
            "card_link_generation_max",
            "",
            "PCIe generation that both ends reach",
            (
                like_most(
                    "max_link_speed of both ends in sysfs, which a firmware setting lowers: the "
                    "card of this name has the same slot on hosts of one kind"
                ),
            ),
            required=True,
        ),
        Metric(
            "card_link_share",
            "share",
            "bandwidth of the link as a share of what all other cards of this design in like slots "
            "have here; not sent where these differ or are fewer than two",
            (
                AtLeast(
                    "PCI Express Base Specification, Link Status register: cards of one design in "
                    "slots of one kind train alike, so a card that is alone with less lost it",
                    fail=1.0,
                    confidence="derived",
                ),
            ),
        ),
    ],
    remedy=Remedy(
        cause="a card or riser that is not seated, a dirty or damaged connector or cable, or a "
        "slot that the firmware bifurcates or slows down",
        fix="look for a limit of the slot in the firmware's settings; power off, reseat card, "
        "riser and cables; swap slots to see whether it follows the card or the slot",
        command="for c in /sys/class/infiniband/* /sys/class/nvme/*; do echo $c "
        "$(cat $c/device/current_link_width $c/device/current_link_speed "
        "$c/device/max_link_width $c/device/max_link_speed); done",
    ),
    optional="RDMA cards and declared NVMe drives",
    group="network",
    follows=("infiniband_ports", "virtualization"),
)
def card_links(node: Node) -> Iterator[Sample]:
    """Compare the PCIe link of each RDMA card with what both its ends can do.

    A 400 Gb/s card needs 16 lanes of generation 5: on 8 of them it carries half, at generation 3
    a quarter, the port goes on showing 400 Gb/s, and every ring through it slows down to that. A
    network card does not slow its link down at idle as a GPU does. The functions of a card share a
    link, and the first one stands for it. NVMe drives are compared likewise where the inventory
    declares hwcheck_nvme. Not applicable without such cards, where none has a link, and in a
    virtual machine, which does not show the slots of its host.
    """
    host = node.host
    first: Dict[str, Card] = {}
    for card in cards(node):
        first.setdefault(card.pci_address.rpartition(".")[0], card)
    if not first:
        raise NotApplicable("no RDMA card, and no NVMe drive that is declared")
    if host.hypervisor():
        raise NotApplicable("a virtual machine does not show the slots of its host")
    with_link = [card for card in first.values() if host.has_pcie_link(card.pci_address)]
    if not with_link:
        raise NotApplicable("no card has a PCIe link of its own")
    reasons, links = [], []
    for card in with_link:
        try:
            links.append(_link(card, host))
        except CouldNotMeasure as error:
            reasons.append(error.reason)
    for link in links:
        yield from _samples(link, [other for other in links if _alike(link, other)])
    if reasons:
        raise CouldNotMeasure.of(together(reasons))


class CardLink(NamedTuple):
    """A card's link: in use, and the most that both its ends can do."""

    subject: str
    design: str
    lanes: int
    lanes_max: int
    generation: int
    generation_max: int

    @property
    def speed(self) -> float:
        """What it carries, in lanes of generation 1: each generation doubles the one before."""
        return self.lanes * 2.0 ** (self.generation - 1)


def _link(card: Card, host: NodeHost) -> CardLink:
    address = card.pci_address
    lanes, lanes_max = host.pcie_widths(address)
    generation, generation_max = host.pcie_generations(address)
    if host.bridges_above(address):
        lanes_max = min(lanes_max, host.pcie_port_width_max(address))
        generation_max = min(generation_max, host.pcie_port_generation_max(address))
    ids = host.pci_ids(address)
    return CardLink(card.subject, ids, lanes, lanes_max, generation, generation_max)


def _alike(link: CardLink, other: CardLink) -> bool:
    """Return whether another card of the same design is in a slot that can do as much."""
    most, other_most = (
        (each.design, each.lanes_max, each.generation_max) for each in (link, other)
    )
    return other is not link and bool(link.design) and most == other_most


def _samples(link: CardLink, alike: List[CardLink]) -> Iterator[Sample]:
    subject = link.subject
    yield Sample("card_link_width", link.lanes, "lanes", subject)
    yield Sample("card_link_width_max", link.lanes_max, "lanes", subject)
    yield Sample("card_link_generation", link.generation, "", subject)
    yield Sample("card_link_generation_max", link.generation_max, "", subject)
    speeds = {other.speed for other in alike}
    if len(alike) >= LEAST_ALIKE and len(speeds) == 1:
        share = min(1.0, link.speed / speeds.pop())
        yield Sample("card_link_share", share, "share", subject)
