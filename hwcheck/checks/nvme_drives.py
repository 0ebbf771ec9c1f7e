"""The NVMe drives that the inventory declares are there and work."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import Equal, FromInventory
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

LIVE = "live"


@check(
    metrics=[
        Metric(
            "nvme_drives",
            "drives",
            "NVMe drives on the PCIe bus that work",
            (
                Equal(
                    FromInventory("nvme"),
                    source="the inventory's hwcheck_nvme",
                    confidence="inventory",
                ),
            ),
            required=True,
        ),
        Metric(
            "nvme_state",
            "",
            "state of a drive's controller by its driver",
            (
                Equal(
                    LIVE,
                    source="Linux kernel, drivers/nvme/host/core.c, nvme_sysfs_show_state: only a "
                    "live controller takes commands",
                ),
            ),
        ),
        Metric("without_driver", "", "a drive on the bus that no driver has, or one of a guest"),
    ],
    remedy=Remedy(
        cause="a drive that failed, is not seated, or was taken out",
        fix="read the kernel log for nvme; reseat or replace the drive; where the machine has "
        "another number of drives on purpose, correct hwcheck_nvme",
        command="nvme list; lspci -d ::0108; grep . /sys/class/nvme/*/state; "
        "sudo dmesg | grep nvme",
    ),
    optional="NVMe drives declared",
    group="host",
    varies="goes by what the inventory declares",
    stage="inventory",
)
def nvme_drives(node: Node) -> Iterator[Sample]:
    """Count the NVMe drives on the PCIe bus and read what their driver says of them.

    A drive that dropped off takes a stripe of the scratch space with it, and jobs that load data
    from there end or wait. How many there should be only the inventory knows: not applicable
    where it does not declare hwcheck_nvme. Drives over a network fabric are not counted.
    """
    if "nvme" not in node.request.expect:
        raise NotApplicable("the inventory does not declare hwcheck_nvme")
    drives = node.host.nvme_drives()
    # Kernels before 4.18 do not tell the state.
    states = {drive.name: drive.state or LIVE for drive in drives if drive.name}
    yield Sample("nvme_drives", list(states.values()).count(LIVE), "drives")
    for name, state in states.items():
        yield Sample("nvme_state", state, "", name)
    for drive in drives:
        if not drive.name:
            yield Sample("without_driver", True, "", "pci " + drive.pci_address)
