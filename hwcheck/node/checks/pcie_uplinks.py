"""Every PCIe switch above a GPU uses all lanes that it and the port above it have."""

from __future__ import annotations

from typing import Iterator, Set, Tuple

from hwcheck.node.check import Metric, Node, NodeHost, NotApplicable, Remedy, check
from hwcheck.node.gpus import one_by_one
from hwcheck.node.limits import AtLeast, FromSample
from hwcheck.node.wire import Sample


@check(
    metrics=[
        Metric(
            "uplink_width",
            "lanes",
            "PCIe lanes in use between the switch and the port above it",
            (
                AtLeast(
                    "current_link_width and max_link_width of both ends in sysfs, which the kernel "
                    "reads from their Link Status and Link Capabilities registers",
                    warn=1.0,
                    of=FromSample("uplink_width_max"),
                    confidence="derived",
                ),
            ),
            required=True,
        ),
        Metric("uplink_width_max", "lanes", "lanes that both ends of it have", required=True),
    ],
    remedy=Remedy(
        cause="a switch board, riser or cable that is not seated, a damaged connector, or a slot "
        "bifurcated in firmware",
        fix="power off, reseat the switch's board and its cables; when the width stays, compare "
        "with a node of the same make and ask the maker",
        command="lspci -tv; sudo lspci -vv | grep -E '^[0-9a-f]|LnkCap:|LnkSta:'",
    ),
    optional="PCIe switches above GPUs",
)
def pcie_uplinks(node: Node) -> Iterator[Sample]:
    """Compare the link of each PCIe switch to the CPU with what both its ends have.

    All GPUs and network cards below a switch share that link, and a GPU's own link stays at x16
    when it trains at x8: neither NVML nor NCCL looks there. It warns, because a maker may have
    wired fewer lanes than the chips have. Not applicable without a switch above a GPU, and in a
    virtual machine, which shows none or one that is made up.
    """
    host = node.host
    if host.hypervisor():
        raise NotApplicable("a virtual machine does not show the switches of its host")
    uplinks = sorted(_uplinks(host))
    if not uplinks:
        raise NotApplicable("no PCIe switch above any GPU")
    yield from one_by_one(uplinks, lambda ends: _uplink(host, *ends))


def _uplink(host: NodeHost, switch: str, port: str) -> Iterator[Sample]:
    width, most = host.pcie_widths(switch)
    yield Sample("uplink_width", width, "lanes", "pci " + switch)
    most = min(most, host.pcie_widths(port)[1])
    yield Sample("uplink_width_max", most, "lanes", "pci " + switch)


def _uplinks(host: NodeHost) -> Set[Tuple[str, str]]:
    """Return the upstream port of each switch above a GPU, with the port above it.

    Above a GPU is the downstream port of a switch, then that switch's upstream port, then the
    downstream port of the next switch or the root port.
    """
    uplinks = set()
    for address in host.pci_gpus():
        bridges = host.bridges_above(address)
        uplinks |= {(bridges[n], bridges[n + 1]) for n in range(1, len(bridges) - 1, 2)}
    return uplinks
