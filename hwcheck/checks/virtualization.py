"""The node is the machine, real or virtual, that the inventory says."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import TIMED, Metric, Remedy, check
from hwcheck.contract.limits import Equal, FromInventory, like_most
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

HYPERVISOR = Metric(
    "hypervisor",
    "",
    "hypervisor below this machine, or none",
    (
        Equal(
            FromInventory("hypervisor"),
            source="the inventory's hwcheck_hypervisor",
            confidence="inventory",
        ),
        like_most(
            "Linux kernel, /sys/hypervisor, CPUID and DMI: the same GPUs behind another "
            "hypervisor have other bandwidth, topology and counters"
        ),
    ),
    required=True,
)
PRODUCT = Metric(
    "product", "", "vendor and product of the machine by its firmware (DMI)", required=True
)
CONTAINER = Metric("container", "", "whether this login is in a container", required=True)


@check(
    metrics=[
        HYPERVISOR,
        PRODUCT,
        CONTAINER,
    ],
    remedy=Remedy(
        cause="the address leads to another machine than was meant, or the instance type changed",
        fix="correct the address or hwcheck_hypervisor in the inventory",
        command="systemd-detect-virt; cat /sys/class/dmi/id/product_name",
    ),
    group="host",
    explains_silence=True,
    stage="inventory",
    beside=TIMED,
)
def virtualization(node: Node) -> Iterator[Sample]:
    """Record whether the node is a virtual machine or a container, and its product name.

    In a virtual machine PCIe topology, error counters and BAR sizes are what the hypervisor shows,
    and access control cannot be switched off, so other checks ask this first. Judged against the
    inventory's ``hwcheck_hypervisor`` (``none`` for bare metal), and without it against most hosts
    with the same GPUs. Products may well be mixed: they are recorded.
    """
    yield Sample("hypervisor", node.host.hypervisor() or "none")
    yield Sample("product", node.host.product()[:200] or "unknown")
    yield Sample("container", node.host.in_container())
