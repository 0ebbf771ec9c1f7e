"""The kernel does not move memory between NUMA nodes behind the job's back."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import CouldNotMeasure, Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import Equal
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node


@check(
    metrics=[
        Metric(
            "numa_balancing",
            "",
            "the kernel's automatic NUMA balancing: 0 off, 1 on, 2 memory tiering",
            (
                Equal(
                    "0",
                    source="Linux kernel documentation, sysctl kernel.numa_balancing: unmapping "
                    "pages and the faults that follow cost time, and a workload that is bound to "
                    "its NUMA node gains nothing",
                    otherwise="warn",
                ),
            ),
            required=True,
        ),
        Metric("numa_nodes", "nodes", "NUMA nodes", required=True),
    ],
    remedy=Remedy(
        cause="the distribution's default on machines with several NUMA nodes",
        fix="set kernel.numa_balancing = 0 in /etc/sysctl.d",
        command="sysctl kernel.numa_balancing; numactl --hardware",
        role="system_tuning",
    ),
    optional="several NUMA nodes",
    group="host",
)
def numa_balancing(node: Node) -> Iterator[Sample]:
    """Read whether the kernel balances memory between NUMA nodes by itself.

    It unmaps pages to see who uses them. The threads that feed GPUs and network cards stumble
    over it, which shows as jitter between ranks. Not applicable with one NUMA node or without
    the feature in the kernel.
    """
    nodes = node.host.numa_nodes()
    if nodes < 2:
        raise NotApplicable("one NUMA node")
    try:
        setting = node.host.kernel_setting("kernel/numa_balancing")
    except CouldNotMeasure:  # anybody may read it where it exists
        raise NotApplicable("the kernel has no automatic NUMA balancing") from None
    yield Sample("numa_nodes", nodes, "nodes")
    yield Sample("numa_balancing", setting)
