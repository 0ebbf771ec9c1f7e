"""The node runs the kernel that the inventory says."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Metric, Remedy, check
from hwcheck.contract.limits import Equal, FromInventory, like_most
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node


@check(
    metrics=[
        Metric(
            "kernel_release",
            "",
            "release of the running kernel",
            (
                Equal(
                    FromInventory("kernel"),
                    source="the inventory's hwcheck_kernel",
                    confidence="inventory",
                ),
                like_most(
                    "the NVIDIA kernel module is built for one kernel release, and a node that "
                    "was left out of an upgrade behaves unlike the others"
                ),
            ),
            required=True,
            fact="kernel",
        ),
    ],
    remedy=Remedy(
        cause="an upgrade without a reboot, or a node that was left out of an upgrade",
        fix="install the same kernel on all nodes of a kind, and reboot",
        command="uname -r",
    ),
    group="software",
    stage="inventory",
)
def kernel(node: Node) -> Iterator[Sample]:
    """Record the release of the running kernel.

    The driver's module is built for one kernel, and nodes of one kind that differ in it differ
    in more than that. Judged against the inventory's ``hwcheck_kernel`` where that is declared.
    """
    yield Sample("kernel_release", node.host.kernel_setting("kernel/osrelease"))
