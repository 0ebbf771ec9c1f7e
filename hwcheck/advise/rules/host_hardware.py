"""Parts of the host beside the GPUs that fail, by the kernel's words."""

from __future__ import annotations

from hwcheck.advise.rule import HostFindings, Sign, rule, sign
from hwcheck.judge.records import Finding

KERNEL = "kernel_faults"


def _with_ports(host: HostFindings, of_cards: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return findings of cards (``mlx5_4 module 0``), and those of their ports."""
    names = {finding.subject.partition(" ")[0] for finding in of_cards}
    ports = tuple(
        finding
        for check in ("infiniband_ports", "port_flaps")
        for finding in host.bad(check)
        if finding.subject.removeprefix("port ").partition("/")[0] in names
    )
    counts = host.bad("infiniband_ports", "active_ports") if ports else ()
    return (*of_cards, *ports, *counts)


@rule(
    title="Memory of the host had errors that could not be corrected",
    effect="the program whose memory it was ended, or the node restarted; the next one that gets "
    "the memory may meet the same",
    fix="drain the node; find the module by its name in the management controller's log, reseat "
    "it, and have it replaced where the error comes back or others were corrected there",
    confirm="sudo dmesg --ctime | grep -E 'EDAC|Hardware Error|Memory failure'; sudo ras-mc-ctl "
    "--error-count; ipmitool sel list | grep -i -E 'memory|ecc'",
    source="Linux, drivers/edac/edac_mc.c and mm/memory-failure.c; mcelog.conf, "
    "uc-error-threshold = 1 / 24h",
)
def host_memory_failing(host: HostFindings) -> Sign | None:
    """The memory controller says it; processor and firmware tell of the same error."""
    lost = host.bad(KERNEL, "memory_uncorrected")
    same = ("memory_corrected", "machine_checks", "machine_checks_corrected", "firmware_errors")
    return sign("certain", lost, follows=host.bad(KERNEL, *same))


@rule(
    title="A memory module of the host is corrected again and again; nothing was lost",
    effect="none for now: results are right. A module that is corrected often is likelier to have "
    "an error that cannot be, which ends a job or the node",
    fix="keep the node in service and watch the count; reseat the module at the next service, and "
    "have it replaced where the errors go on or the vendor's own count is reached",
    confirm="sudo ras-mc-ctl --error-count; grep . /sys/devices/system/edac/mc/mc*/dimm*/"
    "dimm_ce_count; sudo dmesg --ctime | grep EDAC",
    source="mcelog.conf, [dimm] ce-error-threshold = 10 / 24h; Schroeder, Pinheiro and Weber, "
    "DRAM Errors in the Wild, SIGMETRICS 2009",
)
def host_memory_errors_corrected(host: HostFindings) -> Sign | None:
    """The memory controller counts what it corrects."""
    corrected = host.bad(KERNEL, "memory_corrected")
    checks = host.bad(KERNEL, "machine_checks_corrected")
    return sign("certain", corrected, follows=checks)


@rule(
    title="A processor, or what hangs on it, reported hardware errors",
    effect="the node restarts or programs end without a cause of their own; after one that was not "
    "corrected, results of what ran then are in doubt",
    fix="read the firmware's own log for the part (processor, memory, PCIe slot); update firmware "
    "and microcode; drain the node where an error was not corrected, and have the part replaced "
    "where it comes back",
    confirm="sudo dmesg --ctime | grep -E 'mce:|Hardware Error|BERT'; sudo ras-mc-ctl --errors; "
    "ipmitool sel elist | tail -n 20",
    source="Linux, arch/x86/kernel/cpu/mce/core.c, drivers/edac/mce_amd.c, drivers/acpi/apei "
    "(GHES, BERT)",
)
def processor_errors(host: HostFindings) -> Sign | None:
    """Which part it is of, the record says, and not the line that is counted."""
    metrics = ("machine_checks", "machine_checks_corrected", "firmware_errors")
    return sign("likely", host.bad(KERNEL, *metrics))


@rule(
    title="The firmware of a network card has halted",
    effect="jobs over several nodes end or hang as they use its port, which may go on showing the "
    "last state that it had",
    fix="drain the node; power it off and on (a restart may not reset the card); update the card's "
    "firmware, and have the card replaced when it happens again",
    confirm="sudo dmesg --ctime | grep mlx5_core | grep -E 'health|Fatal|synd'; sudo devlink "
    "health show; mlxfwmanager --query",
    source="Linux, drivers/net/ethernet/mellanox/mlx5/core/health.c; NVIDIA/NVSentinel, NIC "
    "health monitor (health_poll_failed)",
    brings=("rdma_port_down", "rdma_link_unstable"),
)
def card_firmware_halted(host: HostFindings) -> Sign | None:
    """The driver asks the firmware for a sign of life and says when there is none."""
    return sign("certain", _with_ports(host, host.bad(KERNEL, "card_halted")))


@rule(
    title="A network card or its cable module is too warm",
    effect="the card takes a module off the link to save it, and jobs over several nodes end when "
    "it comes to that",
    fix="look at the air's way to the card: fans, blanking panels, cables in front of it; modules "
    "draw the more the farther they reach; compare with the same slot of other hosts",
    confirm="sudo dmesg --ctime | grep -E 'High [Tt]emperature'; mget_temp -d mlx5_0; mlxlink -d "
    "mlx5_0 -m | grep -i temp",
    source="Linux, drivers/net/ethernet/mellanox/mlx5/core/events.c, temp_warn and port_module",
    brings=("rdma_port_down", "rdma_link_unstable"),
)
def card_too_warm(host: HostFindings) -> Sign | None:
    """The card says it itself."""
    return sign("certain", _with_ports(host, host.bad(KERNEL, "card_hot")))


@rule(
    title="A network card does not accept a cable or module",
    effect="the port has no link, or one that is slower than it should be",
    fix="read the reason behind it: a module that is not of the list, draws more power than the "
    "port gives, or does not answer; reseat it, swap it with that of another port, use one that "
    "the card's release notes name",
    confirm="sudo dmesg --ctime | grep 'Port module event'; mlxlink -d mlx5_0 -m",
    source="Linux, drivers/net/ethernet/mellanox/mlx5/core/events.c, port_module and "
    "mlx5_pme_error_to_string",
    brings=("rdma_port_down",),
)
def cable_not_accepted(host: HostFindings) -> Sign | None:
    """The card says it itself."""
    return sign("certain", _with_ports(host, host.bad(KERNEL, "cable_refused")))


@rule(
    title="The IOMMU refuses accesses of a GPU, a network card or a drive to memory",
    effect="data that one device writes to another, or to memory, does not arrive: NCCL hangs, "
    "ends, or goes on with wrong data",
    fix="where devices are to reach each other switch the IOMMU off or to passthrough (iommu=pt) "
    "and reboot; where it goes on, update the driver and firmware of the device that is named",
    confirm="sudo dmesg --ctime | grep -E 'DMAR: \\[DMA|IO_PAGE_FAULT'; cat /proc/cmdline",
    source="Linux, drivers/iommu/intel/dmar.c and drivers/iommu/amd/iommu.c; NCCL User Guide, "
    "Troubleshooting, PCI Access Control Services and IO virtualization",
    role="pcie_p2p",
)
def dma_refused(host: HostFindings) -> Sign | None:
    """A defect of a driver looks alike."""
    return sign("likely", host.bad(KERNEL, "dma_refused"))


@rule(
    title="A drive does not answer, or reports errors",
    effect="jobs wait or end as they read data or write a checkpoint, and what is on the drive may "
    "be lost",
    fix="save what is needed; read the drive's own log; update its firmware, reseat it, and have "
    "it replaced where the errors come back",
    confirm="sudo dmesg --ctime | grep -E 'nvme|I/O error|critical medium'; sudo nvme smart-log "
    "/dev/nvme0; sudo smartctl -a /dev/sda",
    source="Linux, drivers/nvme/host/pci.c, nvme_timeout, and block/blk-mq.c, blk_errors",
    brings=("disk_failing", "nvme_drive_missing"),
)
def drive_failing(host: HostFindings) -> Sign | None:
    """A slot, a cable or a controller looks alike."""
    errors = host.bad(KERNEL, "drive_errors")
    follows = (*host.bad("file_systems", "read_only_by_error"), *host.bad("nvme_drives"))
    return sign("likely", errors, follows=follows)


@rule(
    title="Processes wait for a driver or a disk, or a CPU does not come out of the kernel",
    effect="the process that is named hangs and cannot be killed, and jobs hang that need it",
    fix="see what it waits for (the lines after it in the log): a file server that does not "
    "answer, a disk, the GPU driver; restart the node where the process does not go on",
    confirm="sudo dmesg --ctime | grep -A 12 -E 'blocked for more|lockup'; ps -eo pid,stat,wchan,"
    "comm | grep ' D'",
    source="Linux, kernel/hung_task.c and kernel/watchdog.c",
)
def kernel_stalls(host: HostFindings) -> Sign | None:
    """What is waited for, only the kernel's stack beside the line says."""
    return sign("likely", host.bad(KERNEL, "stuck_tasks", "stuck_cpus"))


@rule(
    title="The kernel met an error of its own and has not been restarted since",
    effect="what it was doing was left half done and may be locked: processes hang, drivers do not "
    "answer, or the next error stops the node",
    fix="drain the node and restart it; look at the function and the module that the log names, "
    "and update that driver or the kernel when it comes back",
    confirm="cat /proc/sys/kernel/tainted; sudo dmesg --ctime | grep -A 20 -E 'BUG:|kernel BUG|"
    "Oops'",
    source="Linux, admin-guide/tainted-kernels, D, and admin-guide/bug-hunting",
)
def kernel_broken(host: HostFindings) -> Sign | None:
    """The kernel says it itself."""
    return sign("certain", host.bad(KERNEL, "kernel_bugs"))
