"""Every NVLink that a GPU is wired with is up, and as fast as those of its peers."""

from __future__ import annotations

from typing import Dict, Iterator, List, NamedTuple, Optional

from hwcheck.contract.check import TIMED, Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import AtLeast, Equal, FromModel, FromSample, like_most
from hwcheck.contract.quantities import NvLink
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import UP_NVLINKS, Survey, mig_is_on
from hwcheck.node.interconnect import links_to_switches
from hwcheck.node.node import Gpu, Node

STATE = "derived from NVML API Reference Guide, nvmlDeviceGetNvLinkState"
SPEED = "derived from NVML API Reference Guide, NVML_FI_DEV_NVLINK_GET_SPEED"
PEERS = ": GPUs of one model in one node are wired alike, so the best of them shows what is meant"
FABRIC = "NVIDIA Fabric Manager User Guide"
WIRED = FABRIC + ", GPU Baseboard Topologies (all links of a GPU lead to NVSwitches) and High "
WIRED += (
    "Availability Modes: with a switch out of use an HGX A100 keeps 5/6 of its bandwidth until "
)
WIRED += "it is repaired, later boards have no such mode"

WHOLE_BASEBOARD_GPUS = 8
"""A guest with fewer shares the baseboard: its hypervisor may have turned links off (``FABRIC``,
Full Passthrough)."""


class _Links(NamedTuple):
    model: str
    links: List[NvLink]
    to_switch: bool

    @property
    def active(self) -> int:
        return sum(link.active for link in self.links)

    @property
    def slowest_gbps(self) -> Optional[float]:
        speeds = [link.speed_gbps for link in self.links if link.active]
        return min((speed for speed in speeds if speed is not None), default=None)


NVLINK_LINKS_INACTIVE = Metric(
    "nvlink_links_inactive",
    "links",
    "NVLinks that the GPU has and that are not up",
    required=True,
)


@check(
    metrics=[
        Metric(
            "nvlink_links_active",
            "links",
            "NVLinks that are up",
            (
                AtLeast(
                    STATE + PEERS,
                    fail=1.0,
                    of=FromSample("nvlink_links_of_peers"),
                    confidence="derived",
                ),
                like_most(STATE + ": boards of one kind are wired alike in nodes of one kind"),
            ),
            required=True,
        ),
        Metric(
            "nvlink_links_of_peers",
            "links",
            "the most that a GPU of this model has up here",
            required=True,
        ),
        NVLINK_LINKS_INACTIVE,
        Metric(
            "switch_links_active",
            "links",
            "NVLinks that are up, of a GPU whose links all lead to NVSwitches",
            (
                AtLeast(WIRED, fail=1.0, of=FromSample("switch_links")),
                AtLeast(
                    WIRED,
                    fail=1.0,
                    of=FromModel("nvlink_links", known_only=True),
                ),
            ),
        ),
        Metric("switch_links", "links", "NVLinks that such a GPU has, up or not"),
        Metric(
            "nvlink_unbridged",
            "",
            "whether a GPU has no NVLink up while others of its model are bridged",
            (
                Equal(
                    False,
                    source=STATE + ": boards with bridges need not all have one, so this is to "
                    "be looked at and no fault by itself",
                    confidence="derived",
                    otherwise="warn",
                ),
            ),
            required=True,
        ),
        Metric(
            "nvlink_speed_gbps",
            "GB/s",
            "speed of the GPU's slowest NVLink, each way",
            (
                AtLeast(
                    SPEED + PEERS,
                    fail=0.99,
                    of=FromSample("nvlink_speed_of_peers_gbps"),
                    confidence="derived",
                ),
            ),
            of_some=UP_NVLINKS,
        ),
        Metric(
            "nvlink_speed_of_peers_gbps",
            "GB/s",
            "speed of the fastest GPU of this model here",
            of_some=UP_NVLINKS,
        ),
    ],
    remedy=Remedy(
        cause="a link that failed to train: a bridge or board that is not seated, a damaged "
        "connector, a fault of GPU or NVSwitch, or a fabric manager that does not run",
        fix="read the kernel log for Xid 74 and SXid, and the fabric manager's log; reset the GPUs "
        "(all of the baseboard at once) or reboot; reseat bridge or board, then have it replaced",
        command="nvidia-smi nvlink --status && nvidia-smi topo -m",
    ),
    optional="NVLink",
    group="NVLink, P2P",
    follows=("gpu_count", "mig"),
    beside=TIMED,
)
def nvlink_state(node: Node) -> Iterator[Sample]:
    """Count the NVLinks of each GPU that are up, read their speed, and compare within the node.

    With one link of eighteen down a GPU is the slowest of every collective, and nothing else
    reports it. A GPU of a baseboard with NVSwitches has every link wired, so each of them must be
    up; when a switch fails, all GPUs lose the same number of links. Of other boards, links that
    are down on every GPU of a model alike are as the boards were built: the H100 NVL for example
    leaves six of its eighteen unused (Azure/azurehpc-health-checks#162), and boards with bridges
    may stand beside boards without. With MIG on there is no peer access, and such GPUs are left
    out; so is a guest with a part of a baseboard when it comes to links that are down on all GPUs.
    """
    switches = bool(node.host.nvswitches())
    survey = Survey(node, lambda gpu: _ask(gpu, node, switches))
    models: Dict[str, List[_Links]] = {}
    for _, answer in survey.answers:
        models.setdefault(answer.model, []).append(answer)
    guest = bool(node.host.hypervisor()) and len(node.gpus()) < WHOLE_BASEBOARD_GPUS
    for gpu, answer in survey.answers:
        yield from _samples(gpu.subject, answer, models[answer.model], guest)
    survey.conclude("no GPU of this node has NVLink, or MIG is on, which rules it out")
    if not any(answer.active or (answer.to_switch and not guest) for _, answer in survey.answers):
        raise NotApplicable("no NVLink is up on any GPU: boards without bridges")


def _ask(gpu: Gpu, node: Node, switches: bool) -> Optional[_Links]:
    if mig_is_on(gpu):
        return None
    links = gpu.nvlinks()
    # A link that is down does not say what it leads to; the bus and the fabric do.
    to_switch = switches or bool(links and (links_to_switches(gpu, node) or gpu.fabric()))
    return _Links(gpu.name(), links, to_switch) if links or to_switch else None


def _samples(subject: str, links: _Links, peers: List[_Links], guest: bool) -> Iterator[Sample]:
    most = max(peer.active for peer in peers)
    to_switch = any(peer.to_switch for peer in peers)
    unbridged = links.active == 0 and most > 0 and not to_switch
    yield Sample("nvlink_unbridged", unbridged, "", subject)
    yield Sample("nvlink_links_active", links.active, "links", subject)
    expected = links.active if unbridged else most
    yield Sample("nvlink_links_of_peers", expected, "links", subject)
    yield Sample("nvlink_links_inactive", len(links.links) - links.active, "links", subject)
    if to_switch and not guest:
        yield Sample("switch_links_active", links.active, "links", subject)
        yield Sample("switch_links", len(links.links), "links", subject)
    if links.slowest_gbps is not None:
        fastest = max(peer.slowest_gbps or 0.0 for peer in peers)
        yield Sample("nvlink_speed_gbps", links.slowest_gbps, "GB/s", subject)
        yield Sample("nvlink_speed_of_peers_gbps", fastest, "GB/s", subject)
