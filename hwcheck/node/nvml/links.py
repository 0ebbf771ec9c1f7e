"""What NVML says of one GPU's links: PCIe, NVLink and the NVSwitch fabric."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.quantities import Fabric, NvLink, NvLinkErrors, NvLinkRates, RackPlace
from hwcheck.node.fabric_health import decode
from hwcheck.node.nvml.reader import (
    FunctionMissing,
    GpuLost,
    NotSupported,
    NvmlReader,
    VersionMismatch,
)

FABRIC_STATES = ("not supported", "not started", "in progress", "completed")
"""NVML_GPU_FABRIC_STATE_* in order."""

FABRIC_CALLS = (
    ("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v3_t"),
    ("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v2_t"),
    ("nvmlDeviceGetGpuFabricInfo", "c_nvmlGpuFabricInfo_t"),
)
"""Newest first: a driver refuses the structures that came after it, some before they look whether
the GPU has a fabric at all."""

ERROR_FIELDS = {
    "replay": "NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY",
    "recovery": "NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY",
    "crc": "NVML_FI_DEV_NVLINK_ERROR_DL_CRC",
    "recovery_failed": "NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS",
    "malformed_packet": "NVML_FI_DEV_NVLINK_COUNT_MALFORMED_PACKET_ERRORS",
    "buffer_overrun": "NVML_FI_DEV_NVLINK_COUNT_BUFFER_OVERRUN_ERRORS",
    "symbol": "NVML_FI_DEV_NVLINK_COUNT_SYMBOL_ERRORS",
    "effective": "NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS",
}
"""Fields with the link as their scope: Hopper has the first three, Blackwell the others."""

RATE_FIELDS = {
    "symbol": "NVML_FI_DEV_NVLINK_COUNT_SYMBOL_BER",
    "effective": "NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER",
}
EXPONENT_MASK, MANTISSA_SHIFT, MANTISSA_MASK = 0xFF, 8, 0xF
"""nvml.h: bits 0 to 7 are the exponent, 8 to 11 the mantissa; 15e-255 is a link without errors."""

ERROR_COUNTERS = (
    ("replay", "NVML_NVLINK_ERROR_DL_REPLAY"),
    ("recovery", "NVML_NVLINK_ERROR_DL_RECOVERY"),
    ("crc", "NVML_NVLINK_ERROR_DL_CRC_FLIT"),
    ("crc", "NVML_NVLINK_ERROR_DL_CRC_DATA"),
)
"""What GPUs before Hopper are asked instead; both kinds of CRC error are counted together."""


class LinkReader(NvmlReader):
    """The link half of ``node.Gpu``."""

    def pcie_link_width(self) -> int:
        """Lanes in use now."""
        return self.number("PCIe link width", "nvmlDeviceGetCurrPcieLinkWidth")

    def pcie_link_width_max(self) -> int:
        """Lanes that this device in this system can use, by NVML."""
        return self.number("maximum PCIe link width", "nvmlDeviceGetMaxPcieLinkWidth")

    def pcie_link_generation(self) -> int:
        """PCIe generation now; drops at idle."""
        return self.number("PCIe generation", "nvmlDeviceGetCurrPcieLinkGeneration")

    def pcie_link_generation_max(self) -> int:
        """PCIe generation that this device in this system can reach, by NVML."""
        return self.number("maximum PCIe generation", "nvmlDeviceGetMaxPcieLinkGeneration")

    def pcie_replays(self) -> Optional[int]:
        """PCIe packets that had to be sent again since the GPU was reset."""
        count = self.optional("PCIe replays", "nvmlDeviceGetPcieReplayCounter")
        return None if count is None else int(count)

    def nvlinks(self) -> List[NvLink]:
        """NVLinks, active or not; empty without NVLink."""
        # Asked once: several checks need it.
        return self.remembered("nvlinks", self._nvlinks)

    def nvlink_to_switch(self) -> Optional[bool]:
        """Whether the active NVLinks lead to a switch; None without one or where unknown."""
        # The first active link speaks for all.
        active = [link.link for link in self.nvlinks() if link.active]
        if not active:
            return None
        kind = self.remembered(
            "far end",
            lambda: self.optional(
                "NVLink %d" % active[0], "nvmlDeviceGetNvLinkRemoteDeviceType", active[0]
            ),
        )
        if kind in (None, self._constant("NVML_NVLINK_DEVICE_TYPE_UNKNOWN")):
            return None  # an older driver, or a guest that is not shown its switches
        return bool(kind == self._constant("NVML_NVLINK_DEVICE_TYPE_SWITCH"))

    def nvlink_errors(self) -> List[NvLinkErrors]:
        """Error counters of the active NVLinks that have any."""
        # Which fields the first active link has speaks for all.
        links = [link.link for link in self.nvlinks() if link.active]
        by_name = {name: self._constant(field) for name, field in ERROR_FIELDS.items()}
        fields = [field for field in by_name.values() if field is not None]
        values = self.fields("NVLink errors", [(f, link) for link in links[:1] for f in fields])
        fields = [f for f in fields for link in links[:1] if (f, link) in values]
        values.update(
            self.fields("NVLink errors", [(f, link) for link in links[1:] for f in fields])
        )
        errors = []
        for link in links:
            counters = {
                name: values[field, link]
                for name, field in by_name.items()
                if field is not None and (field, link) in values
            }
            errors.append(NvLinkErrors(link, counters or self._old_counters(link)))
        return [each for each in errors if each.counters]

    def nvlink_rates(self) -> List[NvLinkRates]:
        """Bit error rates of the active NVLinks that have any (Blackwell and later)."""
        links = [link.link for link in self.nvlinks() if link.active]
        by_name = {name: self._constant(field) for name, field in RATE_FIELDS.items()}
        fields = [field for field in by_name.values() if field is not None]
        values = self.fields("NVLink rates", [(f, link) for link in links[:1] for f in fields])
        if values:
            values.update(
                self.fields("NVLink rates", [(f, link) for link in links[1:] for f in fields])
            )
        rates = []
        for link in links:
            of_link = {
                name: _rate(values[field, link])
                for name, field in by_name.items()
                if field is not None and (field, link) in values
            }
            if of_link:
                rates.append(NvLinkRates(link, **of_link))
        return rates

    def fabric(self) -> Optional[Fabric]:
        """Registration with an NVSwitch fabric; None on a GPU that does not register."""
        problem: Optional[CouldNotMeasure] = None
        for name, kind in FABRIC_CALLS:
            try:
                return self._fabric(self.structure("fabric", name, kind))
            except FunctionMissing:
                continue
            except NotSupported:
                return None
            except VersionMismatch as error:
                problem = error  # the driver may know an older structure
        if problem is not None:
            raise problem
        return None

    def rack_place(self) -> Optional[RackPlace]:
        """Where in its rack it is; None where it is in none, or the driver does not tell."""
        try:
            info = self.structure(
                "place in the rack", "nvmlDeviceGetPlatformInfo", "c_nvmlPlatformInfo_v2_t"
            )
        except (NotSupported, VersionMismatch):
            return None
        # A Blackwell board outside a rack gives no serial number, and numbers that mean nothing
        # (slot 0, tray 0, host 1: RTX PRO 6000, driver 595.58).
        serial = _raw(info, "chassisSerialNumber").split(b"\0")[0].decode("ascii", "replace")
        names = ("slotNumber", "trayIndex", "hostId", "moduleId")
        return RackPlace(serial, *(_raw(info, name)[0] for name in names)) if serial else None

    def _fabric(self, info: Any) -> Optional[Fabric]:
        state = int(info.state)
        if state == 0:
            return None
        name = FABRIC_STATES[state] if state < len(FABRIC_STATES) else "state %d" % state
        degraded, unhealthy = decode(int(getattr(info, "healthMask", 0)))
        cluster = bytes(info.clusterUuid).hex() if any(info.clusterUuid) else ""
        status = self._nvml.error_text(int(info.status))
        return Fabric(name, status, degraded, unhealthy, cluster, int(info.cliqueId))

    def _nvlinks(self) -> List[NvLink]:
        states = self._nvml.together(self._nvlink_states)
        speeds = self._nvlink_speeds([link for link, active in states if active])
        return [NvLink(link, active, speeds.get(link)) for link, active in states]

    def _nvlink_states(self) -> List[Tuple[int, bool]]:
        states: List[Tuple[int, bool]] = []
        # A GPU that cannot be opened raises in the first read; only then are constants there.
        for link in range(self._constant("NVML_NVLINK_MAX_LINKS") or 1):
            try:
                state = self.read("NVLink %d" % link, "nvmlDeviceGetNvLinkState", link)
            except NotSupported:
                continue  # a later one may be there all the same
            except GpuLost:
                raise
            except CouldNotMeasure:
                if link == 0:
                    raise
                continue  # a number that this GPU does not have
            states.append((link, state == 1))
        return states

    def _nvlink_speeds(self, links: List[int]) -> Dict[int, float]:
        speed_field = self._constant("NVML_FI_DEV_NVLINK_GET_SPEED")
        speeds: Dict[int, float] = {}
        if speed_field is not None:
            values = self.fields("NVLink speed", [(speed_field, link) for link in links])
            speeds = {link: values.get((speed_field, link), 0) / 1000.0 for link in links}
        speeds = {link: speed for link, speed in speeds.items() if speed}
        if speeds or not links:
            return speeds
        common = self._nvml.constant("NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON")
        mbps = self.fields("NVLink speed", [common]).get(common)
        return dict.fromkeys(links, mbps / 1000.0) if mbps else {}

    def _old_counters(self, link: int) -> Dict[str, int]:
        counters: Dict[str, int] = {}
        for name, constant in ERROR_COUNTERS:
            counter = self._nvml.constant(constant)
            count = self.optional(
                "NVLink %d errors" % link, "nvmlDeviceGetNvLinkErrorCounter", link, counter
            )
            if count is not None:
                counters[name] = counters.get(name, 0) + int(count)
        return counters

    def _constant(self, name: str) -> Optional[int]:
        try:
            return int(self._nvml.constant(name))
        except NotSupported:
            return None  # an older pynvml


def _rate(encoded: int) -> float:
    mantissa = (encoded >> MANTISSA_SHIFT) & MANTISSA_MASK
    return float("%de-%d" % (mantissa, encoded & EXPONENT_MASK))


def _raw(structure: Any, field: str) -> bytes:
    """Return the bytes of a field; pynvml takes any ``c_char`` for a text, a slot of 200 too."""
    place = getattr(type(structure), field)
    return bytes(structure)[place.offset : place.offset + place.size]
