"""No CPU is held at its lowest frequency."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import AtMost, like_most
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

SCALING_ANYWAY = ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")
"""Drivers whose powersave governor scales with the load (Linux kernel documentation, intel_pstate
and amd-pstate, active mode)."""


@check(
    metrics=[
        Metric("cpu_governor", "CPUs", "CPUs with this driver and governor", required=True),
        Metric(
            "frequency_driver",
            "",
            "frequency driver of most CPUs",
            (
                like_most(
                    "Linux kernel documentation, CPU Performance Scaling: the driver goes by the "
                    "processor, the firmware's settings and the kernel's options, and each has "
                    "other governors and frequencies"
                ),
            ),
            required=True,
        ),
        Metric(
            "governor",
            "",
            "governor of most CPUs",
            (
                like_most(
                    "Linux kernel documentation, CPU Performance Scaling: governors of one driver "
                    "choose other frequencies, and a job waits for its slowest node",
                    alike="frequency_driver",
                ),
            ),
            required=True,
        ),
        Metric(
            "slow_cpus",
            "CPUs",
            "CPUs whose governor keeps them at the lowest frequency",
            (
                AtMost(
                    "Linux kernel documentation, CPU Performance Scaling: the generic powersave "
                    "governor requests the lowest frequency",
                    warn=0,
                ),
            ),
            required=True,
        ),
    ],
    remedy=Remedy(
        cause="a power-saving profile",
        fix="choose the performance governor: tuned-adm profile throughput-performance, or "
        "cpupower frequency-set -g performance",
        command="cpupower frequency-info --policy; "
        "cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor | sort | uniq -c",
        role="system_tuning",
    ),
    optional="a kernel that controls CPU frequencies",
    group="host",
    follows=("virtualization",),
)
def cpu_governor(node: Node) -> Iterator[Sample]:
    """Count the CPUs by frequency driver and governor.

    Small messages and kernel launches run at the speed of one CPU core. The generic powersave
    governor pins it to its lowest clock; the one of intel_pstate or amd-pstate scales and is no
    fault. The governor is compared with that of the node's peers that have the same driver. Not
    applicable where the kernel does not control frequencies, as in virtual machines.
    """
    governors = node.host.cpu_governors()
    if not governors:
        raise NotApplicable("the kernel does not control CPU frequencies here")
    driver, _, governor = max(sorted(governors), key=lambda name: governors[name]).rpartition(" ")
    yield Sample("frequency_driver", driver or "unknown")
    yield Sample("governor", governor)
    slow = 0
    for name, cpus in sorted(governors.items()):
        yield Sample("cpu_governor", cpus, "CPUs", "governor " + name)
        driver, _, governor = name.rpartition(" ")
        if governor == "powersave" and driver not in SCALING_ANYWAY:
            slow += cpus
    yield Sample("slow_cpus", slow, "CPUs")
