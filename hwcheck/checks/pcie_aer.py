"""The PCIe links of GPUs and cards carry data without errors."""

from __future__ import annotations

from typing import Dict, Iterator, List

from hwcheck.contract.check import CouldNotMeasure, Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import OFTEN, RARE, AtMost
from hwcheck.contract.reasons import NOT_MEASURED, Reason
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node
from hwcheck.node.pcie import cards

SECONDS_PER_HOUR = 3600.0
PCIE = "PCI Express Base Specification, "


@check(
    metrics=[
        Metric(
            "aer_fatal",
            "errors",
            "uncorrectable fatal errors since boot",
            (
                AtMost(
                    PCIE + "error signaling: after a fatal error the link is unreliable; a reset "
                    "of a device can make one too, so it is a warning",
                    warn=0,
                    confidence="derived",
                ),
            ),
            required=True,
        ),
        Metric(
            "aer_nonfatal",
            "errors",
            "uncorrectable nonfatal errors since boot, without unsupported requests",
            (
                AtMost(
                    PCIE + "error signaling: a transaction was lost, on a link that works",
                    warn=0,
                    confidence="derived",
                ),
            ),
            required=True,
            past=RARE,
        ),
        Metric(
            "aer_correctable",
            "errors",
            "correctable errors since boot",
            required=True,
            past=OFTEN,
        ),
        Metric(
            "aer_correctable_per_hour",
            "errors/h",
            "correctable errors since boot, on average",
            (
                AtMost(
                    PCIE + "electrical layer: a bit error ratio of at most 1e-12; 16 lanes at "
                    "8 GT/s then make 460 errors an hour (16 x 8e9 x 3600 s x 1e-12)",
                    warn=460,
                    confidence="derived",
                ),
            ),
            required=True,
        ),
    ],
    remedy=Remedy(
        cause="a board, riser or cable that is not seated, dirty contacts, or a failing retimer",
        fix="power off, reseat or replace riser and cables; when the errors stay, swap slots to "
        "see whether they follow the board or the slot",
        command="grep -H . /sys/bus/pci/devices/*/aer_dev_* | grep TOTAL | grep -v ' 0$'",
    ),
    optional="a PCIe bus of its own",
    group="PCIe",
    follows=("virtualization",),
)
def pcie_aer(node: Node) -> Iterator[Sample]:
    """Read the error counters of every GPU, card and NVSwitch and of the bridges above them.

    A link that repeats packets still works, slower than it should, and is the first sign of one
    that fails. An error may be counted at either end, so the bridges are read as well. The
    kernel counts from boot on. Cards are those of RDMA, and NVMe drives where the inventory
    declares them. Not applicable in a virtual machine, which does not see the counters.
    """
    host = node.host
    names = {card.pci_address: card.subject for card in cards(node)}
    devices: Dict[str, None] = {}
    for address in (*host.pci_gpus(), *host.nvswitches(), *names):
        devices.update(dict.fromkeys((address, *host.bridges_above(address))))
    hours = host.uptime_s() / SECONDS_PER_HOUR
    silent: List[Reason] = []
    for device in devices:
        try:
            errors = host.aer_errors(device)
        except CouldNotMeasure as error:
            silent.append(error.reason)
            continue
        subject = names.get(device, "pci " + device)
        yield Sample("aer_fatal", errors["fatal"], "errors", subject)
        yield Sample("aer_nonfatal", errors["nonfatal"], "errors", subject)
        yield Sample("aer_correctable", errors["correctable"], "errors", subject)
        # In the first hour a handful of errors would make a high rate.
        rate = round(errors["correctable"] / max(hours, 1.0), 3)
        yield Sample("aer_correctable_per_hour", rate, "errors/h", subject)
    if len(silent) == len(devices) and host.hypervisor():
        raise NotApplicable("a virtual machine does not see them")
    if len(silent) == len(devices):
        raise CouldNotMeasure.of(
            silent[0] if silent else Reason(NOT_MEASURED, "no NVIDIA device on the PCI bus")
        )
