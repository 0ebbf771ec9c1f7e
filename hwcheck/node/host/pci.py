"""PCI devices as sysfs shows them: GPUs, ports, bridges, access control, IOMMU, error counters."""

from __future__ import annotations

import os
import re
import struct
from typing import Dict, List, Optional, Tuple

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.facts import NvmeDrive
from hwcheck.contract.reasons import NO_PERMISSION
from hwcheck.node.host.tree import Tree, contents, refusal

DEVICES = "sys/bus/pci/devices/"
SLOTS = "sys/bus/pci/slots/"
RDMA = "sys/class/infiniband/"
NVIDIA_VENDOR = "0x10de"
GPU_CLASSES = ("0x0300", "0x0302")
"""VGA compatible and 3D controllers (PCI Code and ID Assignment Specification, base class 03h)."""
SWITCH_CLASSES = ("0x0680",)
"""Other bridges (the same, base class 06h): of NVIDIA's devices that is an NVSwitch."""

NVME_CLASS = "0x0108"
"""Non-volatile memory controllers (the same, base class 01h)."""

NETWORK_CLASS, INFINIBAND_CLASS = "0x02", "0x0207"
"""PCI Code and ID Assignment Specification, 1.3: network controllers, and those of InfiniBand."""
NO_OVERRIDE = "(null)"
RDMA_FUNCTION = ".rdma."
"""Part of the name of what a driver makes for RDMA (mlx5_core.rdma.4, the auxiliary bus). It stays
where the RDMA device is another's: of a bond, or in the network namespace of a container
(scitix/sichek PR 115)."""

BRIDGE_VENDOR = "0x15b3"
SWITCH_MANAGEMENT = b"SW_MNG"
"""Mark in the Vital Product Data of a ConnectX-7 bridge by which the fabric manager reaches the
NVSwitches of HGX B200 and B300. It has the PCI ids of a card and ports like one, which carry no
traffic of jobs (NVIDIA Fabric Manager User Guide; siderolabs/extensions#893 shows four of them,
mlx5_8 to mlx5_11, beside eight cards)."""

BRIDGED_BOARDS = {"0x2901", "0x3182"}
"""PCI device ids of the GPUs of HGX B200 and B300 (pci.ids), which have such bridges."""

GENERATION_BY_GTS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""PCIe generation by transfer rate (PCI Express Base Specification)."""

ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")

EXTENDED_START = 0x100
EXTENDED_END = 0x1000
ACS_ID = 0x000D
ATS_ID, ATS_ENABLE = 0x000F, 0x8000
CONTROL_OFFSET = 6
ACPI_DEVICES = "sys/bus/acpi/devices/"
CMDQV = "NVDA200C:"
"""ACPI id of an SMMU's CMDQV (Linux, arm-smmu-v3.c, acpi_smmu_dsdt_probe_tegra241_cmdqv)."""
"""Where extended capabilities lie, and the Access Control Services capability's identifier and
control register (PCI Express Base Specification, chapter 7)."""

UNSUPPORTED_REQUEST = ("UnsupReq", "Unsupported Request")
"""What a device answers when it is probed for a function that it lacks, at every boot; the second
name is that of kernels before 5.3."""


class PciReader(Tree):
    """The PCI half of ``node.NodeHost``."""

    _bridges: Optional[List[str]] = None
    _nvidia_classes: Optional[Dict[str, str]] = None

    def pci_gpus(self) -> List[str]:
        """PCI addresses of NVIDIA display and 3D controllers."""
        # Virtual functions of a GPU are not counted.
        return self._of_nvidia(GPU_CLASSES)

    def nvswitches(self) -> List[str]:
        """PCI addresses of NVSwitches, or of the bridges that manage them.

        Those of Blackwell are not on the bus; their bridges are told from network cards by data
        that only root may read.
        """
        return self._of_nvidia(SWITCH_CLASSES) + self._switch_bridges()

    def _switch_bridges(self) -> List[str]:
        """Return the PCI addresses of what manages NVSwitches. Only root may read the mark."""
        if self._bridges is None:  # a device takes its time to tell
            self._bridges = [
                address
                for address in self._list(DEVICES)
                if self._read(DEVICES + address + "/vendor").strip() == BRIDGE_VENDOR
                and SWITCH_MANAGEMENT in (contents(self._path(DEVICES + address + "/vpd")) or b"")
            ]
        return self._bridges

    def _may_be_bridge(self, address: str) -> bool:
        """Whether a card's board has such bridges, and the mark of this one cannot be read."""
        vpd = self._path(DEVICES + address + "/vpd")
        if not os.path.lexists(vpd) or contents(vpd) is not None:
            return False
        gpus = {self._read(DEVICES + gpu + "/device").strip() for gpu in self.pci_gpus()}
        return not gpus.isdisjoint(BRIDGED_BOARDS)

    def _of_nvidia(self, classes: Tuple[str, ...]) -> List[str]:
        # The bus is listed anew at each question, for a device may leave it.
        return [
            address
            for address in self._list(DEVICES)
            if self._nvidia_class(address).startswith(classes)
        ]

    def _nvidia_class(self, address: str) -> str:
        """Return the class of a device of NVIDIA; empty: another's, or a virtual function."""
        if self._nvidia_classes is None:
            self._nvidia_classes = {}
        if address not in self._nvidia_classes:  # asked some twenty times a visit; it stays
            device = DEVICES + address
            is_nvidia = self._read(device + "/vendor").strip() == NVIDIA_VENDOR
            is_one = is_nvidia and not os.path.lexists(self._path(device + "/physfn"))
            self._nvidia_classes[address] = self._read(device + "/class") if is_one else ""
        return self._nvidia_classes[address]

    def pci_driver(self, pci_address: str) -> str:
        """Kernel driver that a device is bound to; empty without one."""
        driver = DEVICES + pci_address + "/driver"
        bound = os.path.lexists(self._path(driver))
        return os.path.basename(self._resolve(driver)) if bound else ""

    def pci_answers(self, pci_address: str) -> bool:
        """Whether a device answers on the bus; one that fell off reads as all ones."""
        config = DEVICES + pci_address + "/config"
        identity = contents(self._path(config), 4)
        if identity is None or len(identity) < 4:
            words = "the configuration space of %s cannot be read" % pci_address
            raise self._unread(config, words)
        return identity != b"\xff" * 4

    def pcie_port_width_max(self, pci_address: str) -> int:
        """Lanes that the upstream port of a device offers. Raises CouldNotMeasure."""
        text = self._port(pci_address, "max_link_width")
        return _lanes(text, "the port above " + pci_address)

    def pcie_widths(self, pci_address: str) -> Tuple[int, int]:
        """Lanes that a device uses on its link and lanes it has there. Raises CouldNotMeasure."""
        device = DEVICES + pci_address
        now, most = (
            _lanes(self._read("%s/%s_link_width" % (device, which)).strip(), pci_address)
            for which in ("current", "max")
        )
        return now, most

    def pcie_port_generation_max(self, pci_address: str) -> int:
        """PCIe generation that the upstream port of a device offers. Raises CouldNotMeasure."""
        text = self._port(pci_address, "max_link_speed")
        return _generation(text, "the port above " + pci_address)

    def pcie_generations(self, pci_address: str) -> Tuple[int, int]:
        """PCIe generation of a device's link and the newest it can do. Raises CouldNotMeasure."""
        device = DEVICES + pci_address
        now, most = (
            _generation(self._read("%s/%s_link_speed" % (device, which)).strip(), pci_address)
            for which in ("current", "max")
        )
        return now, most

    def has_pcie_link(self, pci_address: str) -> bool:
        """Whether a device has a PCIe link; virtual ones and those in the processor have none."""
        # Functions without a Link Status register read as no lanes.
        return self._read(DEVICES + pci_address + "/current_link_width").strip() != "0"

    def pci_ids(self, pci_address: str) -> str:
        """Vendor, device and subsystem of a device (``15b3:1021:15b3:0041``); empty: not there."""
        names = ("vendor", "device", "subsystem_vendor", "subsystem_device")
        texts = [self._read("%s%s/%s" % (DEVICES, pci_address, name)).strip() for name in names]
        return ":".join(text[2:] for text in texts if text.startswith("0x"))

    def nvme_drives(self) -> List[NvmeDrive]:
        """NVMe controllers on the bus, by address; virtual functions are left out."""
        drives = []
        for address in self._list(DEVICES):
            device = DEVICES + address
            is_one = self._read(device + "/class").startswith(NVME_CLASS)
            if is_one and not os.path.lexists(self._path(device + "/physfn")):
                name = next(iter(self._list(device + "/nvme")), "")
                state = self._read("%s/nvme/%s/state" % (device, name)).strip() if name else ""
                drives.append(NvmeDrive(address, name, state))
        return drives

    def bridges_above(self, pci_address: str) -> List[str]:
        """PCI addresses of the bridges between a device and the root, nearest first."""
        folder = os.path.dirname(self._resolve(DEVICES + pci_address))
        bridges = []
        while ADDRESS.fullmatch(os.path.basename(folder)):
            bridges.append(os.path.basename(folder))
            folder = os.path.dirname(folder)
        return bridges

    def pci_slot(self, pci_address: str) -> str:
        """Return the name of the slot of a device or of the next bridge above it; empty: none.

        Linux has the slots that the firmware or a hot-plug port names, each with the address of
        what is in it, without its function (Documentation/ABI/testing/sysfs-bus-pci).
        """
        slots = {
            self._read("%s%s/address" % (SLOTS, name)).strip(): name for name in self._list(SLOTS)
        }
        for address in (pci_address, *self.bridges_above(pci_address)):
            if address.rpartition(".")[0] in slots:
                return slots[address.rpartition(".")[0]]
        return ""

    def numa_node(self, pci_address: str) -> Optional[int]:
        """NUMA node of a device; None where the firmware does not tell."""
        text = self._read("%s%s/numa_node" % (DEVICES, pci_address)).strip()
        return int(text) if text.isdigit() else None

    def rdma_devices(self) -> Dict[str, str]:
        """PCI address by name of the RDMA devices.

        Software, virtual functions and bridges that manage NVSwitches are left out.
        """
        # In the order in which people count: ``mlx5_2``, ``mlx5_10``.
        devices = {}
        for name in sorted(self._list(RDMA), key=_counted):
            folder = self._resolve(RDMA + name + "/device")
            address = os.path.basename(folder)
            is_card = ADDRESS.fullmatch(address) and not os.path.lexists(folder + "/physfn")
            if is_card and address not in self._switch_bridges():
                devices[name] = address
        return devices

    def cards_without_rdma(self) -> Dict[str, str]:
        """Driver by PCI address of InfiniBand and ConnectX cards that are no RDMA device.

        It is empty where no driver has taken the card. Virtual functions and bridges that manage
        NVSwitches are left out.
        """
        others = {*self.rdma_devices().values(), *self._switch_bridges()}
        return {
            address: self.pci_driver(address)
            for address in self._list(DEVICES)
            if address not in others
            and self._is_rdma_card(address)
            and not os.path.lexists(self._path(DEVICES + address + "/physfn"))
        }

    def is_idle(self, pci_address: str) -> bool:
        """Whether nothing came of a network card, against what is meant.

        It has no driver, and none was ruled out by hand; or its driver has made neither a network
        interface nor anything for RDMA of it.
        """
        device = DEVICES + pci_address
        if not self.pci_driver(pci_address):
            # Whoever names another driver for it, or none, wants it so (ABI, sysfs-bus-pci).
            return self._read(device + "/driver_override").strip() in ("", NO_OVERRIDE)
        made = self._list(device)
        return "net" not in made and not any(RDMA_FUNCTION in name for name in made)

    def _is_rdma_card(self, address: str) -> bool:
        kind = self._read(DEVICES + address + "/class").strip()
        mellanox = self._read(DEVICES + address + "/vendor").strip() == BRIDGE_VENDOR
        return kind.startswith(INFINIBAND_CLASS) or (mellanox and kind.startswith(NETWORK_CLASS))

    def acs_control(self, pci_address: str) -> Optional[int]:
        """Access control register of a bridge; None: it has none. Raises CouldNotMeasure."""
        return self._extended(pci_address, ACS_ID)

    def ats_enabled(self, pci_address: str) -> Optional[bool]:
        """Whether a device's address translation services are on; None: it has none.

        Raises CouldNotMeasure.
        """
        control = self._extended(pci_address, ATS_ID)
        return None if control is None else bool(control & ATS_ENABLE)

    def _extended(self, pci_address: str, capability: int) -> Optional[int]:
        """Return the control register of an extended capability; None where it is not there."""
        config = contents(self._path(DEVICES + pci_address + "/config"), EXTENDED_END) or b""
        if len(config) < EXTENDED_START + 4:
            raise CouldNotMeasure(
                "only %d bytes of the configuration space of %s can be read; the rest needs root"
                % (len(config), pci_address),
                NO_PERMISSION,
            )
        offset = EXTENDED_START
        visited = set()
        while EXTENDED_START <= offset <= len(config) - 8 and offset not in visited:
            visited.add(offset)
            (header,) = struct.unpack_from("<I", config, offset)
            if header in (0, 0xFFFFFFFF):
                break
            if header & 0xFFFF == capability:
                return int(struct.unpack_from("<H", config, offset + CONTROL_OFFSET)[0])
            offset = (header >> 20) & 0xFFC
        return None

    def has_command_queues(self) -> bool:
        """Whether the firmware gives this system an SMMU with command queues of its own (CMDQV)."""
        # A device that the firmware lists and does not offer has the status 0 (ACPI, _STA).
        names = [name for name in self._list(ACPI_DEVICES) if name.startswith(CMDQV)]
        return any(self._read(ACPI_DEVICES + name + "/status").strip() != "0" for name in names)

    def iommu_groups(self) -> int:
        """Count the groups of the IOMMU; 0 when it is off."""
        return len(self._list("sys/kernel/iommu_groups"))

    def iommu_domain(self, pci_address: str) -> str:
        """``identity``, ``DMA``, ``DMA-FQ``; empty without a group. Raises CouldNotMeasure."""
        group = DEVICES + pci_address + "/iommu_group"
        if not os.path.lexists(self._path(group)):
            return ""
        domain = self._read(group + "/type").strip()
        if not domain:
            words = "the kernel does not say the IOMMU domain of %s" % pci_address
            raise self._unread(group + "/type", words)
        return domain

    def aer_errors(self, pci_address: str) -> Dict[str, int]:
        """Advanced error reporting since boot: fatal, nonfatal, correctable.

        Unsupported requests are left out: probing a device at boot makes them. Raises
        CouldNotMeasure.
        """
        errors = {}
        for kind in ("fatal", "nonfatal", "correctable"):
            counters = "%s%s/aer_dev_%s" % (DEVICES, pci_address, kind)
            text = self._text(counters)
            if text is None:
                raise self._unread(counters, "the kernel has no AER counters for %s" % pci_address)
            counts = dict(re.findall(r"^(.+?)\s+(\d+)$", text, re.MULTILINE))
            errors[kind] = sum(
                int(count)
                for name, count in counts.items()
                if not name.startswith("TOTAL_ERR") and name not in UNSUPPORTED_REQUEST
            )
        return errors

    def _port(self, pci_address: str, attribute: str) -> str:
        port = os.path.dirname(self._resolve(DEVICES + pci_address))
        data = contents(os.path.join(port, attribute)) if port else None
        if data is None:
            words = "no port above %s that gives %s" % (pci_address, attribute)
            raise CouldNotMeasure(words, refusal(os.path.join(port, attribute)) if port else "")
        return data.decode("utf-8", "replace").strip()


def _lanes(text: str, who: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 32:
        raise CouldNotMeasure("%s says width %r" % (who, text[:40]))
    return int(text)


def _generation(text: str, who: str) -> int:
    match = re.match(r"(\d+(?:\.\d+)?) GT/s", text)
    generation = GENERATION_BY_GTS.get(float(match.group(1))) if match else None
    if generation is None:
        raise CouldNotMeasure("%s says speed %r" % (who, text[:40]))
    return generation


def _counted(name: str) -> List[Tuple[int, str]]:
    # Numbers by their value, whatever is between them as text.
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
