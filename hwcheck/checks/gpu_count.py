"""All GPUs are there: on the PCI bus, in NVML, and as many as the inventory says."""

from __future__ import annotations

from typing import Iterator, List

from hwcheck.contract.check import CouldNotMeasure, Metric, Remedy, check
from hwcheck.contract.limits import Equal, FromInventory, FromSample, like_most
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

DECLARED = Equal(
    FromInventory("gpus"), source="the inventory's hwcheck_gpus", confidence="inventory"
)
NVML_COUNT = "NVML API Reference Guide, nvmlDeviceGetCount_v2 and nvmlDeviceGetHandleByIndex_v2"
BUS = "PCI devices of vendor 10de and class 0300 or 0302 in /sys/bus/pci/devices"


PCI_GPUS = Metric(
    "pci_gpus",
    "GPUs",
    "NVIDIA GPUs on the PCI bus",
    (DECLARED, like_most(BUS + "; nodes with the same model are built alike")),
)
NVML_GPUS = Metric(
    "nvml_gpus",
    "GPUs",
    "GPUs that NVML can open",
    (Equal(FromSample("pci_gpus"), source="%s, against %s" % (NVML_COUNT, BUS)), DECLARED),
)
SEEN_BY_NVML = Metric(
    "seen_by_nvml",
    "",
    "whether NVML can open the GPU at this PCI address",
    (Equal(True, source="%s, against %s" % (NVML_COUNT, BUS)),),
)
CONTAINER_GPUS = Metric(
    "container_gpus", "GPUs", "GPUs that NVML can open in this container", (DECLARED,)
)


@check(
    metrics=[
        PCI_GPUS,
        NVML_GPUS,
        SEEN_BY_NVML,
        CONTAINER_GPUS,
    ],
    remedy=Remedy(
        cause="a GPU fell off the bus, is held by another driver, or did not come up at boot",
        fix="look for Xid 79 in the kernel log; reboot, power the node off and on where that does "
        "not bring the GPU back, then reseat the board or have it replaced",
        command="lspci -k -d 10de: && nvidia-smi -L",
    ),
    group="GPUs",
    stage="inventory",
)
def gpu_count(node: Node) -> Iterator[Sample]:
    """Count the GPUs on the PCI bus and in NVML, and find the ones that NVML cannot open.

    A job that gets seven GPUs where it expects eight fails late or, worse, runs with a wrong
    shape. A GPU that is lost while the node runs stays on the PCI bus and leaves NVML, so both
    are counted. In a container the bus shows GPUs that belong to others: there only NVML's
    count is taken, and it means something only against the inventory's ``hwcheck_gpus``.
    """
    in_nvml = _nvml_addresses(node)
    if node.host.in_container():
        yield Sample("container_gpus", len(in_nvml), "GPUs")
        if "gpus" not in node.request.expect:
            raise CouldNotMeasure(
                "in a container the PCI bus shows GPUs of others; set hwcheck_gpus in the inventory"
            )
        return
    on_bus = node.host.pci_gpus()
    yield Sample("pci_gpus", len(on_bus), "GPUs")
    yield Sample("nvml_gpus", len(in_nvml), "GPUs")
    for address in on_bus:
        yield Sample("seen_by_nvml", address in in_nvml, subject="pci " + address)


def _nvml_addresses(node: Node) -> List[str]:
    addresses: List[str] = []
    try:
        gpus = node.gpus()
    except CouldNotMeasure:
        return addresses  # NVML does not answer: it sees none
    for gpu in gpus:
        try:
            addresses.append(gpu.pci_address())
        except CouldNotMeasure:
            continue  # counted by NVML and not to be opened: lost
    return addresses
