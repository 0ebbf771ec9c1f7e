"""A ``libnvidia-ml.so.1`` that answers from a scenario: how it is built and told what to say.

The library is C, in ``tests/lab/nvml/``, compiled against NVIDIA's own ``nvml.h``. It reads the
file that ``HWLAB_NVML`` names, or else ``scenario`` beside itself, again whenever that file was
replaced. What a scenario does not give is NOT_SUPPORTED, never an invented value. ``write`` raises
ValueError for an unknown key.

The node::

    driver_version: "570.86.15"     also decides which functions, fields, links and structures
                                    there are (``tests/lab/nvml/driver.c``)
    cuda_driver_version: "12.8"     nvml_version: "12.570.86.15"
    init_error: DRIVER_NOT_LOADED   nvmlInit answers this NVML_ERROR_*; a number is taken as it is
    hang: [function, ...]           never return; a name without version means every version
    unsupported: [function, ...]    answer FUNCTION_NOT_FOUND, as on an older driver
    deprecated: [function, ...]     answer DEPRECATED
    delay_ms: 0                     every call takes this long
    open_s: 3.5                     the first handle of a GPU without persistence mode takes this
                                    long; all calls to GPUs wait the while
    version_checked_first: true     a function that knows several versions of a structure looks
                                    at the version first, and then whether the GPU supports it
    error_texts: {4711: "..."}      what nvmlErrorString says of a code of its own
    topology: {"0-1": single}       internal, single, multiple, hostbridge, node, system;
                                    what is not given is derived from the GPUs' ``path``
    p2p: {all: {read: OK}, "0-1": {nvlink: OK}, "1>0": {write: CHIPSET_NOT_SUPPORTED}}
                                    read, write, nvlink, atomics, pci (or prop): NVML_P2P_STATUS_*;
                                    "0-1" is both ways, "1>0" one; the most exact one counts
    gpu: {...}                      what every GPU has unless it says otherwise (nested keys merge;
                                    null takes a key away)
    gpus: [{...}, ...]              the GPUs' own values

A GPU, identity::

    name  uuid  serial  board_part_number  vbios  inforom_image    text
    inforom_oem  inforom_ecc  inforom_power                        text
    inforom_valid: true             false: CORRUPTED_INFOROM
    pci_address: "0000:18:00.0"     or a text that is none
    device_id: "0x233010DE"  subsystem_id: "0x16C110DE"            as NVML: vendor in the low half
    brand: tesla                    nvmlBrandType_t after NVML_BRAND_, in lower case, or a number
    architecture: hopper            after NVML_DEVICE_ARCH_, in lower case, or a number
    compute_capability: "9.0"       minor_number: 0   module_id: 1   board_id: 6144
    path: "numa0/root1/switch2"     NUMA node, host bridge, then PCIe switches down to the GPU; two
                                    GPUs of one last part ``board...`` share a board (internal)
    cpu_affinity: "0-47,96-143"     or a list       memory_affinity: [0]       numa_node: 0
                                    (-1: it has none)

Power, heat, clocks::

    power_w: 71.5                   total_energy_j: 0  (at boot of the machine; it goes on from
                                    there with power_w)
    power_limit_w: 700              enforced; power_limit_requested_w where the set one differs
    power_limit_default_w  power_limit_min_w  power_limit_max_w
    temperature_c  temperature_slowdown_c  temperature_shutdown_c  temperature_max_operating_c
    memory_temperature_c  memory_temperature_max_c  thermal_margin_c
    temperature_limits: {shutdown_c: -7, slowdown_c: -2, memory_max_c: 0, max_operating_c: 0}
                                    thresholds as thermal_margin_c counts: from the maximum
                                    operating temperature, below 0 where they are above it
    fan_speeds_percent: [30, 31]    performance_state: 0     persistence_mode: true
    clock_event_reasons: [idle]     names as in hwcheck/node/nvml/gpu.py
    supported_clock_event_reasons: [...]
    clocks: {graphics_mhz, sm_mhz, memory_mhz, video_mhz,
             max_graphics_mhz, max_sm_mhz, max_memory_mhz, max_video_mhz,
             application_graphics_mhz, application_memory_mhz,
             default_application_graphics_mhz, default_application_memory_mhz}

Load: with ``under_load`` a GPU that works gets hot (see ``tests/lab/nvml/load.c``)::

    under_load: {power_w: 690, ambient_c: 25, resistance_c_per_w: 0.06, time_constant_s: 20,
                 sm_mhz: 1980, utilization_percent: 100, memory_utilization_percent: 40,
                 performance_state: 0}                  the first four are required
                                    more of it: cooling_time_constant_s where it cools down
                                    otherwise; pcie_link_width, pcie_link_generation; the
                                    clock_event_reasons beside those that power and heat give;
                                    new_errors: {after_s: 4, pcie_replays: 30, ecc_errors: {...}}
                                    is what counters gain so long after the begin
    load: true                      at work for so long that nothing changes any more
    load: {since_s: 1.7e9, until_s: 1.7e9}              epoch; ``until_s`` may be left out
    Every GPU is at work while the file that ``HWLAB_NVML_LOAD`` names is there (``begin_load``,
    ``end_load``); without it GPU 3 while that file with ``.3`` after its name is.

Memory and errors::

    memory_total_bytes  memory_used_bytes               used: allocated and reserved, as
                                    nvmlDeviceGetMemoryInfo counts it; _v2 leaves reserved out
    memory_reserved_bytes                               0 where not given
    bar1_total_bytes  bar1_used_bytes
    ecc_mode: true | {current: true, pending: false}    ecc_default: true
    ecc_errors: {volatile_corrected, volatile_uncorrected, aggregate_corrected,
                 aggregate_uncorrected, locations: {dram: {volatile_corrected: 1}}}
                                    locations: nvmlMemoryLocation_t in lower case
    sram_threshold_exceeded: false
    sram_errors: {aggregate_uncorrected_parity, aggregate_uncorrected_secded, aggregate_corrected,
                  volatile_uncorrected_parity, volatile_uncorrected_secded, volatile_corrected}
    row_remap: {correctable, uncorrectable, pending, failure,
                histogram: {max, high, partial, low, none}}
    retired_pages: {single_bit, double_bit, pending}    counts
    mig_mode: false | {current, pending}                mig_devices_max: 7
    recovery_action: 0              nvmlDeviceGpuRecoveryAction_t; absent: an older driver
    compute_mode: default           exclusive_process, prohibited
    virtualization_mode: none       nvmlGpuVirtualizationMode_t: passthrough, vgpu, host_vgpu
    utilization_percent  memory_utilization_percent  encoder_utilization_percent
    decoder_utilization_percent     display_active: false     display_mode: false
    processes: [{pid: 4711, kind: compute, memory_bytes: 2147483648, name: /usr/bin/python3,
                 sm_percent, memory_percent, encoder_percent, decoder_percent}]
                                    kind: compute, graphics, mps; pid ``self``: whoever asks;
                                    a process without name is one that NVML does not find. No
                                    ``processes``: not supported; an empty list: nobody.

Events::

    event_types: [xid, double_bit_ecc]      what can be listened to: KINDS of
                                    hwcheck/node/nvml/events.py
    events: [{type: xid, data: 79, after_s: 2}]
                                    at most 64. Who listens is told of those that are written
                                    from then on, and of one with after_s that long after

Links::

    pcie_link_width  pcie_link_width_max  pcie_link_generation  pcie_link_generation_max
    pcie_link_generation_max_device  pcie_replays  pcie_tx_kb_per_s  pcie_rx_kb_per_s
    nvlinks: [{count: 18, active: true, version: "4.0", speed_gbps: 26.562,
               remote: "switch:0000:05:00.0", capabilities: [p2p, sysmem, p2p_atomics,
               sysmem_atomics, sli, valid], errors: {replay: 0}, error_counters: {crc_flit: 0}}]
                                    count repeats an entry; speed_gbps: 1e9 bytes/s each way;
                                    remote: gpu:3, gpu:0000:3b:00.0, switch:ADDRESS, npu:ADDRESS,
                                    unknown:ADDRESS (a guest that is not shown its switches;
                                    "unknown:" gives an empty address);
                                    errors: the fields of Hopper (replay, recovery, crc) or
                                    Blackwell (recovery_failed, malformed_packet, buffer_overrun,
                                    symbol, effective); rates: {symbol: 15e-255, effective:
                                    15e-255}, bit error rates of Blackwell, as texts;
                                    error_counters: the counters before Hopper
                                    (replay, recovery, crc_flit, crc_data);
                                    supported: false in place of all: NOT_SUPPORTED
    nvlink_speed_common_gbps        what GPUs say that have no speed per link
    platform: {chassis_serial: "1821624190123", slot: 22, tray: 14, host: 1}
                                    nvmlPlatformInfo_v2_t: the rack, and where in it the node is
    fabric: {state: completed, status: SUCCESS, cluster_uuid: "...", clique_id: 0, version: 3,
             degraded_bandwidth: false, route_recovery: false, route_unhealthy: false,
             access_timeout_recovery: false, incorrect_configuration: none,
             health_summary: healthy}
                                    state: not_supported, not_started, in_progress, completed;
                                    version: the newest structure that this driver knows,
                                    where it is not that of its generation;
                                    incorrect_configuration: none, incorrect_sysguid,
                                    incorrect_chassis_sn, no_partition, insufficient_nvlinks,
                                    incompatible_gpu_fw, invalid_location, gpu_state_invalid

Faults of one GPU::

    errors: {power_w: NOT_SUPPORTED, nvlinks: NO_PERMISSION, nvmlDeviceGetName: UNKNOWN}
                                    by key above or by function; ``handle``: it cannot be opened
    lost: true                      counted, cannot be opened, answers GPU_IS_LOST;
                                    ``opened``: can be opened, answers GPU_IS_LOST
    hang: [function, ...]           as above, for this GPU
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.lab.nvml_keys import SOURCES, lines, versions

LIBRARY = "libnvidia-ml.so.1"
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wmissing-prototypes", "-Wno-format-truncation")
"""A function that nvml.h does not declare has no prototype: it does not compile. A key that would
be cut off is none that a scenario has."""


def build(folder: Path, without: Sequence[str] = ()) -> Path:
    """Compile the library into this folder, unless it is there already, and return the folder.

    ``without`` names functions that it shall not have, as an older driver's. Raises RuntimeError
    with the compiler's words.
    """
    hidden = sorted({each for name in without for each in versions("without", name)})
    sources = sorted(SOURCES.glob("*.[ch]"))
    made_of = hashlib.sha256(b"".join(path.read_bytes() for path in sources))
    made_of.update(repr((hidden, header())).encode())
    note = folder / f"{LIBRARY}.sha256"
    if note.exists() and note.read_text("ascii") == made_of.hexdigest():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    exported = folder / "exported"
    local = "".join(f"{name}; " for name in [*hidden, "*"])
    exported.write_text(f"{{ global: nvml*; local: {local}}};", "ascii")
    new = folder / f"{LIBRARY}.{os.getpid()}"
    command = ["gcc", "-std=c11", "-O2", "-shared", "-fPIC", "-pthread", *WARNINGS]
    command += ["-isystem", str(header().parent), f"-Wl,-soname,{LIBRARY}"]
    command += [f"-Wl,--version-script={exported}", "-o", str(new)]
    command += [str(path) for path in sources if path.suffix == ".c"] + ["-lm"]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise RuntimeError("gcc is not there: install it") from None
    if done.returncode:
        raise RuntimeError(f"{LIBRARY} does not compile: {done.stderr}")
    new.replace(folder / LIBRARY)
    note.write_text(made_of.hexdigest(), "ascii")
    return folder


def header() -> Path:
    """Return NVIDIA's ``nvml.h``. Raises RuntimeError where its package is not installed."""
    try:
        files = metadata.files("nvidia-nvml-dev") or []
    except metadata.PackageNotFoundError:
        files = []
    found = [Path(str(file.locate())) for file in files if file.name == "nvml.h"]
    if not found:
        raise RuntimeError("nvml.h is not there: install nvidia-nvml-dev (the extra dev has it)")
    return found[0]


def write(path: Path, nvml: Mapping[str, Any]) -> None:
    """Write what the library shall say; whoever has loaded it says so from the next call on.

    Raises ValueError, naming the key, for what is not known or cannot be.
    """
    write_lines(path, lines(nvml))


def write_lines(path: Path, answers: Mapping[str, str]) -> None:
    """Write the same from a scenario's lines (``nvml_keys.lines``)."""
    _replace(path, "".join(f"{key}={value}\n" for key, value in sorted(answers.items())))


def begin_load(path: Path, since_s: float | None = None) -> None:
    """Put every GPU to work, now or since then (seconds of the epoch).

    The library learns of it from the file that ``HWLAB_NVML_LOAD`` names: this one.
    """
    _replace(path, repr(time.time() if since_s is None else since_s))


def end_load(path: Path) -> None:
    """Let the GPUs that ``begin_load`` put to work cool down from now on."""
    since = path.read_text("ascii").split()[0]
    _replace(path, f"{since} {time.time()!r}")


def _replace(path: Path, text: str) -> None:
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(text, "utf-8")
    new.replace(path)
