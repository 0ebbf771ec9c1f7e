"""What NVML could say of a healthy node: every quantity of a GPU, of pairs, of the driver."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tests.lab.host_mutations import bus_of
from tests.lab.mutation import (
    COUNTED,
    GIB,
    INVERTED,
    MANY,
    MIB,
    OTHER,
    SAME,
    Change,
    Mutation,
    nested,
    places,
    share,
    to,
    value_of,
)
from tests.lab.nvml_keys import lay_over
from tests.lab.scenario import Scenario, overlay


def _mode(old: Any) -> Any:
    both = old if isinstance(old, Mapping) else {"current": old, "pending": old}
    return {each: not value for each, value in both.items()}


def _mode_pending(old: Any) -> Any:
    both = old if isinstance(old, Mapping) else {"current": old, "pending": old}
    return {**both, "pending": not both["current"]}


MODE: list[Change] = [("inverted", _mode), ("inverted after the next reset", _mode_pending)]
STRANGER = {"pid": 41234, "kind": "compute", "memory_bytes": 20 * GIB, "name": "python3"}
PAINTER = {"pid": 41235, "kind": "graphics", "memory_bytes": 200 * MIB, "name": "Xorg"}


def _joined(process: Mapping[str, Any]) -> Change:
    return f"a {process['kind']} process", lambda old: [*old, process]


def _links(change: Callable[[dict[str, Any]], dict[str, Any] | None], every: bool = False) -> Any:
    """Return what changes one of a GPU's NVLinks, or every one."""

    def changed(old: Any) -> Any:
        links = [{**entry, "count": 1} for entry in old for _ in range(entry.get("count", 1))]
        links = [{key: copy.deepcopy(of) for key, of in link.items() if key != "count"}
                 for link in links]  # fmt: skip
        if not any(link.get("active") for link in links):
            return SAME
        after = [change(link) if every or not place else link for place, link in enumerate(links)]
        found = [link for link in after if link is not None]
        return SAME if found == links else found

    return changed


def _link(**values: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda link: {**link, **{key: of for key, of in values.items() if key in link}}


def _slower(link: dict[str, Any]) -> dict[str, Any]:
    return {**link, "speed_gbps": link["speed_gbps"] / 2} if "speed_gbps" in link else link


def _down(link: dict[str, Any]) -> dict[str, Any]:
    return {"active": False, **({"version": link["version"]} if "version" in link else {})}


def _without(capability: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def changed(link: dict[str, Any]) -> dict[str, Any]:
        if "capabilities" not in link:
            return link
        return {**link, "capabilities": [c for c in link["capabilities"] if c != capability]}

    return changed


def _link_errors(group: str, name: str, count: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def changed(link: dict[str, Any]) -> dict[str, Any]:
        if name not in link.get(group, {}):
            return link
        return {**link, group: {**link[group], name: count}}

    return changed


NVLINK_CHANGES: list[Change] = [
    ("one down", _links(_down)),
    ("all down", _links(_down, every=True)),
    ("one gone", _links(lambda _: None)),
    ("one not supported", _links(lambda _: {"supported": False})),
    ("all not supported", _links(lambda _: {"supported": False}, every=True)),
    ("one of version 1.0", _links(_link(version="1.0"))),
    ("all of version 1.0", _links(_link(version="1.0"), every=True)),
    ("one at half speed", _links(_slower)),
    ("all at half speed", _links(_slower, every=True)),
    ("one with another remote", _links(_link(remote="switch:0000:fe:00.0"))),
    *((f"one without {of}", _links(_without(of))) for of in ("p2p", "sysmem", "p2p_atomics")),
    *(
        (f"one with {count} {name} errors", _links(_link_errors(group, name, count)))
        for group, names in (
            ("errors", "replay recovery crc recovery_failed malformed_packet buffer_overrun"),
            ("errors", "symbol effective"),
            ("error_counters", "replay recovery crc_flit crc_data"),
        )
        for name in names.split()
        for count in (1, MANY)
    ),
]

FABRIC: Mapping[str, list[Change]] = {
    "state": to("not_supported", "not_started", "in_progress"),
    "status": to("UNKNOWN"),
    "clique_id": to(77),
    "cluster_uuid": OTHER,
    "degraded_bandwidth": to(True),
    "route_recovery": to(True),
    "route_unhealthy": to(True),
    "access_timeout_recovery": to(True),
    "incorrect_configuration": to("incorrect_sysguid", "no_partition", "insufficient_nvlinks",
                                  "incompatible_gpu_fw", "invalid_location"),
}  # fmt: skip
"""``health`` of the fabric is in the newest structure only, so these are tried where it is."""

GPU: Mapping[str, list[Change]] = {
    "name": to("NVIDIA A100-PCIE-40GB"),
    "uuid": OTHER,
    "serial": to("0", None) + OTHER,
    "board_part_number": OTHER,
    "vbios": OTHER,
    "inforom_image": OTHER,
    "inforom_oem": OTHER,
    "inforom_ecc": OTHER,
    "inforom_power": OTHER,
    "inforom_valid": INVERTED,
    "pci_address": to("0000:ff:00.0"),
    "device_id": to("0x20F110DE"),
    "subsystem_id": to("0x000010DE"),
    "brand": to("grid"),
    "architecture": to("kepler"),
    "compute_capability": to("3.5"),
    "minor_number": to(15),
    "module_id": to(15),
    "board_id": to(15),
    "power_w": share(400) + to(0.0),
    "power_limit_w": share(50),
    "power_limit_requested_w": share(50),
    "power_limit_default_w": share(50) + share(150),
    "power_limit_min_w": share(10),
    "power_limit_max_w": share(50) + share(200),
    "temperature_c": to(0, 70, 105),
    "temperature_slowdown_c": to(40, 200),
    "temperature_shutdown_c": to(40, 200),
    "temperature_max_operating_c": to(30, 200),
    "memory_temperature_c": to(0, 110),
    "memory_temperature_max_c": to(30, 200),
    "thermal_margin_c": to(1, 90),
    "temperature_limits": to(None),
    "fan_speeds_percent": to([0], [100]),
    "performance_state": to(3, 15),
    "persistence_mode": INVERTED,
    "display_active": INVERTED,
    "display_mode": INVERTED,
    "clock_event_reasons": [(each, lambda old, each=each: [each]) for each in (
        "hw_slowdown", "hw_thermal_slowdown", "hw_power_brake", "sw_thermal_slowdown",
        "sw_power_cap", "application_clocks", "sync_boost", "display_clocks")],
    "supported_clock_event_reasons": to([]),
    "memory_total_bytes": share(50) + share(97),
    "memory_used_bytes": [("60 % of the memory, by no process", lambda old: 20 * GIB)],
    "memory_reserved_bytes": [("half of what is used", lambda old: old // 2)],
    "bar1_total_bytes": to(16 * MIB, 256 * MIB),
    "bar1_used_bytes": [("all", lambda old: 256 * MIB)],
    "ecc_mode": MODE,
    "ecc_default": INVERTED,
    "ecc_errors.volatile_corrected": COUNTED,
    "ecc_errors.volatile_uncorrected": COUNTED,
    "ecc_errors.aggregate_corrected": COUNTED,
    "ecc_errors.aggregate_uncorrected": COUNTED,
    "sram_threshold_exceeded": INVERTED,
    "sram_errors.aggregate_uncorrected_parity": COUNTED,
    "sram_errors.aggregate_uncorrected_secded": COUNTED,
    "sram_errors.volatile_corrected": COUNTED,
    "row_remap.correctable": to(1, 500),
    "row_remap.uncorrectable": to(1, 500),
    "row_remap.pending": INVERTED,
    "row_remap.failure": INVERTED,
    "row_remap.histogram.none": to(1, 500),
    "row_remap.histogram.low": to(1, 500),
    "row_remap.histogram.partial": to(1, 500),
    "row_remap.histogram.high": to(1, 500),
    "row_remap.histogram.max": to(0),
    "retired_pages.single_bit": to(1, 70),
    "retired_pages.double_bit": to(1, 70),
    "retired_pages.pending": INVERTED,
    "mig_mode": MODE,
    "mig_devices_max": to(0),
    "recovery_action": to(1, 2, 3, 4),
    "compute_mode": to("prohibited", "exclusive_process"),
    "utilization_percent": to(100),
    "memory_utilization_percent": to(100),
    "encoder_utilization_percent": to(100),
    "decoder_utilization_percent": to(100),
    "processes": [_joined(STRANGER), _joined(PAINTER)],
    "pcie_link_width": to(1, 4, 8),
    "pcie_link_width_max": to(1, 4, 8),
    "pcie_link_generation": [("0", lambda old: 0)],
    "pcie_link_generation_max": to(1, 2),
    "pcie_link_generation_max_device": to(1, 2),
    "pcie_replays": to(1000, MANY),
    "pcie_tx_kb_per_s": to(MANY),
    "pcie_rx_kb_per_s": to(MANY),
    "nvlinks": NVLINK_CHANGES,
    "nvlink_speed_common_gbps": share(50),
    "numa_node": to(-1),
    "cpu_affinity": to("0"),
    "memory_affinity": [("another", lambda old: [each + 1 for each in old])],
    **{f"clocks.{name}": share(50) for name in (
        "graphics_mhz", "sm_mhz", "memory_mhz", "video_mhz", "max_graphics_mhz", "max_sm_mhz",
        "max_memory_mhz", "max_video_mhz", "application_graphics_mhz", "application_memory_mhz",
        "default_application_graphics_mhz", "default_application_memory_mhz")},
    **{f"fabric.{name}": changes for name, changes in FABRIC.items()},
}  # fmt: skip
"""By quantity of a GPU (``tests/lab/nvml.py``), what would be broken."""

APPEARS = {
    "sram_errors.aggregate_uncorrected_parity": "sram_threshold_exceeded",
    "sram_errors.aggregate_uncorrected_secded": "sram_threshold_exceeded",
    "sram_errors.volatile_corrected": "sram_threshold_exceeded",
    **{f"fabric.{name}": "fabric" for name in FABRIC if name not in ("state", "cluster_uuid")},
}
"""Quantities that no healthy scenario gives, and what a GPU has that would have them."""

NOT_CHANGED = {
    "under_load": "what a load does is of tests/lab/loads",
    "load": "nothing loads an idle node",
    "path": "comes from the PCI tree, which is changed",
    "events": "nobody listens on an idle node",
    "event_types": "nobody listens on an idle node",
    "errors": "each quantity is refused in turn",
    "lost": "a change of its own",
    "hang": "the faults of h100x8 have it",
    "total_energy_j": "goes up with time",
    "platform": "where a node is; right is what was ordered (tests/judge/test_parts.py)",
    "virtualization_mode": "what a GPU is, not how it does; vgpu_guest has another",
}
"""Keys of a GPU in a scenario that the table leaves out, and why."""

REFUSALS = ("NOT_SUPPORTED", "UNKNOWN")


def of_nvml(scenario: Scenario) -> Iterator[Mutation]:
    """Yield every change of what NVML says, and of what the bus says with it."""
    if scenario.nvml is not None:
        yield from _of_gpus(scenario.nvml)
        yield from _of_driver(scenario.nvml)
        yield from _of_gpus_of_both(scenario)


def _of_gpus(nvml: Mapping[str, Any]) -> Iterator[Mutation]:
    gpus = [lay_over(nvml.get("gpu", {}), own or {}) for own in nvml["gpus"]]
    one = min(3, len(gpus) - 1)
    for quantity, changes in GPU.items():
        keys = quantity.split(".")
        old = value_of(gpus[one], keys)
        wanted = APPEARS.get(quantity)
        if old is None and not (wanted and wanted in gpus[one]):
            continue
        for change, broken in changes:
            yield from _at_gpus(gpus, one, quantity, change, keys, broken)
    for key in sorted({key.partition(".")[0] for key in GPU} & set(gpus[one])):
        for refusal in REFUSALS:
            for place, which in places(one, len(gpus)):
                own = {number: {"errors": {key: refusal}} for number in which}
                yield Mutation(f"nvml.{key}", refusal, place, {"gpus": own})
    named_pairs = set(nvml.get("p2p", {})) - {"all"}  # their numbers would mean others
    for lost in (True, "opened"):
        words = "lost" if lost is True else "opened, then lost"
        for place, which in places(one, len(gpus)):
            yield Mutation("nvml.gpu", words, place, {"gpus": {n: {"lost": lost} for n in which}})
    for place, which in places(one, len(gpus)):
        for refusal in ("NO_PERMISSION", "UNKNOWN"):
            own = {number: {"errors": {"handle": refusal}} for number in which}
            yield Mutation("nvml.gpu", f"handle {refusal}", place, {"gpus": own})
        if not named_pairs:
            yield Mutation("nvml.gpu", "not listed", place, {"gpus": dict.fromkeys(which)})
    if len(gpus) > 1:
        for key in ("uuid", "serial", "minor_number", "module_id"):
            if gpus[0].get(key) is not None:
                own = {one: {key: gpus[0][key]}}
                yield Mutation(f"nvml.{key}", "that of another GPU", "one", {"gpus": own})
        yield from _of_pairs(nvml, one, len(gpus))


def _at_gpus(
    gpus: Sequence[Mapping[str, Any]],
    one: int,
    quantity: str,
    change: str,
    keys: Sequence[str],
    broken: Callable[[Any], Any],
) -> Iterator[Mutation]:
    for place, which in places(one, len(gpus)):
        values = {number: broken(value_of(gpus[number], keys)) for number in which}
        if all(value is SAME for value in values.values()):
            continue
        own = {number: nested(keys, value) for number, value in values.items() if value is not SAME}
        yield Mutation(f"nvml.{quantity}", change, place, {"gpus": own})


def _of_pairs(nvml: Mapping[str, Any], one: int, count: int) -> Iterator[Mutation]:
    pair = f"0-{one}"
    for capability in ("read", "write", "nvlink", "atomics", "pci"):
        for refusal in ("NOT_SUPPORTED", "CHIPSET_NOT_SUPPORTED", "UNKNOWN"):
            for place, of in (("one", pair), ("all", "all")):
                p2p: dict[str, Any] = {of: {capability: refusal}}
                if place == "all":
                    named = {each: {capability: refusal} for each in nvml.get("p2p", {})}
                    p2p = {**named, **p2p}
                if overlay(nvml.get("p2p", {}), p2p) != nvml.get("p2p"):
                    yield Mutation(f"nvml.p2p.{capability}", refusal, place, {"p2p": p2p})
    for level in ("internal", "system"):
        yield Mutation("nvml.topology", level, "one", {"topology": {pair: level}})


DRIVER: Mapping[str, list[Change]] = {
    "driver_version": OTHER + to("470.82.01"),
    "cuda_driver_version": to("11.4", None),
    "nvml_version": OTHER,
    "init_error": to("DRIVER_NOT_LOADED", "LIB_RM_VERSION_MISMATCH", "NO_PERMISSION", "UNKNOWN",
                     "INSUFFICIENT_POWER"),
    "open_s": to(6.0),
}  # fmt: skip


def _of_driver(nvml: Mapping[str, Any]) -> Iterator[Mutation]:
    for key, changes in DRIVER.items():
        for change, broken in changes:
            value = broken(nvml.get(key))
            if value is not SAME:
                yield Mutation(f"nvml.{key}", change, "node", {key: value})


def _of_gpus_of_both(scenario: Scenario) -> Iterator[Mutation]:
    """Yield what NVML and the bus tell alike: the link of a GPU, a GPU that is gone."""
    assert scenario.nvml is not None
    gpus = [lay_over(scenario.nvml.get("gpu", {}), own or {}) for own in scenario.nvml["gpus"]]
    bus = bus_of(scenario.host)
    addresses = [gpu.get("pci_address", "") for gpu in gpus]
    for place, which in places(min(3, len(gpus) - 1), len(gpus)):
        on_bus = [addresses[number] for number in which if addresses[number] in bus]
        if not on_bus:
            continue
        gone = {"devices": {address: {"gone": True} for address in on_bus}}
        if not set(scenario.nvml.get("p2p", {})) - {"all"}:
            none = {"gpus": dict.fromkeys(which)}
            yield Mutation("gpu", "gone from bus and NVML", place, none, gone)
        for width in (1, 4, 8):
            if all(gpus[number].get("pcie_link_width", 0) <= width for number in which):
                continue
            own = {number: {"pcie_link_width": width} for number in which}
            both = [*on_bus, *(bus[address][1] for address in on_bus if bus[address][1])]
            devices = {"devices": {address: {"current_link_width": width} for address in both}}
            yield Mutation("gpu", f"link of {width} lanes", place, {"gpus": own}, devices)
        slow = {number: {"pcie_link_generation": 1, "pcie_link_generation_max": 1}
                for number in which}  # fmt: skip
        speed = {"max_link_speed": "2.5 GT/s PCIe", "current_link_speed": "2.5 GT/s PCIe"}
        devices = {"devices": dict.fromkeys(on_bus, speed)}
        yield Mutation("gpu", "link of generation 1 at most", place, {"gpus": slow}, devices)
