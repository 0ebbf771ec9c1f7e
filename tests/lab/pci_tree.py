"""The PCI devices of a node, as sysfs shows them.

``host: pci`` is the shape: root ports by address, below each the devices behind it, and so on. A
device with others behind it is a bridge; a leaf is the name of its kind (``gpu``, ``nic``)::

    pci:
      "0000:15:01.0":                       # root port
        "0000:16:00.0":                     # upstream port of a switch
          "0000:17:00.0": {"0000:18:00.0": gpu}
          "0000:17:01.0": {"0000:19:00.0": nic}

``host: kinds`` says what the devices of a kind have, ``host: devices`` what one of them has
differently (keys: ``DEVICE``). Addresses are quoted: YAML takes ``16:00.0`` for a number.
``answers: false`` is a device that fell off the bus: its configuration space reads as all ones.
``gone: true`` leaves it out, as when the bus was scanned again since.

``host: iommu`` is the domain that every device is in (``identity``, ``DMA-FQ``), each in a group of
its own; null is an IOMMU that is off.

The configuration space is whole (``config_bytes: 64`` is what Linux shows a user who is not root)
and belongs to whoever writes the tree, with mode 0600: others cannot read it at all.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.lab.places import node_of
from tests.lab.tree_writer import ScenarioError, TreeWriter, section

BRIDGE = "bridge"
DEVICE: Mapping[str, Any] = {
    "vendor": 0x8086,
    "device": 0x0000,
    "class": 0x060400,
    "driver": "",
    "driver_override": "(null)",
    "max_link_width": 16,
    "max_link_speed": "32.0 GT/s PCIe",
    "current_link_width": None,
    "current_link_speed": None,
    "acs": None,
    "ats": None,
    "aer": {},
    "iommu_domain": None,
    "virtual_function_of": "",
    "answers": True,
    "config_bytes": 4096,
    "vpd": "",
    "nvme": "",
    "nvme_state": "live",
    "gone": False,
}
"""``acs``: control register, null without the capability. ``ats``: whether it
is on, likewise. ``aer``: errors by kind (correctable,
fatal, nonfatal) and name; null is a kernel that does not count. ``current_*``: as the maximum; a
width of 0 is a device without a link of its own. ``nvme``: the name of the drive.
``vpd``: a text in the Vital Product Data, which only root may read; empty is a device without."""

AER_ERRORS = {
    "correctable": "RxErr BadTLP BadDLLP Rollover Timeout NonFatalErr CorrIntErr HeaderOF",
    "fatal": "Undefined DLP SDES TLP FCP CmpltTO CmpltAbrt UnxCmplt RxOF MalfTLP ECRC UnsupReq "
    "ACSViol UncorrIntErr BlockedTLP AtomicOpBlocked TLPBlockedErr PoisonTLPBlocked",
}
AER_ERRORS["nonfatal"] = AER_ERRORS["fatal"]
AER_TOTALS = {"correctable": "COR", "fatal": "FATAL", "nonfatal": "NONFATAL"}

AER_ID, AER_OFFSET = 0x0001, 0x100
ACS_ID, ACS_OFFSET = 0x000D, 0x148
ATS_ID, ATS_OFFSET, ATS_ENABLE = 0x000F, 0x150, 0x8000
"""Extended capabilities as a switch port has them (PCI Express Base Specification, chapter 7)."""


class Place(NamedTuple):
    """Where a device is: its folder in sysfs, its kind, its root bus."""

    folder: str
    kind: str
    bus: str


class PciTree:
    """The devices of one node; ``places`` by address."""

    def __init__(self, tree: TreeWriter, host: Mapping[str, Any]) -> None:
        self._tree = tree
        self._host = host
        self.places: dict[str, Place] = {}
        for address, below in host["pci"].items():
            bus = address.rpartition(":")[0]
            self.places.update(_walk(f"sys/devices/pci{bus}", bus, address, below))
        unknown = set(host["devices"]) - set(self.places)
        if unknown:
            raise ScenarioError(f"host: devices: not in pci: {', '.join(sorted(unknown))}")

    def write(self) -> None:
        """Write every device that is there."""
        for group, (address, place) in enumerate(self.places.items()):
            says = self.says(address)
            if says["gone"]:
                continue
            self._write_device(address, place, says)
            domain = says["iommu_domain"] or self._host["iommu"]
            if domain:
                folder = f"sys/kernel/iommu_groups/{group}"
                self._tree.write(folder + "/type", domain)
                self._tree.link(f"{folder}/devices/{address}", place.folder)
                self._tree.link(place.folder + "/iommu_group", folder)

    def says(self, address: str) -> dict[str, Any]:
        """Return what a device has: its own over that of its kind."""
        kind = self.places[address].kind
        own = self._host["devices"].get(address) or {}
        of_kind = section(self._host["kinds"].get(kind) or {}, f"host: kinds: {kind}", DEVICE)
        return section(own, f"host: devices: {address}", of_kind)

    def _write_device(self, address: str, place: Place, says: Mapping[str, Any]) -> None:
        folder = place.folder
        texts = {
            "vendor": f"0x{says['vendor']:04x}",
            "device": f"0x{says['device']:04x}",
            "class": f"0x{says['class']:06x}",
            "driver_override": says["driver_override"],
            "max_link_width": str(says["max_link_width"]),
            "max_link_speed": says["max_link_speed"],
            "current_link_width": str(_now(says, "link_width")),
            "current_link_speed": _now(says, "link_speed"),
            **self._near(place.bus),
        }
        for name, text in texts.items():
            self._tree.write(f"{folder}/{name}", text)
        self._tree.write_bytes(folder + "/config", _configuration(says), mode=0o600)
        if says["vpd"]:
            self._tree.write_bytes(folder + "/vpd", says["vpd"].encode(), mode=0o600)
        for name, text in _aer_files(says["aer"]):
            self._tree.write(f"{folder}/{name}", text)
        self._tree.link("sys/bus/pci/devices/" + address, folder)
        if says["driver"]:
            driver = "sys/bus/pci/drivers/" + says["driver"]
            self._tree.folder(driver)
            self._tree.link(folder + "/driver", driver)
        if says["nvme"]:
            self._tree.write(f"{folder}/nvme/{says['nvme']}/state", says["nvme_state"])
        if says["virtual_function_of"]:
            physical = self.places[says["virtual_function_of"]]
            self._tree.link(folder + "/physfn", physical.folder)

    def _near(self, bus: str) -> dict[str, str]:
        nodes = self._host["numa"]
        number = node_of(bus, nodes)
        if number is None and len(nodes) != 1:
            return {"numa_node": "-1"}
        cpus = nodes[number or 0]["cpus"]
        return {"numa_node": str(-1 if number is None else number), "local_cpulist": cpus}


def _walk(above: str, bus: str, address: str, below: Any) -> Iterator[tuple[str, Place]]:
    folder = f"{above}/{address}"
    yield address, Place(folder, below if isinstance(below, str) else BRIDGE, bus)
    if not isinstance(below, str):
        for child, its in below.items():
            yield from _walk(folder, bus, child, its)


def _now(says: Mapping[str, Any], what: str) -> Any:
    current = says["current_" + what]
    return says["max_" + what] if current is None else current


def _configuration(says: Mapping[str, Any]) -> bytes:
    """Return what is shown of a configuration space: identity, AER, and ACS and ATS if any."""
    if not says["answers"]:
        return b"\xff" * int(says["config_bytes"])
    space = bytearray(0x1000)
    struct.pack_into("<HH", space, 0, says["vendor"], says["device"])
    ats = None if says["ats"] is None else ATS_ENABLE * bool(says["ats"])
    controls = [(AER_ID, AER_OFFSET, 0, None)]
    controls += [(ACS_ID, ACS_OFFSET, 0x5F, says["acs"])] if says["acs"] is not None else []
    controls += [(ATS_ID, ATS_OFFSET, 0, ats)] if ats is not None else []
    following = [*(offset for _, offset, _, _ in controls[1:]), 0]
    for (capability, offset, able, control), next_offset in zip(controls, following, strict=True):
        struct.pack_into("<I", space, offset, _header(capability, next_offset))
        if control is not None:
            struct.pack_into("<HH", space, offset + 4, able, control)
    shown: int = says["config_bytes"]
    return bytes(space[:shown])


def _header(capability: int, following: int) -> int:
    return following << 20 | 1 << 16 | capability


def _aer_files(errors: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    if errors is None:
        return
    for kind, own in section(errors, "aer", {kind: {} for kind in AER_TOTALS}).items():
        counts = section(own, f"aer: {kind}", dict.fromkeys(AER_ERRORS[kind].split(), 0))
        lines = [f"{name} {count}" for name, count in counts.items()]
        lines.append(f"TOTAL_ERR_{AER_TOTALS[kind]} {sum(counts.values())}")
        yield f"aer_dev_{kind}", "\n".join(lines)
