"""Every RDMA port with a link is ready to carry data."""

from __future__ import annotations

from typing import Dict, Iterator, List

from hwcheck.checks.shared.ports import near_gpus, sites
from hwcheck.contract.check import (
    BY_AGE,
    BY_TRAFFIC,
    TIMED,
    CouldNotMeasure,
    Metric,
    NotApplicable,
    Remedy,
    check,
)
from hwcheck.contract.facts import RdmaPort
from hwcheck.contract.limits import (
    OFTEN,
    RARE,
    AtLeast,
    AtMost,
    Equal,
    FromInventory,
    FromSample,
    like_most,
)
from hwcheck.contract.reasons import IDLE_CARDS, NO_PERMISSION
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import AnswerOfKind, among_equals, middle
from hwcheck.node.node import Node

IBTA = "InfiniBand Architecture Specification, volume 1, "
ABI = "Linux ABI, stable/sysfs-class-infiniband, "
LINKED = "LinkUp"
USED = "an RDMA device"
ACTIVE = "ACTIVE"
INFINIBAND = "InfiniBand"
HOUR_S = 3600.0
MOST_NAMED = 4
LEAST_NEAR, LEAST_FAR = 2, 4
"""Ports alike that must have a link before one without is missed: near a GPU, and elsewhere, where
of fewer half may well be there for something else."""

DESIGN = ABI + "board_id: ports of cards of one design "
SAME_PORT = ": the port of this name on a card of this design has the same place in the network"

COUNTED = {
    "symbol_error": ("errors", "symbol errors since the driver was loaded"),
    "link_error_recovery": ("errors", "links that recovered from errors"),
    "link_downed": ("errors", "times that the link went down"),
    "port_rcv_errors": ("errors", "packets that came in damaged"),
    "local_link_integrity_errors": ("errors", "times that errors passed the threshold"),
    "excessive_buffer_overrun_errors": ("errors", "buffer overruns, period after period"),
    # From here on the transport's: congestion and a peer that ends raise them too.
    "out_of_sequence": ("packets", "packets received out of sequence"),
    "packet_seq_err": ("packets", "sequence errors that the receiver reported back"),
    "local_ack_timeout_err": ("events", "acknowledgments that did not come in time"),
    "rnr_nak_retry_err": ("packets", "packets for which the receiver was not ready"),
    "out_of_buffer": ("packets", "packets dropped because no receive buffer was posted"),
    "rx_icrc_encapsulated": ("packets", "RoCE packets received with a wrong checksum"),
    "roce_adp_retrans": ("events", "adaptive retransmissions of RoCE"),
    "roce_slow_restart": ("events", "times that RoCE started slowly again"),
    "np_ecn_marked_roce_packets": ("packets", "RoCE packets received with a congestion mark"),
    "rp_cnp_handled": ("packets", "congestion notifications that slowed this port down"),
}
"""Counters of a port by name: unit and meaning (see hwcheck/node/host/rdma.py)."""

OF_TRAFFIC = (
    *("out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err"),
    *("out_of_buffer", "roce_adp_retrans", "roce_slow_restart", "np_ecn_marked_roce_packets"),
    "rp_cnp_handled",
)
FLAPS = "link_downed"
"""``port_flaps`` counts these where the kernel log has them, with the times."""
PAST = {
    **dict.fromkeys(("link_downed", "link_error_recovery"), RARE),
    **dict.fromkeys(("symbol_error", "port_rcv_errors", "local_link_integrity_errors"), OFTEN),
}

OF_4_BITS = ("local_link_integrity_errors", "excessive_buffer_overrun_errors")
SHORT = AtMost(
    "NVIDIA NVSentinel, NIC health monitor, link counter detection: any is fatal while it watches, "
    "the link is outside its specification or the card dropped packets; ours counts since the "
    "driver was loaded and stops at 15 (" + IBTA + "PortCounters: 4 bits), so it warns from half "
    "of that on",
    warn=7,
    confidence="derived",
)

FULL = {
    "symbol_error": ("symbol_errors_full", 65535),
    "link_error_recovery": ("link_error_recovery_full", 255),
    "link_downed": ("link_downed_full", 255),
    "port_rcv_errors": ("port_rcv_errors_full", 65535),
}
"""Metric and end of the counters that stop there (InfiniBand Architecture Specification, volume 1,
PortCounters: 8 and 16 bits). A driver with wider counters goes on past it."""

RATES = {
    "symbol_error": ("symbol_errors_per_hour", 1.0),
    "link_error_recovery": ("link_error_recovery_per_hour", 10.0),
    "link_downed": ("link_downed_per_hour", 3.0),
    "port_rcv_errors": ("port_rcv_errors_per_hour", 1.0),
}
"""Metric of the rate, and the hours that it is taken over at least. The counters begin with the
driver or a reset of the port. When that was the kernel does not say, but not before the boot, so a
rate since boot is never too high."""


LINKED_STATE = Metric(
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
)
PORT_RATE_GBPS = Metric(
    "port_rate_gbps",
    "Gb/s",
    "rate of the port; 1e9 bit/s",
    (like_most(ABI + "rate" + SAME_PORT, alike="board_id"),),
)
LINK_LAYER = Metric(
    "link_layer",
    "",
    "InfiniBand or Ethernet",
    (like_most(ABI + "link_layer" + SAME_PORT, alike="board_id"),),
    required=True,
)
FIRMWARE = Metric(
    "firmware",
    "",
    "firmware of the device",
    (
        like_most(DESIGN + "take the same firmware, on whichever node", alike="board_id"),
        Equal(
            FromSample("firmware_of_most"),
            source=DESIGN + "take the same firmware",
            confidence="derived",
            otherwise="warn",
        ),
    ),
    required=True,
)


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
                like_most(
                    ABI + "state: nodes of one kind are cabled alike, so a node with other ports "
                    "active has a link too few, or one that nobody expects"
                ),
            ),
            required=True,
        ),
        Metric("port_state", "", "logical and physical state of a port without a link"),
        Metric(
            "port_link",
            "",
            "physical state of a port that has no link while the ports like it have one, with the "
            "GPUs that it is nearest to",
            (
                Equal(
                    LINKED,
                    source="NVIDIA NVSentinel, NIC health monitor, link state detection: a card "
                    "with fewer active ports than its peers; " + DESIGN + "and in like places",
                    confidence="published",
                    otherwise="warn",
                ),
            ),
        ),
        Metric(
            "card_use",
            "",
            "what came of a card that is no RDMA device while most cards of its design here are, "
            "with the GPUs that it is nearest to",
            (
                Equal(
                    USED,
                    source=ABI + "a device is there when its driver is; scitix/sichek PR 115 and "
                    "118: cards whose firmware stopped, or whose driver gave up as it started",
                    confidence="derived",
                    otherwise="warn",
                ),
            ),
        ),
        LINKED_STATE,
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
        PORT_RATE_GBPS,
        Metric(
            "rate_told",
            "",
            "whether a port with a link gives its rate",
            (like_most(ABI + "rate" + SAME_PORT, alike="board_id"),),
        ),
        Metric(
            "port_rate_share",
            "share",
            "rate as a share of what all other ports of this design and kind of link have here; "
            "not sent where these differ or are fewer than two",
            (
                AtLeast(
                    DESIGN + "can do the same rate, and one that is alone with a lower one was "
                    "not meant to be",
                    warn=1.0,
                    confidence="derived",
                ),
            ),
        ),
        LINK_LAYER,
        Metric("board_id", "", "design of the card by its maker (PSID)"),
        FIRMWARE,
        Metric(
            "firmware_of_most",
            "",
            "firmware that most ports of this design have here",
            required=True,
        ),
        Metric(
            "symbol_errors_per_hour",
            "errors/h",
            "symbol errors of an InfiniBand link over the time since boot, an hour at least",
            (
                AtMost(
                    "NVIDIA NVSentinel, NIC health monitor, link counter detection: by the "
                    "InfiniBand specification's bit error rate (below 1e-12) a link makes 120 "
                    "symbol errors in an hour at most",
                    warn=120,
                    confidence="published",
                ),
            ),
        ),
        Metric(
            "link_error_recovery_per_hour",
            "errors/h",
            "recoveries of an InfiniBand link over the time since boot, ten hours at least",
            (
                AtMost(
                    "infiniband-diags, ibqueryerrors, error_thresholds: 10 of LinkErrorRecovery "
                    "are reported; here within ten hours, since the count never ends",
                    warn=1,
                    confidence="derived",
                ),
            ),
        ),
        Metric(
            "link_downed_per_hour",
            "errors/h",
            "times that the link went down over the time since boot, three hours at least",
            (
                AtMost(
                    "Azure healthagent and Crusoe: more than 3 link-downs in 3 hours are a link "
                    "that flaps; as an average",
                    warn=1,
                    confidence="derived",
                ),
            ),
        ),
        Metric(
            "link_downed_over_alike",
            "x",
            "times that the link went down over the median of the other ports of this design and "
            "kind of link here, which is taken for 1 at least; not sent where these are fewer than "
            "two",
            (
                AtMost(
                    "infiniband-diags, ibqueryerrors, error_thresholds: 10 of LinkDowned are "
                    "reported; restarts of the host and of its switches all ports of a host count",
                    warn=10,
                    confidence="derived",
                ),
            ),
        ),
        Metric(
            "port_rcv_errors_per_hour",
            "errors/h",
            "damaged packets of an InfiniBand link over the time since boot, an hour at least",
            (
                AtMost(
                    "as symbol_errors_per_hour: a damaged packet takes an error on the link",
                    warn=120,
                    confidence="derived",
                ),
            ),
        ),
        *(
            Metric(
                metric,
                "",
                "whether %s stands at %d, its maximum: more cannot be counted, and no rate told"
                % (name, most),
                (
                    Equal(
                        False,
                        IBTA + "PortCounters: %s stops at %d" % (name, most),
                        otherwise="warn",
                    ),
                ),
            )
            for name, (metric, most) in FULL.items()
        ),
        *(
            Metric(
                name,
                unit,
                meaning,
                (SHORT,) if name in OF_4_BITS else (),
                varies=BY_AGE if name == FLAPS else BY_TRAFFIC if name in OF_TRAFFIC else None,
                past=PAST.get(name),
                follows=("port_flaps",) if name == FLAPS else (),
            )
            for name, (unit, meaning) in COUNTED.items()
        ),
    ],
    remedy=Remedy(
        cause="no subnet manager, a cable or module that is not seated, a port that is shut, or "
        "firmware and settings unlike those of the other cards",
        fix="start the subnet manager where ports stay in INIT; reseat or replace cable and module "
        "where a link is down, narrow, slow or counts errors; bring cards of one design to one "
        "firmware",
        command="ibstat; rdma link; mlxlink -d mlx5_0 -c",
    ),
    optional="RDMA devices",
    group="network",
    beside=TIMED,
)
def infiniband_ports(node: Node) -> Iterator[Sample]:
    """Read state, rate, firmware and error counters of every RDMA port.

    A port whose link is up and that is not active has no subnet manager and carries nothing, so
    NCCL silently leaves it out or hangs. A port without a link may be one that nobody uses: it is
    recorded, and the number of active ones is held against the inventory's
    ``hwcheck_rdma_ports``. It is named where most ports on cards of its design, at the same place
    on the card and as near to a GPU, have a link, or where the inventory wants all of them; not
    where as many are active as it says. So is a card that is no RDMA device while most of its
    design are; not one that is passed through to a guest, kept from its driver by hand, or a
    network interface.
    One port of eight at half its rate halves what all of them carry. Counters of 8 and 16 bits stop
    at their maximum, which is said; the others are taken per hour since boot. What
    the transport counts is recorded: it grows with congestion and with every peer that ends, and
    no figure for a healthy node is known. The ports by which NVSwitches of HGX B200 are managed are
    left out; where the login may not read which they are, nothing is measured. Not applicable
    without RDMA devices: where the bus has cards of which no driver made any, that is said.
    """
    ports = node.host.rdma_ports()
    if not ports:
        idle = _idle_cards(node.host.cards_without_rdma())
        raise NotApplicable("no RDMA device" + idle, IDLE_CARDS if idle else "")
    unclear = next((port.name for port in ports if port.may_be_bridge), "")
    if unclear:
        raise CouldNotMeasure(
            "port %s and its like are of network cards or of what manages the NVSwitches; which, "
            "the VPD of the device says: run as root" % unclear,
            NO_PERMISSION,
        )
    active = sum(port.state == ACTIVE for port in ports)
    yield Sample("active_ports", active, "ports")
    for port in ports:
        yield from _port(port, [other for other in ports if _alike(port, other)])
    yield from _missed_links(node, ports, active)
    yield from _idle_cards_beside(node, ports, active)
    yield from among_equals("firmware", [_firmware(port) for port in ports])
    yield from _rates(node, ports)
    _need_rates(ports)


def _idle_cards(drivers: Dict[str, str]) -> str:
    """Say that cards are on the bus, and whether a driver has taken them."""
    if not drivers:
        return ""
    named = sorted(drivers)
    more = " and %d more" % (len(named) - MOST_NAMED) if len(named) > MOST_NAMED else ""
    cards = "%d card%s" % (len(named), "s" if len(named) > 1 else "")
    taken = ", ".join(sorted({driver or "none" for driver in drivers.values()}))
    where = ", ".join(named[:MOST_NAMED]) + more
    return ", but the bus has %s for it: %s (driver: %s)" % (cards, where, taken)


def _port(port: RdmaPort, alike: List[RdmaPort]) -> Iterator[Sample]:
    subject = "port " + port.name
    yield Sample("link_layer", port.link_layer or "unknown", "", subject)
    if port.board:
        yield Sample("board_id", port.board, "", subject)
    if port.physical_state != LINKED:
        state = "%s, %s" % (port.state or "unknown", port.physical_state or "unknown")
        yield Sample("port_state", state, "", subject)
        return
    yield Sample("linked_state", port.state, "", subject)
    yield Sample("rate_told", port.rate_gbps is not None, "", subject)
    if port.rate_gbps is not None:
        yield Sample("port_rate_gbps", port.rate_gbps, "Gb/s", subject)
        rates = {other.rate_gbps for other in alike}
        others = rates.pop() if len(alike) >= 2 and len(rates) == 1 else None
        if others:
            yield Sample("port_rate_share", port.rate_gbps / others, "share", subject)
    if port.lanes is not None and port.link_layer == INFINIBAND:
        yield Sample("port_lanes", port.lanes, "lanes", subject)
    yield from _downs(port, alike)
    for name, count in port.counters.items():
        yield Sample(name, count, COUNTED[name][0], subject)


def _downs(port: RdmaPort, alike: List[RdmaPort]) -> Iterator[Sample]:
    """Yield how often a port's link went down beside the ports like it, unless it is full."""
    counts = [other.counters.get("link_downed") for other in (port, *alike)]
    downs, *others = [count for count in counts if count is not None] or [0]
    if counts[0] is not None and downs != FULL["link_downed"][1] and len(others) >= 2:
        share = downs / max(1.0, middle(others))
        yield Sample("link_downed_over_alike", round(share, 1), "x", "port " + port.name)


def _need_rates(ports: List[RdmaPort]) -> None:
    """Raise CouldNotMeasure where a port gives no rate and the ports like it do."""
    for port in ports:
        likes = [other for other in ports if _alike(port, other)]
        if port.rate_gbps is None and any(other.rate_gbps is not None for other in likes):
            raise CouldNotMeasure("port %s gives no rate; ports like it do" % port.name)


def _alike(port: RdmaPort, other: RdmaPort) -> bool:
    """Return whether another port has the same kind of link on a card of the same design."""
    return (
        other is not port
        and bool(port.board)
        and (other.board, other.link_layer) == (port.board, port.link_layer)
        and other.physical_state == LINKED
    )


def _firmware(port: RdmaPort) -> AnswerOfKind:
    subject = "port " + port.name
    # A port whose design is not known is compared with none.
    return AnswerOfKind(subject, port.board or subject, port.firmware or "unknown")


def _missed_links(node: Node, ports: List[RdmaPort], active: int) -> Iterator[Sample]:
    """Yield the ports without a link that most ports like them have."""
    if all(port.physical_state == LINKED for port in ports):
        return
    declared = node.request.expect.get("rdma_ports")
    lacking = declared - active if isinstance(declared, int) else None
    if lacking is not None and lacking <= 0:
        return
    without = sum(port.physical_state != LINKED for port in ports)
    of = sites(node.host, ports)
    for port in ports:
        site = of[port.name]
        alike = [other for other in ports if of[other.name].kind == site.kind]
        down = sum(other.physical_state != LINKED for other in alike)
        linked = len(alike) - down
        missed = linked >= LEAST_NEAR and linked > down
        if not site.path:
            missed = linked >= LEAST_FAR and down == 1
        missed = missed or (lacking is not None and lacking >= without)  # all are needed
        if missed and port.physical_state != LINKED:
            state = port.physical_state or "unknown"
            if site.path:
                state += "; %s to the GPU at %s" % (site.path, ", ".join(site.gpus))
            yield Sample("port_link", state, "", "port " + port.name)


def _idle_cards_beside(node: Node, ports: List[RdmaPort], active: int) -> Iterator[Sample]:
    """Yield the cards of which nothing came, and most of whose design are RDMA devices."""
    declared = node.request.expect.get("rdma_ports")
    if isinstance(declared, int) and declared <= active:
        return
    drivers = node.host.cards_without_rdma()
    idle = {card: node.host.pci_ids(card) for card in sorted(drivers) if node.host.is_idle(card)}
    used = {port.pci_address: port.pci_ids for port in ports}
    for card, design in idle.items():
        alike = list(used.values()).count(design)
        if design and alike >= LEAST_NEAR and alike > list(idle.values()).count(design):
            driver = drivers[card]
            came = "none: %s" % (driver + " made nothing of it" if driver else "no driver took it")
            way = near_gpus(node.host, card)
            yield Sample("card_use", came + (way and "; " + way), "", "card " + card)


def _rates(node: Node, ports: List[RdmaPort]) -> Iterator[Sample]:
    for port in ports:
        if port.physical_state != LINKED:
            continue
        subject = "port " + port.name
        for name, (metric, least_hours) in RATES.items():
            count = port.counters.get(name)
            full, most = FULL[name]
            if count == most:
                yield Sample(full, True, "", subject)
            elif count is not None and (port.link_layer == INFINIBAND or name == "link_downed"):
                rate = count / max(least_hours, node.host.uptime_s() / HOUR_S)
                yield Sample(metric, round(rate, 3), "errors/h", subject)
