"""Whether the GPUs of a node have anybody to talk to over PCIe."""

from __future__ import annotations

from hwcheck.node.check import Host, NotApplicable

X86 = ("GenuineIntel", "AuthenticAMD")


def need_peers(host: Host) -> None:
    """Raise NotApplicable where no PCIe traffic between devices can go astray.

    A virtual machine needs access control and translation for its isolation, and cannot change
    either. One GPU without an RDMA device has no peer. On ARM the IOMMU is part of how GPU and
    CPU share memory.
    """
    hypervisor = host.hypervisor()
    if hypervisor:
        raise NotApplicable("a virtual machine (%s) needs it for its isolation" % hypervisor)
    if host.cpu_vendor() not in X86:
        raise NotApplicable("only x86 processors can do without it")
    if len(host.pci_gpus()) < 2 and not host.rdma_ports():
        raise NotApplicable("one GPU and no RDMA device: no traffic between devices")
