"""The host has all of its memory, and room in it."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import BY_USE, Metric, Remedy, check
from hwcheck.contract.limits import AbovePeers, AtLeast, AtMost, FromSample
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

GIB = float(1 << 30)


@check(
    metrics=[
        Metric(
            "memory_total_gib",
            "GiB",
            "memory of the host's processors, as the kernel counts it",
            required=True,
        ),
        Metric(
            "numa_memory_gib",
            "GiB",
            "memory of a NUMA node that has processors; not of a virtual machine",
            (
                AtLeast(
                    "derived from the memory population rules of server makers (each processor "
                    "alike): one module of 16 is 6 % of its node, and what the kernel keeps for "
                    "itself is less than 3 %",
                    warn=0.95,
                    of=FromSample("numa_memory_most_gib"),
                    confidence="derived",
                ),
            ),
        ),
        Metric("numa_memory_most_gib", "GiB", "the most that a NUMA node of this host has"),
        Metric(
            "memory_held_percent",
            "%",
            "memory that programs, file systems in memory and the kernel hold, as a share of all; "
            "neither file caches nor huge pages",
            (
                AtMost(
                    "derived from earlyoom(1), which ends programs when less than 10 % of the "
                    "memory is available: a job that starts there does not come far",
                    warn=90,
                    confidence="derived",
                ),
                AbovePeers(
                    "derived: hosts that wait for work hold a few percent; half of the memory more "
                    "than on the others is a program that was left behind or files in /dev/shm",
                    margin=50,
                ),
            ),
        ),
        Metric(
            "swap_used_gib",
            "GiB",
            "memory that is swapped out to a disk",
            required=True,
            varies=BY_USE,
        ),
        Metric(
            "swap_used_percent",
            "%",
            "that, as a share of the memory",
            (
                AtMost(
                    "derived from Kubernetes, kubelet (refuses to start beside swap unless told "
                    "otherwise) and proc(5), /proc/swaps: pages of idle daemons are a few GiB; "
                    "above a twentieth of the memory jobs themselves are swapped out",
                    warn=5,
                    confidence="derived",
                ),
            ),
            required=True,
            varies=BY_USE,
        ),
    ],
    remedy=Remedy(
        cause="a memory module that failed or was left out; a job that takes more than there is, "
        "or one that left programs or files in memory behind",
        fix="look at the management controller's list of modules and its event log; reseat or "
        "replace the module. For swap: see who is swapped out, then switch swap off. For memory "
        "that is held: end what is left of former jobs, and empty /dev/shm and /tmp",
        command="free -g; numactl --hardware; sudo dmidecode -t memory | grep -E 'Size|Locator'; "
        "cat /proc/swaps; ps -eo rss,user,args --sort=-rss | head; df -t tmpfs",
    ),
    gpu=False,
    group="host",
)
def host_memory(node: Node) -> Iterator[Sample]:
    """Read the memory of the host, how it lies on the NUMA nodes, and how much of it is in use.

    A module that fails is switched off at boot: the host goes on with less memory and fewer
    channels, and nothing reports it but the figures, which are compared with those of like hosts.
    Data loaders and checkpoints that are swapped out make every GPU wait. Memory of GPUs (GH200,
    GB200) and swap in compressed memory are left out.
    """
    nodes = node.host.memory_by_numa_bytes()
    total = sum(nodes.values()) or node.host.memory_total_bytes()
    yield Sample("memory_total_gib", round(total / GIB, 1), "GiB")
    populated = {number: size for number, size in nodes.items() if size}
    if not node.host.hypervisor():
        for number, size in sorted(populated.items()):
            subject = "numa%d" % number
            yield Sample("numa_memory_gib", round(size / GIB, 1), "GiB", subject)
            most = round(max(populated.values()) / GIB, 1)
            yield Sample("numa_memory_most_gib", most, "GiB", subject)
    held = node.host.memory_held_bytes()
    share = min(100.0, 100.0 * held / node.host.memory_total_bytes())
    yield Sample("memory_held_percent", round(share, 1), "%")
    swapped = node.host.swap_used_bytes()
    yield Sample("swap_used_gib", round(swapped / GIB, 1), "GiB")
    yield Sample("swap_used_percent", round(100.0 * swapped / total, 1), "%")
