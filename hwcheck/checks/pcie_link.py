"""Every GPU uses all PCIe lanes that it and its slot have."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import IDLE_LINK, OWN_MAXIMUM, TIMED, Metric, Remedy, Varies, check
from hwcheck.contract.limits import AtLeast, FromSample, like_most
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import is_vgpu, where_supported
from hwcheck.node.node import Gpu, Node, NodeHost
from hwcheck.node.pcie import has_c2c, newest, slot_generation, widest

PCIE_LINK_WIDTH_MAX = Metric(
    "pcie_link_width_max",
    "lanes",
    "lanes that both ends of the link have",
    required=True,
    setting=True,
)
PCIE_LINK_GENERATION_MAX = Metric(
    "pcie_link_generation_max",
    "",
    "PCIe generation that both ends of the link reach",
    (
        like_most(
            "nvmlDeviceGetMaxPcieLinkGeneration and the upstream port's max_link_speed in "
            "sysfs, which a firmware setting lowers: slots of one name on hosts of one "
            "kind are built alike",
            by_slot=True,
        ),
    ),
    required=True,
)


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
            varies=OWN_MAXIMUM,
        ),
        PCIE_LINK_WIDTH_MAX,
        Metric(
            "pcie_link_generation",
            "",
            "PCIe generation now; drops when the GPU is idle",
            required=True,
            varies=IDLE_LINK,
        ),
        PCIE_LINK_GENERATION_MAX,
        Metric(
            "pcie_slot_generation",
            "",
            "PCIe generation that the slot offers; not sent by a virtual machine",
            (
                AtLeast(
                    "derived: slots for GPUs are of generation 3 or newer since PCI Express 3.0 "
                    "came to processors in 2012; one that offers less is held there by a firmware "
                    "setting, hangs on a chipset or on a cable for mining",
                    warn=3,
                    confidence="derived",
                ),
            ),
            varies=Varies("goes into pcie_link_generation_max", hosts=False, nights=False),
            of_some="goes by its slot",
        ),
    ],
    remedy=Remedy(
        cause="a board or riser that is not seated, a dirty or damaged connector or cable, or a "
        "slot bifurcated or slowed down in firmware",
        fix="look for a speed limit of the slot in the firmware's settings; power off, reseat "
        "board, riser and cables; when the width stays, swap slots to see whether it follows the "
        "board or the slot",
        command="nvidia-smi --query-gpu=index,pcie.link.width.current,pcie.link.width.max "
        "--format=csv && sudo lspci -vv -d 10de: | grep -E 'LnkCap:|LnkSta:'",
    ),
    per_gpu=True,
    optional="GPUs that reach their host over PCIe",
    group="PCIe",
    beside=TIMED,
)
def pcie_link(node: Node) -> Iterator[Sample]:
    """Compare each GPU's PCIe link width with the widest that both ends of the link support.

    A link that trained at x8 instead of x16 halves the bandwidth to the host, the network card
    and, without NVLink, the other GPUs, and nothing reports an error. An x16 board in an x8 slot
    is as it was built, so the slot counts as well, and so is one of two boards that share the lanes
    of a slot: both have half of them. A virtual machine may not show the slot: few lanes say
    nothing there. A GPU that reaches its host over NVLink-C2C (GH200, GB200) needs no wide link,
    and a vGPU has none of its own: they are left out. The generation in use is recorded and not
    judged: it drops at idle to save power and says something only under load. The one that both
    ends reach is held against the same slot of like hosts, and the slot's own against what slots
    for GPUs have: firmware that holds the slots at generation 1 does so to all GPUs of a host.
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
    offered = slot_generation(gpu, host)
    if offered is not None:
        yield Sample("pcie_slot_generation", offered, "", gpu.subject)
