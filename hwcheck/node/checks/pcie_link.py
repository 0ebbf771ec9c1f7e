"""Every GPU uses all PCIe lanes that it and its slot have."""

from __future__ import annotations

from typing import Iterator

from hwcheck.node.check import Gpu, Metric, Node, NodeHost, Remedy, check
from hwcheck.node.gpus import is_vgpu, where_supported
from hwcheck.node.limits import AtLeast, FromSample
from hwcheck.node.pcie import has_c2c, newest, widest
from hwcheck.node.wire import Sample


@check(
    metrics=[
        Metric(
            "pcie_link_width",
            "lanes",
            "PCIe lanes in use",
            (
                AtLeast(
                    "NVML API Reference Guide, nvmlDeviceGetMaxPcieLinkWidth (possible with this "
                    "device and system), and the upstream port's max_link_width in sysfs",
                    fail=1.0,
                    of=FromSample("pcie_link_width_max"),
                ),
            ),
            required=True,
        ),
        Metric(
            "pcie_link_width_max", "lanes", "lanes that both ends of the link have", required=True
        ),
        Metric(
            "pcie_link_generation",
            "",
            "PCIe generation now; drops when the GPU is idle",
            required=True,
        ),
        Metric(
            "pcie_link_generation_max",
            "",
            "PCIe generation that both ends of the link reach",
            required=True,
        ),
    ],
    remedy=Remedy(
        cause="a board or riser that is not seated, a dirty or damaged connector or cable, or a "
        "slot bifurcated in firmware",
        fix="power off, reseat board, riser and cables; when the width stays, swap slots to see "
        "whether it follows the board or the slot",
        command="nvidia-smi --query-gpu=index,pcie.link.width.current,pcie.link.width.max "
        "--format=csv && sudo lspci -vv -d 10de: | grep -E 'LnkCap:|LnkSta:'",
    ),
    per_gpu=True,
    optional="GPUs that reach their host over PCIe",
)
def pcie_link(node: Node) -> Iterator[Sample]:
    """Compare each GPU's PCIe link width with the widest that both ends of the link support.

    A link that trained at x8 instead of x16 halves the bandwidth to the host, the network card
    and, without NVLink, the other GPUs, and nothing reports an error. An x16 board in an x8 slot
    is as it was built, so the slot counts as well, and so is one of two boards that share the lanes
    of a slot: both have half of them. A virtual machine may not show the slot: few lanes say
    nothing there. A GPU that reaches its host over NVLink-C2C (GH200, GB200) needs no wide link,
    and a vGPU has none of its own: they are left out. The generation is recorded and not judged: it
    drops at idle to save power and says something only under load.
    """
    yield from where_supported(
        node,
        lambda gpu: _link(gpu, node.host),
        "no GPU of this node depends on a PCIe link: vGPUs, or GPUs on NVLink-C2C",
    )


def _link(gpu: Gpu, host: NodeHost) -> Iterator[Sample]:
    if is_vgpu(gpu) or has_c2c(gpu, host):
        return
    width = gpu.pcie_link_width()
    yield Sample("pcie_link_width", width, "lanes", gpu.subject)
    yield Sample("pcie_link_width_max", widest(gpu, host, width), "lanes", gpu.subject)
    generation = gpu.pcie_link_generation()
    reached = newest(gpu, host)
    yield Sample("pcie_link_generation", generation, "", gpu.subject)
    yield Sample("pcie_link_generation_max", reached, "", gpu.subject)
