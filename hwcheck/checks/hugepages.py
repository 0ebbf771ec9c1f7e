"""Memory that is set aside as huge pages is in use."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import CouldNotMeasure, Metric, Remedy, check
from hwcheck.contract.limits import AtMost, like_most
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

GIB = float(1 << 30)


@check(
    metrics=[
        Metric("huge_pages_gib", "GiB", "memory set aside as huge pages", required=True),
        Metric(
            "huge_pages_unused_percent",
            "%",
            "share of the node's memory that is set aside as huge pages and not used",
            (
                AtMost(
                    "Linux kernel documentation, hugetlbpage: reserved pages serve nothing else, "
                    "not even the page cache; half of the memory idle is more than any pool needs",
                    warn=50,
                    confidence="derived",
                ),
            ),
            required=True,
        ),
        Metric(
            "transparent_huge_pages",
            "",
            "mode of transparent huge pages",
            (
                like_most(
                    "Linux kernel documentation, transhuge: the mode changes how long page faults "
                    "and copies on the host take, so one node with another becomes a straggler"
                ),
            ),
            required=True,
        ),
    ],
    remedy=Remedy(
        cause="a pool of huge pages for a program that does not run here, such as a hypervisor",
        fix="lower vm.nr_hugepages, or remove hugepages= from the kernel's command line",
        command="grep -i huge /proc/meminfo; cat /sys/kernel/mm/transparent_hugepage/enabled",
        role="system_tuning",
    ),
    group="host",
)
def hugepages(node: Node) -> Iterator[Sample]:
    """Read how much memory is set aside as huge pages and whether anything uses it.

    What is reserved and idle is missing for pinned buffers, data loaders and checkpoints. The
    mode of transparent huge pages is compared with that of the node's peers.
    """
    pages = node.host.huge_pages()
    if not pages.memory_bytes:
        raise CouldNotMeasure("no MemTotal in /proc/meminfo")
    yield Sample("huge_pages_gib", round(pages.reserved_bytes / GIB, 2), "GiB")
    unused = 100.0 * pages.unused_bytes / pages.memory_bytes
    yield Sample("huge_pages_unused_percent", round(unused, 1), "%")
    yield Sample("transparent_huge_pages", pages.transparent)
