"""No bridge on the way to a GPU redirects traffic between devices to the CPU."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import CouldNotMeasure, Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import Equal
from hwcheck.contract.reasons import together
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node
from hwcheck.node.pcie import need_peers

REDIRECT_BITS = 0x0004 | 0x0008 | 0x0020
"""P2P Request Redirect, P2P Completion Redirect and P2P Egress Control of the ACS Control
Register (PCI Express Base Specification, Access Control Services capability)."""


@check(
    metrics=[
        Metric(
            "acs_control",
            "",
            "the bridge's ACS control register; none without the capability",
            required=True,
        ),
        Metric(
            "acs_redirect",
            "",
            "whether the bridge redirects or blocks traffic between devices below it",
            (
                Equal(
                    False,
                    source="NCCL User Guide, Troubleshooting, PCI Access Control Services (ACS), "
                    "and the ACS Control Register of the PCI Express Base Specification",
                    otherwise="warn",
                ),
            ),
            required=True,
        ),
    ],
    remedy=Remedy(
        cause="the firmware or the kernel switched access control on, as virtualization needs it",
        fix="switch ACS off in the firmware, or clear it on these bridges at every boot with "
        "setpci -s <bridge> ECAP_ACS+6.w=0000; root ports alone are not enough",
        command="sudo lspci -vvv | grep -E '^[0-9a-f]|ACSCtl'",
        role="pcie_p2p",
    ),
    optional="traffic between devices that it could redirect",
    group="PCIe",
    follows=("gpu_count", "infiniband_ports", "virtualization"),
)
def pcie_acs(node: Node) -> Iterator[Sample]:
    """Read the access control register of every bridge between the GPUs and the root.

    Those above an RDMA card that shares a switch with a GPU are read too.

    A bridge that redirects requests or completions sends what one GPU writes to its neighbor all
    the way up to the CPU and back: half the bandwidth between GPUs at one switch, and hangs
    where an IOMMU is in the way as well. So it is with GPUDirect RDMA between a GPU and a card at
    one switch. Source validation alone does no harm and is not counted.
    The register is read from the configuration space, which only root sees in full. Not
    applicable in a virtual machine, on ARM, and where one GPU has no peer.
    """
    host = node.host
    need_peers(host)
    bridges = dict.fromkeys(
        bridge for address in host.pci_gpus() for bridge in host.bridges_above(address)
    )
    for address in host.rdma_devices().values():
        above = host.bridges_above(address)
        if any(bridge in bridges for bridge in above):
            bridges.update(dict.fromkeys(above))
    if not bridges:
        raise NotApplicable("no bridge above any GPU")
    reasons = []
    for bridge in bridges:
        try:
            control = host.acs_control(bridge)
        except CouldNotMeasure as error:
            reasons.append(error.reason)
            continue
        subject = "pci " + bridge
        yield Sample("acs_control", "none" if control is None else "0x%04x" % control, "", subject)
        yield Sample("acs_redirect", bool((control or 0) & REDIRECT_BITS), "", subject)
    if reasons:
        more = " (and %d bridges more)" % (len(reasons) - 1) if len(reasons) > 1 else ""
        raise CouldNotMeasure(reasons[0].text + more, together(reasons).code)
