"""The parts that the node is made of, and what its ports are cabled to."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, Iterator, List

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.facts import Neighbor, Part
from hwcheck.node.host import smbios, vpd
from hwcheck.node.host.pci import DEVICES
from hwcheck.node.host.rdma import CLASS, RdmaReader
from hwcheck.node.host.tree import contents

TABLE = "sys/firmware/dmi/tables/DMI"
NVSWITCHES = "proc/driver/nvidia-nvswitch/devices/"
PLATFORM = "sys/bus/platform/devices/"
NETWORK_CLASS = "0x02"
"""Network controllers (PCI Code and ID Assignment Specification, base class 02h)."""
VPD_BYTES = 32768
"""As much as its address can reach (PCI Local Bus Specification 3.0, appendix I)."""

PROGRAM_FOLDERS = ("usr/sbin/", "usr/bin/")
SMPQUERY, LLDPCTL = "smpquery", "lldpctl"
ANSWER_LIMIT_S = 10.0
"""Both answer in well under a second; smpquery waits for a switch that does not."""


class PartsReader(RdmaReader):
    """The parts of ``node.NodeHost``."""

    def parts(self) -> List[Part]:
        """Parts of the machine but its GPUs, as firmware, bus and drivers name them."""
        return [
            *self._machine(),
            *self._bmc(),
            *self._cards(),
            *self._drives(),
            *self._nvswitch_parts(),
        ]

    def hidden_parts(self) -> str:
        """Why the parts that the firmware names cannot be read; empty where they can."""
        table = self._path(TABLE)
        if os.path.lexists(table) and contents(table) is None:
            return "/%s may be read by root only" % TABLE
        return ""

    def _machine(self) -> Iterator[Part]:
        """Yield what the firmware names; a processor's own firmware is its microcode."""
        match = re.search(r"^microcode\s*: (\S+)", self._read("proc/cpuinfo"), re.MULTILINE)
        for part in smbios.parts(contents(self._path(TABLE)) or b""):
            is_cpu = bool(re.fullmatch(r"cpu\d+", part.name))
            yield part._replace(firmware=match.group(1)) if is_cpu and match else part

    def _bmc(self) -> Iterator[Part]:
        # Linux, drivers/char/ipmi/ipmi_msghandler.c: one platform device for each controller.
        for name in self._list(PLATFORM):
            if name.startswith("ipmi_bmc."):
                firmware = self._read(PLATFORM + name + "/firmware_revision").strip()
                product = self._read(PLATFORM + name + "/product_id").strip()
                yield Part("bmc", product, firmware=firmware)
                return

    def _cards(self) -> Iterator[Part]:
        """Yield network cards; the functions of a card are one part, named after the first."""
        names = {address: name for name, address in self.rdma_devices().items()}
        seen = set()
        for address in self._list(DEVICES):
            device = DEVICES + address
            if not self._read(device + "/class").startswith(NETWORK_CLASS):
                continue
            is_virtual = os.path.lexists(self._path(device + "/physfn"))
            slot = address.rpartition(".")[0]
            if is_virtual or slot in seen or address in self._switch_bridges():
                continue
            seen.add(slot)
            says = vpd.read(contents(self._path(device + "/vpd"), VPD_BYTES) or b"")
            name = names.get(address, "")
            firmware = self._read(CLASS + name + "/fw_ver").strip() if name else ""
            model = says.get("name") or self.pci_ids(address)
            number, serial = says.get("PN", ""), says.get("SN", "")
            yield Part("nic " + (name or address), model, number, serial, firmware)

    def _drives(self) -> Iterator[Part]:
        for drive in self.nvme_drives():
            if drive.name:
                folder = "%s%s/nvme/%s/" % (DEVICES, drive.pci_address, drive.name)
                model, serial, firmware = (
                    " ".join(self._read(folder + name).split())
                    for name in ("model", "serial", "firmware_rev")
                )
                yield Part(drive.name, model, serial=serial, firmware=firmware)

    def _nvswitch_parts(self) -> Iterator[Part]:
        """Yield the NVSwitches that this node drives; those of a rack's trays are not on its bus.

        NVIDIA/open-gpu-kernel-modules, kernel-open/nvidia/procfs_nvswitch.c.
        """
        for number, address in enumerate(self.nvswitches()):
            text = self._read("%s%s/information" % (NVSWITCHES, address))
            match = re.search(r"^BIOS Version: ([\w.]+)$", text, re.MULTILINE)
            firmware = match.group(1) if match else ""
            yield Part("nvswitch%d" % number, self.pci_ids(address), firmware=firmware)

    def neighbors(self) -> List[Neighbor]:
        """Far ends of the cables of InfiniBand ports and network interfaces, as far as they tell.

        Raises CouldNotMeasure where no program is installed that asks them.
        """
        neighbors = [*self._over_infiniband(), *self._over_ethernet()]
        if not neighbors and not self._program(SMPQUERY) and not self._program(LLDPCTL):
            raise CouldNotMeasure(
                "neither smpquery (infiniband-diags) nor lldpctl (lldpd) is installed"
            )
        return neighbors

    def _over_infiniband(self) -> Iterator[Neighbor]:
        program = self._program(SMPQUERY)
        for port in self.rdma_ports() if program else ():
            if port.link_layer != "InfiniBand" or port.physical_state != "LinkUp":
                continue
            device, _, number = port.name.partition("/")
            command = [program, "-C", device, "-P", number]
            path = ["-D", "0," + number]
            info = _dotted(_ran([*command, "nodeinfo", *path]))
            name = _dotted(_ran([*command, "nodedesc", *path])).get("Node Description", "")
            if info:
                far = name.partition(";")[2].partition(":")[0] or name or info.get("Guid", "")
                yield Neighbor("port " + port.name, far, info.get("LocalPort", ""))

    def _over_ethernet(self) -> Iterator[Neighbor]:
        program = self._program(LLDPCTL)
        if not program:
            return
        try:
            interfaces = json.loads(_ran([program, "-f", "json0"]) or "{}")["lldp"][0]["interface"]
            for each in interfaces:
                chassis, port = each["chassis"][0], each["port"][0]
                name = chassis.get("name") or chassis["id"]
                far = str(name[0]["value"])
                yield Neighbor("interface " + str(each["name"]), far, str(port["id"][0]["value"]))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            return  # it has no neighbor, or its daemon does not run

    def _program(self, name: str) -> str:
        paths = (self._path(folder + name) for folder in PROGRAM_FOLDERS)
        return next((path for path in paths if os.access(path, os.X_OK)), "")


def _dotted(text: str) -> Dict[str, str]:
    """Return what lines such as ``LocalPort:.......23`` say."""
    return dict(re.findall(r"^([\w ]+):\.*(.*?)\s*$", text, re.MULTILINE))


def _ran(command: List[str]) -> str:
    """Return what a program writes; empty where it fails, or gives no answer in time."""
    import subprocess  # here: most visits ask for no neighbor

    options: Dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    try:
        done = subprocess.run(command, stderr=subprocess.DEVNULL, timeout=ANSWER_LIMIT_S, **options)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""
