"""What makes copies between host and GPU slow: the PCIe link, or memory that is far from it."""

from __future__ import annotations

from hwcheck.advise.rule import HostFindings, Sign, rule, sign


@rule(
    title="A PCIe link runs below what board and slot have",
    effect="copies to and from that GPU or card, or from all below that switch, are slower by that "
    "share, and so is every ring through it",
    fix="power off, reseat board, riser and cables; swap slots to see whether it follows the "
    "board or the slot; look for a speed limit of the slot in the firmware",
    confirm="nvidia-smi "
    "--query-gpu=index,pcie.link.gen.current,pcie.link.width.current,pcie.link.width.max "
    "--format=csv; sudo lspci -vv | grep -E '^[0-9a-f]|LnkCap:|LnkSta:'",
    source="NVML API Reference Guide, nvmlDeviceGetCurrPcieLinkWidth; Linux kernel, "
    "Documentation/ABI/testing/sysfs-bus-pci, current_link_width; NCCL reads the most that a "
    "link could be (src/misc/xml.cc) and does not see it",
)
def pcie_link_degraded(host: HostFindings) -> Sign | None:
    """Copies that are slow on the same GPU follow from it.

    A card that is alone with less has lost it. Where all of them have less, or there is one only,
    the slots may have been built or set so.
    """
    links = (
        *host.bad("pcie_link", "pcie_link_width"),
        *host.bad("pcie_uplinks", "uplink_width", "uplink_generation"),
        *host.bad("pcie_link_under_load", "pcie_width", "pcie_generation"),
        *host.bad("card_links", "card_link_width", "card_link_width_max"),
        *host.bad("card_links", "card_link_generation", "card_link_share"),
    )
    if not links:
        return None
    gpus = {host.gpu_of(finding.subject) for finding in links} - {""}
    copies = host.bad_on(gpus, "host_to_device", "device_to_host")
    pairs = [
        finding
        for finding in host.bad("gpu_pairs", "p2p_percent_of_alike")
        if gpus & set(finding.subject.split("-")) and not host.has_nvlink(finding.subject)
    ]
    # Without P2P, data goes over PCIe whatever else joins the GPUs.
    legs = (*host.slow_over_pcie(), *host.slow_legs("p2p_off", "p2p_sys", "net"))
    built = all(finding.check == "card_links" and finding.outcome == "warn" for finding in links)
    explained = (*links, *copies, *pairs, *legs)
    return sign("likely" if built else "certain", explained)


@rule(
    title="PCIe slots offer another generation or fewer lanes than on like hosts, or less than any "
    "slot for a GPU",
    effect="each generation less, or half of the lanes, halves what the link carries: copies to "
    "and from the host, every ring over PCIe or over a card in that slot",
    fix="set the slots' link speed in the firmware (PCIe link speed, maximum generation) to Auto "
    "and their width (bifurcation) as on the others, and reboot; reseat board and riser; after an "
    "exchange of the board or a reset of the firmware look at the other settings too; where a GPU "
    "hangs on a chipset's slot, move it",
    confirm="sudo lspci -vv | grep -E '^[0-9a-f]|LnkCap:|LnkCtl2:' (beside those of a like host)",
    source="PCI Express Base Specification, Link Capabilities and Link Control 2 (target link "
    "speed); the majority of like hosts",
)
def pcie_slots_limited(host: HostFindings) -> Sign | None:
    """What both ends could do was read; that a setting holds it is the likely reason."""
    slots = (
        *host.bad("pcie_link", "pcie_link_generation_max", "pcie_slot_generation"),
        *host.bad("pcie_link", "pcie_link_width_max"),
        *host.bad("pcie_link_under_load", "pcie_width_max"),
        *host.bad("pcie_uplinks", "uplink_generation_max", "uplink_width_max"),
        *host.bad("card_links", "card_link_generation_max"),
    )
    return sign("likely", slots)


@rule(
    title="A PCIe link has a bad contact: packets are damaged and sent again",
    effect="bandwidth is lost, and the link may come down under a job (Xid 79)",
    fix="watch whether the counts grow under load; reseat or replace riser and cables, swap "
    "slots to see whether it follows the board",
    confirm="sudo lspci -vv | grep -E 'UESta|CESta'; sudo dmesg | grep -i aer; nvidia-smi -q | "
    "grep -i replay",
    source="Linux kernel, Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats; NVIDIA "
    "DCGM, PCIe plugin (80 replays)",
)
def pcie_noisy(host: HostFindings) -> Sign | None:
    """Replays and AER counters are two views of one contact, of a GPU, a card or a switch."""
    errors = (
        *host.bad("pcie_aer"),
        *host.bad("pcie_errors"),
        *host.bad("errors_under_load", "new_pcie_replays"),
    )
    return sign("likely", errors)


@rule(
    title="Ranks cannot be, or are not, kept near their GPU (NUMA)",
    effect="copies to the GPU cross sockets, and bandwidth changes from run to run",
    fix="set kernel.numa_balancing = 0 in /etc/sysctl.d; update firmware that does not place "
    "the slot; pin ranks to the CPUs that nvidia-smi topo -m names",
    confirm="cat /proc/sys/kernel/numa_balancing; nvidia-smi topo -m; grep . "
    "/sys/bus/pci/devices/*/numa_node",
    source="NCCL User Guide, Environment Variables, NCCL_IGNORE_CPU_AFFINITY; Linux kernel, "
    "admin-guide/sysctl/kernel, numa_balancing",
)
def numa_placement(host: HostFindings) -> Sign | None:
    """Slow copies follow from it, unless a link that came down is certain."""
    placement = (
        *host.bad("numa_balancing", "numa_balancing"),
        *host.bad("topology", "numa_unknown"),
    )
    copies = (*host.bad("host_to_device"), *host.bad("device_to_host"))
    return sign("likely", placement, follows=copies)


@rule(
    title="An NVMe drive that the inventory declares is missing or does not work",
    effect="scratch space, or the array that the drive is part of, is gone, and jobs that load "
    "data from there end or wait",
    fix="read the kernel log for what the drive said last; reseat or replace it; where the node "
    "has another number of drives on purpose, correct hwcheck_nvme",
    confirm="nvme list; lspci -d ::0108; grep . /sys/class/nvme/*/state; sudo dmesg | grep nvme",
    source="Linux kernel, drivers/nvme/host/core.c, states of a controller",
)
def nvme_drive_missing(host: HostFindings) -> Sign | None:
    """The bus and the driver say it themselves."""
    return sign("certain", host.bad("nvme_drives"))
