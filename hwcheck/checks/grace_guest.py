"""A virtual machine on Grace has what its GPUs and cards need to reach memory fast."""

from __future__ import annotations

import re
from typing import Iterator

from hwcheck.contract.check import Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import Equal, like_most
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

GRACE = re.compile(r"\b(?:GH200|GB[23]00)\b")
NVIDIA_CARDS = ("mlx4_core", "mlx5_core")
TRANSLATES = "DMA"


@check(
    metrics=[
        Metric(
            "card_ats",
            "",
            "whether address translation services (ATS) are on for a card",
            (
                Equal(
                    True,
                    source="NVIDIA AI Enterprise, Optimizing VM Configuration for AI Inference, "
                    "appendix, ATS and ACS configuration: GPUDirect RDMA in a virtual machine "
                    "reaches its bandwidth only with ATS on the card",
                    otherwise="warn",
                ),
            ),
        ),
        Metric(
            "command_queues",
            "",
            "whether the SMMU has command queues of its own for this guest (CMDQV)",
            (
                Equal(
                    True,
                    source="Linux, commit 918eb5c856f6 (iommu/arm-smmu-v3: Add in-kernel support "
                    "for NVIDIA Tegra241 CMDQV): guests with it invalidate translations in 10 to "
                    "30 % of the time",
                    confidence="published",
                    otherwise="warn",
                ),
            ),
        ),
        Metric(
            "gpu_memory_nodes",
            "nodes",
            "NUMA nodes with memory and without processors: memory of GPUs",
            (
                like_most(
                    "NVIDIA driver 580 release notes, coherent driver-based memory management: a "
                    "GPU's memory is a NUMA node, or the driver's alone; programs place memory "
                    "accordingly"
                ),
            ),
            required=True,
        ),
    ],
    remedy=Remedy(
        cause="a virtual machine whose definition lacks a part of what the hardware offers",
        fix="on the host: mlxconfig -d DEVICE set ATS_ENABLED=true and a cold start; give the "
        "guest an SMMU with CMDQV and memory in huge pages, and the NUMA nodes of the GPUs",
        command="sudo lspci -d 15b3: -vvv | grep ATSCtl; ls -d /sys/bus/acpi/devices/NVDA200C*; "
        "numactl --hardware",
    ),
    optional="a virtual machine on Grace",
    group="GPUs",
)
def grace_guest(node: Node) -> Iterator[Sample]:
    """Read whether a guest on Grace was given ATS, command queues of the SMMU and GPU memory.

    Without them jobs run and are slow: cards fetch each translation through the IOMMU, and each
    invalidation traps into the hypervisor. Cards without the capability, such as EFA, and a guest
    whose devices are not translated have nothing to be judged. Not applicable on bare metal and
    beside other processors.
    """
    host = node.host
    grace = host.cpu_vendor() == "ARM" and any(GRACE.search(gpu.name()) for gpu in node.gpus())
    if not grace or not host.hypervisor():
        raise NotApplicable("no virtual machine on Grace")
    yield Sample("gpu_memory_nodes", host.memory_only_numa_nodes(), "nodes")
    cards = {port.pci_address: port for port in host.rdma_ports() if port.driver in NVIDIA_CARDS}
    translated = any(host.iommu_domain(gpu).startswith(TRANSLATES) for gpu in host.pci_gpus())
    ats = {port.name: host.ats_enabled(address) for address, port in cards.items()}
    if not translated and all(enabled is None for enabled in ats.values()):
        raise NotApplicable("its GPUs are not translated, and no card has ATS")
    if translated:
        yield Sample("command_queues", host.has_command_queues())
    for name, enabled in ats.items():
        if enabled is not None:
            yield Sample("card_ats", enabled, "", name.partition("/")[0])
