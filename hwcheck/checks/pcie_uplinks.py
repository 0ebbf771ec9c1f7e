"""Every PCIe switch above a GPU or a card uses what it and the port above it have."""

from __future__ import annotations

from typing import Iterable, Iterator, Set, Tuple

from hwcheck.contract.check import OWN_MAXIMUM, Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import AtLeast, FromSample, like_most
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import one_by_one
from hwcheck.node.node import Node, NodeHost
from hwcheck.node.pcie import cards

BOTH_ENDS = (
    "current_link_%s and max_link_%s of both ends in sysfs, which the kernel reads from their Link "
    "Status and Link Capabilities registers"
)


@check(
    metrics=[
        Metric(
            "uplink_width",
            "lanes",
            "PCIe lanes in use between the switch and the port above it",
            (
                AtLeast(
                    BOTH_ENDS % ("width", "width"),
                    warn=1.0,
                    of=FromSample("uplink_width_max"),
                    confidence="derived",
                ),
            ),
            required=True,
            varies=OWN_MAXIMUM,
        ),
        Metric(
            "uplink_width_max",
            "lanes",
            "lanes that both ends of it have",
            required=True,
            setting=True,
        ),
        Metric(
            "uplink_generation",
            "",
            "PCIe generation between the switch and the port above it",
            (
                AtLeast(
                    BOTH_ENDS % ("speed", "speed"),
                    warn=1.0,
                    of=FromSample("uplink_generation_max"),
                    confidence="derived",
                ),
            ),
        ),
        Metric(
            "uplink_generation_max",
            "",
            "PCIe generation that both ends of it reach",
            (
                like_most(
                    "max_link_speed of both ends in sysfs, which a firmware setting lowers: the "
                    "switch at this address is wired alike on hosts of one kind"
                ),
            ),
        ),
    ],
    remedy=Remedy(
        cause="a switch board, riser or cable that is not seated, a damaged connector, or a slot "
        "bifurcated in firmware",
        fix="power off, reseat the switch's board and its cables; when the width stays, compare "
        "with a node of the same make and ask the maker",
        command="lspci -tv; sudo lspci -vv | grep -E '^[0-9a-f]|LnkCap:|LnkSta:'",
    ),
    optional="PCIe switches above GPUs and cards",
    group="PCIe",
    follows=("gpu_count", "infiniband_ports", "virtualization"),
)
def pcie_uplinks(node: Node) -> Iterator[Sample]:
    """Compare the link of each PCIe switch to the CPU with what both its ends have.

    All GPUs and network cards below a switch share that link, and a GPU's own link stays at x16
    when it trains at x8: neither NVML nor NCCL looks there. The switch of a BlueField is on the
    card. It warns, because a maker may have wired fewer lanes than the chips have, or limited the
    speed. Not applicable without a switch above a GPU, an RDMA card or a declared NVMe drive, and
    in a virtual machine, which shows none or one that is made up.
    """
    host = node.host
    if host.hypervisor():
        raise NotApplicable("a virtual machine does not show the switches of its host")
    devices = [*host.pci_gpus(), *(card.pci_address for card in cards(node))]
    uplinks = sorted(_uplinks(host, devices))
    if not uplinks:
        raise NotApplicable("no PCIe switch above any GPU or card")
    yield from one_by_one(uplinks, lambda ends: _uplink(host, *ends))


def _uplink(host: NodeHost, switch: str, port: str) -> Iterator[Sample]:
    width, most = host.pcie_widths(switch)
    yield Sample("uplink_width", width, "lanes", "pci " + switch)
    most = min(most, host.pcie_widths(port)[1])
    yield Sample("uplink_width_max", most, "lanes", "pci " + switch)
    generation, newest = host.pcie_generations(switch)
    yield Sample("uplink_generation", generation, "", "pci " + switch)
    newest = min(newest, host.pcie_generations(port)[1])
    yield Sample("uplink_generation_max", newest, "", "pci " + switch)


def _uplinks(host: NodeHost, devices: Iterable[str]) -> Set[Tuple[str, str]]:
    """Return the upstream port of each switch above these devices, with the port above it.

    Above a device is the downstream port of a switch, then that switch's upstream port, then the
    downstream port of the next switch or the root port.
    """
    uplinks = set()
    for address in devices:
        bridges = host.bridges_above(address)
        uplinks |= {(bridges[n], bridges[n + 1]) for n in range(1, len(bridges) - 1, 2)}
    return uplinks
