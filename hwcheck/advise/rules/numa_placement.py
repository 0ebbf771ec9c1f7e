"""Ranks and memory are not kept near their GPU."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="Ranks cannot be, or are not, kept near their GPU (NUMA)",
    follows="copies to the GPU cross sockets, and bandwidth changes from run to run",
    fix="set kernel.numa_balancing = 0 in /etc/sysctl.d; update firmware that does not place "
    "the slot; pin ranks to the CPUs that nvidia-smi topo -m names",
    confirm="cat /proc/sys/kernel/numa_balancing; nvidia-smi topo -m; grep . "
    "/sys/bus/pci/devices/*/numa_node",
    source="NCCL User Guide, Environment Variables, NCCL_IGNORE_CPU_AFFINITY; Linux kernel, "
    "admin-guide/sysctl/kernel, numa_balancing",
)
def numa_placement(case: Case) -> Sign | None:
    """Look for it. Slow copies follow from it, unless a link that came down is certain."""
    own = (*case.bad("numa_balancing", "numa_balancing"), *case.bad("topology", "numa_unknown"))
    copies = (*case.bad("host_to_device"), *case.bad("device_to_host"))
    return sign("likely", (*own, *copies) if own else ())
