"""The IOMMU does not translate what GPUs send to each other."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Metric, Remedy, check
from hwcheck.contract.limits import Equal
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import one_by_one
from hwcheck.node.node import Node, NodeHost
from hwcheck.node.pcie import need_peers

PASSTHROUGH = ("", "identity")
"""Domains without translation: no IOMMU group at all, or one that maps every address to itself."""


@check(
    metrics=[
        Metric("iommu_groups", "groups", "groups of the IOMMU; 0 when it is off", required=True),
        Metric(
            "iommu_options",
            "",
            "options of the kernel's command line that concern it",
            required=True,
        ),
        Metric(
            "iommu_domain",
            "",
            "kind of the domain that the GPU is in; none without a group",
            required=True,
        ),
        Metric(
            "translated",
            "",
            "whether the IOMMU translates the addresses that the GPU uses",
            (
                Equal(
                    False,
                    source="NCCL User Guide, Troubleshooting, GPU Direct: IO virtualization (VT-d "
                    "or IOMMU) can redirect PCI point-to-point traffic to the CPU root complex",
                    otherwise="warn",
                ),
            ),
            required=True,
        ),
    ],
    remedy=Remedy(
        cause="the IOMMU is on and translates, as many distributions set it",
        fix="boot with iommu=pt (and intel_iommu=on or amd_iommu=on), or switch VT-d or AMD-Vi off "
        "in the firmware where nothing is passed to virtual machines",
        command="cat /proc/cmdline; grep . /sys/kernel/iommu_groups/*/type | sort -t: -k2 | head",
        role="pcie_p2p",
    ),
    optional="traffic between devices that it could redirect",
    group="PCIe",
    follows=("gpu_count", "infiniband_ports", "virtualization"),
)
def iommu(node: Node) -> Iterator[Sample]:
    """Read the mode of the IOMMU and the kind of domain that each GPU is in.

    Translation bends PCIe traffic between GPUs, or between a GPU and a network card, through the
    CPU. That is slow at best; hangs of collectives on PCIe nodes have been traced to it time and
    again. In passthrough the IOMMU is on and does no harm. Not applicable in a virtual machine,
    on ARM, and where one GPU has no peer.
    """
    host = node.host
    need_peers(host)
    options = [word for word in host.kernel_options() if "iommu" in word.partition("=")[0]]
    yield Sample("iommu_groups", host.iommu_groups(), "groups")
    yield Sample("iommu_options", " ".join(options)[:200] or "none")
    yield from one_by_one(host.pci_gpus(), lambda address: _domain(host, address))


def _domain(host: NodeHost, address: str) -> Iterator[Sample]:
    domain = host.iommu_domain(address)
    subject = "pci " + address
    yield Sample("iommu_domain", domain or "none", "", subject)
    yield Sample("translated", domain not in PASSTHROUGH, "", subject)
