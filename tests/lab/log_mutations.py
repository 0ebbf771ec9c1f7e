"""What the kernel's log of a healthy node could say: every Xid and SXid that is known, and more.

The lines are of the shape that the driver and the kernel give them (for the Xids NVIDIA's catalog,
for SXids its Fabric Manager User Guide; ``rm_init_adapter failed`` as in NVIDIA/gpu-operator#1146,
``has fallen off the bus`` without an Xid as in Bumblebee-Project/Bumblebee#554, those of AER as in
Linux, drivers/pci/pcie/aer.c, those of memory, cards and drives as in ``kernel_faults``); numbers
and processes are made up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hwcheck.checks.shared.xids import RECOVERY, SXID_CATALOG, XID_CATALOG
from tests.lab.host_mutations import roles
from tests.lab.mutation import Mutation
from tests.lab.scenario import Scenario

AGO_S = 1000
OF_XID = {
    79: "GPU has fallen off the bus.",
    154: "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
}
MODULE = "memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 page:0x14ff)"
HALTED = "poll_health:825:(pid 0): device's health compromised - reached miss count"
LINES: Mapping[str, Sequence[str]] = {
    "fallen off the bus without an Xid": ["NVRM: GPU at PCI:{gpu}: GPU has fallen off the bus."],
    "RmInitAdapter failed": ["NVRM: GPU {gpu}: RmInitAdapter failed! (0x24:0x72:1568)"],
    "rm_init_adapter failed": ["NVRM: GPU {gpu}: rm_init_adapter failed, device minor number 3"],
    "GSP did not come up": ["NVRM: GPU3 RmInitAdapter: Cannot initialize GSP firmware RM"],
    "BAR without an address": [
        "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:",
        "NVRM: BAR1 is 0M @ 0x0 (PCI:{gpu})",
    ],
    "probe failed": ["nvidia: probe of {gpu} failed with error -1"],
    "API mismatch": ["NVRM: API mismatch: the client has the version 550.90.07, but"],
    "nouveau is bound": ["nouveau {gpu}: NVIDIA GH100 (180000a1)"],
    "AER corrected": ["pcieport {port}: AER: Corrected error message received from {gpu}"],
    "AER not fatal": ["pcieport {port}: AER: Uncorrected (Non-Fatal) error received: {gpu}"],
    "AER fatal": ["pcieport {port}: AER: Uncorrected (Fatal) error received: {gpu}"],
    "AER recovery failed": ["pcieport {port}: AER: device recovery failed"],
    "link down": ["pcieport {port}: pciehp: Slot(3): Link Down"],
    "less bandwidth": ["pci {gpu}: 32.000 Gb/s available PCIe bandwidth, limited by 2.5 GT/s x16"],
    "DMAR fault": [
        "DMAR: DRHD: handling fault status reg 2",
        "DMAR: [DMA Read NO_PASID] Request device [{bus}] fault addr 0x7f000000 [fault reason 6]",
    ],
    "IOMMU page fault": [
        "nvidia {gpu}: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0012 address=0x7f00 flags=0]"
    ],
    "IOMMU page fault of a card": [
        "mlx5_core {card}: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0012 address=0x0 flags=0]"
    ],
    "card's firmware halted": ["mlx5_core {card}: " + HALTED],
    "card's firmware halted, and recovered": [
        "mlx5_core {card}: " + HALTED,
        "mlx5_core {card}: mlx5_health_try_recover:381:(pid 9): health recovery succeeded",
    ],
    "card's link down": ["mlx5_core {card} ens1f0np0: Link down"],
    "card too warm": [
        "mlx5_core {card}: temp_warn:170:(pid 0): High temperature on sensors with bit set 0 1"
    ],
    "cable not accepted": [
        "mlx5_core {card}: Port module event[error]: module 0, Cable error, Power budget exceeded"
    ],
    "machine check, corrected": ["mce: [Hardware Error]: Machine check events logged"],
    "machine check, corrected, 400 times": ["mce: [Hardware Error]: Machine check events logged"]
    * 400,
    "machine check": ["mce: [Hardware Error]: CPU 5: Machine Check: 0 Bank 5: bea0000000000108"],
    "machine check of AMD": ["[Hardware Error]: Uncorrected, software containable error."],
    "memory corrected": [f"EDAC MC0: 1 CE {MODULE}"],
    "memory corrected, 2000 errors": [f"EDAC MC0: 500 CE {MODULE}"] * 4,
    "memory not corrected": [f"EDAC MC0: 1 UE {MODULE}"],
    "firmware reports hardware": ["{{1}}[Hardware Error]: event severity: fatal"],
    "firmware reports hardware, corrected": ["{{1}}[Hardware Error]: event severity: corrected"],
    "ext4 error": ["EXT4-fs error (device nvme0n1p2): ext4_find_entry:1455: reading directory"],
    "remounted read-only": ["EXT4-fs (nvme0n1p2): Remounting filesystem read-only"],
    "disk does not answer": ["nvme nvme0: I/O 24 QID 5 timeout, aborting"],
    "disk gone": ["nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10"],
    "disk I/O error": ["blk_update_request: I/O error, dev nvme0n1, sector 1953525 op 0x0:(READ)"],
    "disk medium error": ["critical medium error, dev sda, sector 1953525 op 0x0:(READ) flags 0"],
    "out of memory": ["Out of memory: Killed process 41234 (python3) total-vm:812000000kB"],
    "soft lockup": ["watchdog: BUG: soft lockup - CPU#12 stuck for 26s! [nv_queue:2311]"],
    "hung task": ["INFO: task nvidia-smi:41234 blocked for more than 120 seconds."],
    "kernel BUG": ["BUG: unable to handle page fault for address: ffffa0e4c1000000"],
    "CPU too warm": ["CPU12: Package temperature above threshold, cpu clock throttled"],
    "clock unstable": ["clocksource: timekeeping watchdog on CPU3: Marking 'tsc' as unstable"],
}
"""Lines of the driver, the kernel and other drivers that tell of a fault without an Xid."""


def of_log(scenario: Scenario, catalog: bool) -> Iterator[Mutation]:
    """Yield a message more in the log; of the catalogs only where they are wanted."""
    kernel = scenario.host.get("kernel", {})
    by_role = roles(scenario)
    if kernel.get("log", ()) is None or not by_role.get("gpu"):
        return
    gpu = by_role["gpu"][min(3, len(by_role["gpu"]) - 1)]
    port = by_role.get("port of a gpu", [gpu])[0]
    card = by_role.get("card", [""])[0]
    at_s = kernel.get("uptime_s", 600_000) - AGO_S

    def added(quantity: str, change: str, *texts: str) -> Mutation:
        log = [*kernel.get("log", ()), *({"at_s": at_s, "text": text} for text in texts)]
        return Mutation(quantity, change, "one", host={"kernel": {"log": log}})

    of = {"gpu": gpu, "port": port, "card": card, "bus": gpu.partition(":")[2]}
    for change, texts in LINES.items():
        if card or not any("{card}" in text for text in texts):
            yield added("log", change, *(text.format(**of) for text in texts))
    bus = gpu.rpartition(".")[0]
    for code in (13, 31, 94):
        line = f"NVRM: Xid (PCI:{bus}): {code}, pid=41234, name=python3, Ch 00000008"
        yield added("log.xid", f"{code}, 200 times on one GPU", *[line] * 200)
    if not catalog:
        return
    for code in sorted({*XID_CATALOG, RECOVERY, 999}):
        words = OF_XID.get(code, "pid=41234, name=python3")
        yield added("log.xid", str(code), f"NVRM: Xid (PCI:{bus}): {code}, {words}")
    for switch in by_role.get("nvswitch", ())[:1]:
        for code in sorted({*SXID_CATALOG, 99999}):
            for word in ("Non-fatal", "Fatal"):
                text = f"nvidia-nvswitch0: SXid (PCI:{switch}): {code}, {word}, Link 03 made up"
                yield added("log.sxid", f"{code} {word}", text)
