"""The keys of a scenario's ``nvml``, each with its reader, and the whole of it as lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pynvml

from hwcheck.node.nvml.events import KINDS
from tests.lab import nvml_readers as to
from tests.lab.nvml_pairs import p2p_lines, topology_lines

SOURCES = Path(__file__).with_name("nvml")
LOST = {True: "1", "opened": "2"}
LOAD_REQUIRED = ("power_w", "ambient_c", "resistance_c_per_w", "time_constant_s")
NVLINK_VERSIONS = {name.replace("_", "."): number
                   for name, number in to.constants("NVML_NVLINK_VERSION_").items()}  # fmt: skip
CAPABILITIES = ("p2p", "sysmem", "p2p_atomics", "sysmem_atomics", "sli", "valid")
REMOTES = {"gpu": 0, "npu": 1, "switch": 2, "unknown": 0xFF}
CLOCKS = [
    f"{prefix}{domain}_mhz"
    for prefix in ("", "max_", "application_", "default_application_")
    for domain in ("graphics", "sm", "memory", "video")
]
EVENTS = {kind: getattr(pynvml, name) for name, kind in KINDS.items() if hasattr(pynvml, name)}
HEALTH = {"degraded_bandwidth": 0, "route_recovery": 2, "route_unhealthy": 4,
          "access_timeout_recovery": 6}  # fmt: skip
CONFIGURATIONS = to.constants("NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_")


@cache
def functions() -> frozenset[str]:
    """Return the NVML functions that the library has."""
    sources = "".join(path.read_text("utf-8") for path in sorted(SOURCES.glob("*.c")))
    defined = re.findall(r"^(?:nvmlReturn_t |const char \*|[A-Z_]+\()(nvml[A-Z]\w+)", sources, re.M)
    return frozenset(defined)


def versions(key: str, name: object) -> list[str]:
    """Return the functions of this name: ``nvmlInit`` is every version of it. Raises ValueError."""
    pattern = re.compile(re.escape(str(name)) + r"(_v\d+|WithFlags)?")
    found = sorted(each for each in functions() if pattern.fullmatch(each))
    if not found:
        raise to.refuse(key, name, "a function that the library has")
    return found


def function_list(key: str, value: object) -> to.Lines:
    for name in to.listed(key, value):
        for function in versions(key, name):
            yield f"{key}.{function}", "1"


def gpu_errors(key: str, value: object) -> to.Lines:
    if not isinstance(value, Mapping):
        raise to.refuse(key, value, "a mapping")
    for name, code in value.items():
        known = name in GPU or name == "handle"
        for each in [name] if known else versions(key, name):
            yield from to.error(f"{key[:-1]}.{each}", code)


def lost(key: str, value: object) -> to.Lines:
    if value is False:
        return
    if not (isinstance(value, (bool, str)) and value in LOST):
        raise to.refuse(key, value, "true, false or opened")
    yield key, LOST[value]


def load(key: str, value: object) -> to.Lines:
    if value is True:
        yield f"{key}.forever", "1"
    elif value is not False:
        yield from to.group({"since_s": to.number, "until_s": to.number}, ("since_s",))(key, value)


def utilization(key: str, value: object) -> to.Lines:
    yield from to.number(key, value)
    yield f"{key}.period_us", "0"  # how long it was measured is not told


def ecc_errors(key: str, value: object) -> to.Lines:
    scopes = [f"{when}_{kind}" for when in ("volatile", "aggregate")
              for kind in ("corrected", "uncorrected")]  # fmt: skip
    counts = dict.fromkeys(scopes, to.count)
    locations = to.constants("NVML_MEMORY_LOCATION_")
    places = {name: lambda _, each, n=number: to.group(counts)(f"{key}.location{n}", each)
              for name, number in locations.items()}  # fmt: skip
    return to.group({**counts, "locations": to.group(places)})(key, value)


def new_errors(key: str, value: object) -> to.Lines:
    known = {"after_s": to.number, "pcie_replays": to.count, "ecc_errors": ecc_errors}
    return to.group(known)(key, value)


def process(key: str, value: object) -> to.Lines:
    if not isinstance(value, Mapping) or value.get("kind") not in ("compute", "graphics", "mps"):
        raise to.refuse(key, value, "a process with a kind: compute, graphics, mps")
    own = {**value, "pid": 0 if value.get("pid") == "self" else value.get("pid")}
    shares = ("sm_percent", "memory_percent", "encoder_percent", "decoder_percent")
    known = {"pid": to.count, "kind": to.text, "name": to.text, "memory_bytes": to.count,
             **dict.fromkeys(shares, to.count)}  # fmt: skip
    return to.group(known, ("pid",))(key, {k: v for k, v in own.items() if v is not None})


def event(key: str, value: object) -> to.Lines:
    known = {"type": to.one_of(EVENTS), "data": to.count, "after_s": to.number}
    return to.group(known, ("type",))(key, value)


def event_types(key: str, value: object) -> to.Lines:
    names = [line for name in to.listed(key, value) for line in to.one_of(EVENTS)(key, name)]
    yield key, str(sum(int(number) for _, number in names))


def remote(key: str, value: object) -> to.Lines:
    kind, _, address = str(value).partition(":")
    if kind not in REMOTES or not (address or kind == "unknown"):
        raise to.refuse(key, value, "gpu:3 or gpu, switch, npu with a PCI address, or unknown")
    link = key.rpartition(".")[0]
    yield f"{link}.remote_type", str(REMOTES[kind])
    yield f"{link}.remote_address", address


def rate(key: str, value: object) -> to.Lines:
    """Encode 15e-255 as NVML does: the exponent in eight bits, the mantissa above it in four."""
    parts = re.fullmatch(r"(\d+)e-(\d+)", str(value))
    mantissa, exponent = map(int, parts.groups()) if parts else (16, 0)
    if mantissa > 15 or exponent > 255:
        raise to.refuse(key, value, "a rate such as 15e-255")
    yield key, str(mantissa << 8 | exponent)


def nvlinks(key: str, value: object) -> to.Lines:
    errors = "replay recovery crc recovery_failed malformed_packet buffer_overrun symbol effective"
    link = to.group(
        {
            "active": to.flag,
            "version": to.one_of(NVLINK_VERSIONS),
            "speed_gbps": to.number,
            "remote": remote,
            "capabilities": to.bits(CAPABILITIES),
            "errors": to.group(kinds(to.count, errors)),
            "rates": to.group(kinds(rate, "symbol effective")),
            "error_counters": to.group(kinds(to.count, "replay recovery crc_flit crc_data")),
        },
        ("active",),
    )

    def link_or_none(key: str, value: Any) -> to.Lines:
        return iter(()) if value == {"supported": False} else link(key, value)

    links: list[Any] = []
    for entry in to.listed(key, value):
        if not isinstance(entry, Mapping):
            raise to.refuse(key, entry, "a mapping")
        own = {name: each for name, each in entry.items() if name != "count"}
        links += [own] * entry.get("count", 1)
    return to.numbered(link_or_none)(key, links)


def fabric(key: str, value: object) -> to.Lines:
    if not isinstance(value, Mapping):
        raise to.refuse(key, value, "a mapping")
    own, mask = dict(value), 0
    for name, shift in HEALTH.items():
        if name in own:
            list(to.flag(f"{key}.{name}", own[name]))
            mask |= (1 if own.pop(name) else 2) << shift
    for _, number in to.one_of(CONFIGURATIONS)(key, own.pop("incorrect_configuration", 0)):
        mask |= int(number) << 8
    if isinstance(own.get("cluster_uuid"), str):
        own["cluster_uuid"] = own["cluster_uuid"].replace("-", "")
    known = {
        "state": to.one_of(to.constants("NVML_GPU_FABRIC_STATE_")),
        "status": to.error,
        "cluster_uuid": to.text,
        "clique_id": to.count,
        "version": to.count,
        "health_summary": to.one_of(to.constants("NVML_GPU_FABRIC_HEALTH_SUMMARY_")),
        "health_mask": to.count,
    }
    return to.group(known, ("state",))(key, {"health_mask": mask, **own})


def kinds(reader: to.Reader, keys: str) -> dict[str, to.Reader]:
    return dict.fromkeys(keys.split(), reader)


GPU: dict[str, to.Reader] = {
    **kinds(to.text, "name uuid serial board_part_number vbios pci_address path"),
    **kinds(to.text, "inforom_image inforom_oem inforom_ecc inforom_power"),
    **kinds(to.flag, "inforom_valid persistence_mode display_active display_mode ecc_default"),
    **kinds(to.flag, "sram_threshold_exceeded"),
    **kinds(to.hexadecimal, "device_id subsystem_id"),
    **kinds(to.count, "minor_number module_id board_id performance_state recovery_action"),
    **kinds(to.count, "pcie_link_width pcie_link_width_max pcie_link_generation"),
    **kinds(to.count, "pcie_link_generation_max pcie_link_generation_max_device pcie_replays"),
    **kinds(to.count, "pcie_tx_kb_per_s pcie_rx_kb_per_s mig_devices_max"),
    **kinds(to.count, "memory_total_bytes memory_used_bytes memory_reserved_bytes"),
    **kinds(to.count, "bar1_total_bytes bar1_used_bytes"),
    **kinds(to.number, "power_w power_limit_w power_limit_requested_w power_limit_default_w"),
    **kinds(to.number, "power_limit_min_w power_limit_max_w total_energy_j"),
    **kinds(to.number, "temperature_c temperature_slowdown_c temperature_shutdown_c"),
    **kinds(to.number, "temperature_max_operating_c memory_temperature_c"),
    **kinds(to.number, "memory_temperature_max_c nvlink_speed_common_gbps"),
    **kinds(to.number, "utilization_percent memory_utilization_percent"),
    **kinds(utilization, "encoder_utilization_percent decoder_utilization_percent"),
    **kinds(to.clock_events, "clock_event_reasons supported_clock_event_reasons"),
    **kinds(to.mode, "ecc_mode mig_mode"),
    **kinds(to.number_list, "cpu_affinity memory_affinity"),
    **kinds(to.signed, "thermal_margin_c numa_node"),
    "brand": to.one_of(to.constants("NVML_BRAND_")),
    "architecture": to.one_of(to.constants("NVML_DEVICE_ARCH_")),
    "compute_mode": to.one_of(to.constants("NVML_COMPUTEMODE_")),
    "virtualization_mode": to.one_of(to.constants("NVML_GPU_VIRTUALIZATION_MODE_")),
    "compute_capability": to.major_minor,
    "fan_speeds_percent": to.numbered(to.count),
    "clocks": to.group(dict.fromkeys(CLOCKS, to.number)),
    "under_load": to.group(
        kinds(to.number, " ".join(LOAD_REQUIRED) + " sm_mhz utilization_percent")
        | kinds(to.number, "memory_utilization_percent performance_state cooling_time_constant_s")
        | kinds(to.count, "pcie_link_width pcie_link_generation")
        | {"clock_event_reasons": to.clock_events, "new_errors": new_errors},
        LOAD_REQUIRED,
    ),
    "temperature_limits": to.group(
        kinds(to.signed, "shutdown_c slowdown_c memory_max_c max_operating_c")
    ),
    "load": load,
    "ecc_errors": ecc_errors,
    "sram_errors": to.group(
        kinds(to.count, "aggregate_uncorrected_parity aggregate_uncorrected_secded")
        | kinds(to.count, "volatile_uncorrected_parity volatile_uncorrected_secded")
        | kinds(to.count, "aggregate_corrected volatile_corrected")
    ),
    "row_remap": to.group(
        kinds(to.count, "correctable uncorrectable")
        | kinds(to.flag, "pending failure")
        | {"histogram": to.group(kinds(to.count, "max high partial low none"))}
    ),
    "retired_pages": to.group(kinds(to.count, "single_bit double_bit") | {"pending": to.flag}),
    "processes": to.numbered(process),
    "event_types": event_types,
    "events": to.numbered(event),
    "nvlinks": nvlinks,
    "fabric": fabric,
    "platform": to.group(
        {"chassis_serial": to.text} | kinds(to.count, "slot tray host"), ("slot",)
    ),
    "errors": gpu_errors,
    "lost": lost,
    "hang": function_list,
}
NODE: dict[str, to.Reader] = {
    **kinds(to.text, "driver_version nvml_version"),
    **kinds(function_list, "hang unsupported deprecated"),
    "init_error": to.error,
    **kinds(to.number, "delay_ms open_s"),
    "version_checked_first": to.flag,
}


def lay_over(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults with a GPU's own values: mappings merge, None takes a key away."""
    merged = dict(base)
    for key, value in own.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = lay_over(merged[key], value) if both else value
    return {key: value for key, value in merged.items() if value is not None}


def lines(nvml: Mapping[str, Any]) -> dict[str, str]:
    """Return a scenario as the library reads it. Raises ValueError, naming the key."""
    rest = {key: value for key, value in nvml.items() if value is not None}
    defaults = rest.pop("gpu", {})
    gpus = [lay_over(defaults, own or {}) for own in rest.pop("gpus", [])]
    found = {"gpus": str(len(gpus))}
    found |= topology_lines(gpus, rest.pop("topology", {}))
    found |= p2p_lines(len(gpus), rest.pop("p2p", {}))
    for code, words in rest.pop("error_texts", {}).items():
        found |= to.text(f"error_text.{code}", words)
    if "cuda_driver_version" in rest:
        version = dict(to.major_minor("cuda_driver_version", rest.pop("cuda_driver_version")))
        major, minor = (int(number) for number in version.values())
        found["cuda_driver_version"] = str(1000 * major + 10 * minor)
    for key, value in rest.items():
        if key not in NODE:
            raise ValueError(f"nvml: unknown key {key!r}; known: {', '.join(NODE)}")
        found |= NODE[key](key, value)
    for place, gpu in enumerate(gpus):
        if "memory_used_bytes" in gpu:
            gpu.setdefault("memory_reserved_bytes", 0)
        if gpu.get("memory_used_bytes", 0) < gpu.get("memory_reserved_bytes", 0):
            raise ValueError(f"gpu.{place}: memory_reserved_bytes is part of memory_used_bytes")
        found |= to.group(GPU)(f"gpu.{place}", _addressed(gpu, gpus))
        for each in gpu.get("processes", []):
            if "name" in each:
                found[f"process_name.{each['pid']}"] = each["name"]
    return found


def _addressed(gpu: dict[str, Any], gpus: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the GPU with ``remote: gpu:3`` in its NVLinks replaced by that GPU's address."""
    links = []
    for link in gpu.get("nvlinks", []):
        number = re.fullmatch(r"gpu:(\d+)", str(link.get("remote", "")))
        if number:
            peer = int(number.group(1))
            if peer >= len(gpus) or "pci_address" not in gpus[peer]:
                raise to.refuse("nvlinks: remote", link["remote"], "a GPU with a pci_address")
            link = {**link, "remote": f"gpu:{gpus[peer]['pci_address']}"}
        links.append(link)
    return {**gpu, "nvlinks": links} if "nvlinks" in gpu else gpu
