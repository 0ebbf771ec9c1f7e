"""The link of every RDMA port stays up."""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, NamedTuple, Optional, Set

from hwcheck.contract.check import BY_RUN, CouldNotMeasure, Metric, NotApplicable, Remedy, check
from hwcheck.contract.facts import KernelMessage
from hwcheck.contract.limits import AtMost
from hwcheck.contract.reasons import LOG_LOST
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

WORDS = ("Link down", "Link up", "Link DOWN", "Link ACTIVE", "Link is")
EVENT = re.compile(
    r"\w+ ([0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ([\w.-]+): "
    r"(?:Port: (\d+) )?(?:NIC )?Link (?:is )?(down|up|active)\b",
    re.IGNORECASE,
)
"""What drivers write, with the address of the card and the name of the interface or the device:
``mlx5_core 0000:9b:00.0 ib4: Link down``, ``bnxt_en ...: NIC Link is Down``, and the kernel's RDMA
core ``mlx5_core 0000:9b:00.0 mlx5_4: Port: 1 Link DOWN`` (drivers/infiniband/core/cache.c)."""

MINUTE_S, HOUR_S = 60.0, 3600.0
DAY_S = 24 * HOUR_S
LEAST_REACH_S = 3 * HOUR_S
START_S = 10 * MINUTE_S
"""Links come up and go down while a node starts."""

LINKED = "LinkUp"
MESSAGE_LIMIT = 10_000


@check(
    metrics=[
        Metric(
            "link_downs",
            "events",
            "times that the link went down over the last day",
            (
                AtMost(
                    "Azure healthagent and Crusoe: more than 3 link-downs in 3 hours; ours counts "
                    "a day, since a job that runs for a day meets each of them",
                    warn=3,
                    confidence="derived",
                ),
            ),
            required=True,
        ),
        Metric(
            "longest_outage_s",
            "s",
            "longest time that the link was down and that ended, or goes on, within the last day",
            (
                AtMost(
                    "NVIDIA Health Validation, InfiniBand checks, rdma_linkflap_fatal: an outage "
                    "of 30 s or more is critical; a switch that restarts makes one on a healthy "
                    "node too, so it is a warning",
                    warn=29.9,
                    confidence="published",
                ),
            ),
            required=True,
            varies=BY_RUN,
        ),
    ],
    remedy=Remedy(
        cause="a cable or module that is dirty, not seated or failing, a switch or its port that "
        "restarts, or firmware of card and switch that do not agree",
        fix="where all ports went down at once look at the switch; else clean and reseat cable and "
        "module, swap them with those of another port, and see what the fault follows",
        command="sudo dmesg --ctime | grep -iE 'link (is )?(up|down|active)'; mlxlink -d mlx5_0 -m",
    ),
    optional="RDMA devices",
    group="network",
    follows=("infiniband_ports",),
)
def port_flaps(node: Node) -> Iterator[Sample]:
    """Read from the kernel log how often and how long RDMA ports were without a link.

    A job ends when its port is down for longer than its retries take, a few seconds by default,
    and a port that goes down now and then looks well whenever somebody looks. The last day counts,
    without the first ten minutes after boot. A port without a cable is told to be down whenever its
    interface is started: down once more is no event, and where the whole log never has it up, its
    link did not go down. A log that goes back for less than three hours tells nothing. Not
    applicable without RDMA devices.
    """
    host = node.host
    ports = [port for port in host.rdma_ports() if port.pci_address]
    if not ports:
        raise NotApplicable("no RDMA device on the bus")
    uptime_s = host.uptime_s()
    log = host.kernel_log(WORDS)
    if not log.complete and log.reach_s < LEAST_REACH_S:
        raise CouldNotMeasure(
            "the kernel log goes back %.0f minutes and has lost what came before"
            % (log.reach_s / MINUTE_S),
            LOG_LOST,
        )
    since_s = min(DAY_S, uptime_s - START_S)
    by_port: Dict[str, Dict[str, List[LinkEvent]]] = {}
    linked: Set[str] = set()
    for message in log.messages[-MESSAGE_LIMIT:]:
        event = _event(message)
        if event is None:
            continue
        key = "%s %s" % (event.pci_address, event.port)
        if not event.is_down:
            linked.add(key)
        if message.age_s <= since_s:
            by_port.setdefault(key, {}).setdefault(event.name, []).append(event)
    for port in ports:
        key = "%s %s" % (port.pci_address, port.name.rpartition("/")[2])
        # The interface and the RDMA device tell of the same event.
        by_name = list(by_port.get(key, {}).values())
        subject = "port " + port.name
        yield Sample("link_downs", max(map(_downs, by_name), default=0), "events", subject)
        goes_on = port.physical_state != LINKED and (key in linked or not log.complete)
        longest = max((_longest(events, goes_on) for events in by_name), default=0.0)
        yield Sample("longest_outage_s", round(longest, 1), "s", subject)


class LinkEvent(NamedTuple):
    """A link that went down or came up, by the name of who tells it."""

    pci_address: str
    port: str
    name: str
    is_down: bool
    age_s: float


def _event(message: KernelMessage) -> Optional[LinkEvent]:
    match = EVENT.match(message.text)
    if match is None:
        return None
    address, name, port, state = match.groups()
    return LinkEvent(address, port or "1", name, state.lower() == "down", message.age_s)


def _downs(events: List[LinkEvent]) -> int:
    """Return how often a link went down; down once more is no event."""
    return sum(
        event.is_down and not (place and events[place - 1].is_down)
        for place, event in enumerate(events)
    )


def _longest(events: List[LinkEvent], goes_on: bool) -> float:
    """Return the longest outage; one without an end counts where it ``goes_on``."""
    longest, since = 0.0, None
    for event in events:
        if event.is_down:
            since = event.age_s if since is None else since
        elif since is not None:
            longest, since = max(longest, since - event.age_s), None
    if since is not None and goes_on:
        longest = max(longest, since)
    return longest
