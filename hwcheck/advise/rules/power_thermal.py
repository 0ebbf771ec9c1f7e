"""What makes GPUs hot or slow: power, cooling, clocks, or work of somebody else."""

from __future__ import annotations

import re

from hwcheck.advise.rule import HostFindings, Sign, rule, sign
from hwcheck.text import quantity

UNPLUGGED = re.compile(r"xid 54$")
THROTTLED = ("hw_thermal_slowdown", "sw_thermal_slowdown")
AT_WORK = ("clocks_under_load", "sustained_tflops", "power_under_load", "hbm_bandwidth")
"""Checks of how much a GPU does under a load."""


@rule(
    title="A power limit is set below what the board is made for",
    effect="the GPU holds lower clocks, and the slowest GPU sets the pace of every collective",
    fix="declare the limit as hwcheck_power_limit_w when it is meant; otherwise set the "
    "board's default with nvidia-smi -pl, and look for what sets it at boot or a missing "
    "power cable",
    confirm="nvidia-smi -q -d POWER; systemctl list-units | grep -i nvidia",
    source="NVML API Reference Guide, nvmlDeviceGetPowerManagementDefaultLimit and "
    "nvmlDeviceGetEnforcedPowerLimit",
    role="gpu_settings",
)
def power_limit_lowered(host: HostFindings) -> Sign | None:
    """Slower products on the same GPU follow from it."""
    limits = host.bad("power_cap", "power_limit_percent", "power_limit_w")
    gpus = {finding.subject for finding in limits}
    follow = host.bad_on(gpus, "sustained_tflops", "clocks_under_load")
    set_w = host.values("power_cap", "power_limit_w")
    default_w = host.values("power_cap", "power_limit_default_w")
    watts = [
        f"power_cap: {gpu} is held to {quantity(set_w[gpu])} W; its board's default is "
        f"{quantity(default_w[gpu])} W"
        for gpu in sorted(gpus & set(set_w) & set(default_w))
    ]
    return sign("certain", (*limits, *follow), watts)


@rule(
    title="Power delivery fails: the supply or its cables make GPUs brake",
    effect="clocks drop to a fraction while the brake holds, and every job on the node waits for "
    "that GPU",
    fix="look at the power supplies and the event log of the management controller; feed each "
    "connector of a board by a cable of its own; spread boards over the supplies",
    confirm="nvidia-smi -q -d PERFORMANCE; ipmitool sdr type 'Power Supply'; ipmitool sel list | "
    "tail",
    source="NVML API Reference Guide, nvmlClocksEventReasonHwPowerBrakeSlowdown; NVIDIA Xid "
    "catalog, Xid 54",
)
def power_delivery(host: HostFindings) -> Sign | None:
    """The brake is a wire that supply and management controller pull; Xid 54 names the cable.

    Hardware that slows a GPU down and names no heat does so for power, as far as the driver tells.
    """
    unplugged = host.logged(UNPLUGGED)
    brakes = (
        *host.bad("throttle_reasons", "hw_power_brake"),
        *host.bad("throttle_under_load", "hw_power_brake_percent"),
        *host.bad("power_under_load", "power_delivery_percent"),
        *unplugged,
    )
    hot = {
        finding.subject
        for finding in (
            *host.bad("throttle_reasons", *THROTTLED),
            *host.bad("throttle_under_load", *(f"{name}_percent" for name in THROTTLED)),
        )
    }
    slowed = (
        finding
        for finding in (
            *host.bad("throttle_reasons", "hw_slowdown"),
            *host.bad("throttle_under_load", "hw_slowdown_percent"),
        )
        if finding.subject not in hot
    )
    signs = (*brakes, *slowed)
    gpus = {host.gpu_of(finding.subject) for finding in signs}
    throttled = host.bad_on(gpus, "throttle_reasons", "throttle_under_load", "power_under_load")
    slow = host.bad_on(gpus, "clocks_under_load", "sustained_tflops", "power_state")
    confidence = "certain" if unplugged else "likely" if brakes else "possible"
    return sign(confidence, (*signs, *throttled, *slow))


@rule(
    title="Power supplies or cables cannot feed what the GPUs may draw",
    effect="under full load a supply trips or a cable melts: a node that passes idle tests goes "
    "down in a job",
    fix="lower the power limits until the sum fits, or add supplies and cables and declare them",
    confirm="nvidia-smi --query-gpu=index,power.limit --format=csv; ipmitool dcmi power reading",
    source="the inventory's hwcheck_psu_watts and hwcheck_gpu_power_connectors; PCI-SIG CEM, "
    "auxiliary power connectors",
)
def power_budget_short(host: HostFindings) -> Sign | None:
    """It is arithmetic over what the inventory declares."""
    return sign("certain", host.bad("power_budget"))


@rule(
    title="Clocks were set or locked lower than the board's default",
    effect="the GPU computes slower than its peers, and a collective waits for it",
    fix="reset them with nvidia-smi -rac, -rgc and -rmc where they are not meant; see what "
    "sets them at boot",
    confirm="nvidia-smi -q -d CLOCK,PERFORMANCE",
    source="NVML API Reference Guide, nvmlDeviceGetApplicationsClock and "
    "nvmlDeviceGetPerformanceState",
    role="gpu_settings",
)
def clocks_held(host: HostFindings) -> Sign | None:
    """Heat and power have signs of their own, and rank by what these explain."""
    clocks = (
        *host.bad("application_clocks"),
        *host.bad("power_state"),
        *host.bad("clocks_under_load", "memory_clock_percent"),
    )
    gpus = {finding.subject for finding in clocks}
    slow = host.bad_on(gpus, "clocks_under_load", "hbm_bandwidth", "sustained_tflops")
    return sign("likely", (*clocks, *slow))


@rule(
    title="Cooling is short: a fan, an air path, coolant or the air that comes in",
    effect="GPUs slow themselves down under load, and their memory ages",
    fix="compare with the same slot of the neighbors; check fans, filters, blanks, cold "
    "plates and the inlet temperature",
    confirm="nvidia-smi -q -d TEMPERATURE,PERFORMANCE; ipmitool sdr type Fan; ipmitool sdr type "
    "Temperature",
    source="NVML API Reference Guide, nvmlDeviceGetTemperatureThreshold and "
    "nvmlClocksEventReasonHwThermalSlowdown",
)
def cooling(host: HostFindings) -> Sign | None:
    """A GPU at work is warm when it should be idle for another reason."""
    at_work = {gpu for gpu, n in host.values("stray_processes", "compute_processes").items() if n}
    hot = (
        *host.bad("thermal_margin"),
        *host.bad("temperature_under_load"),
        *host.bad("thermal_spread"),
        *host.bad("cool_down"),
        *host.bad("throttle_reasons", *THROTTLED),
        *host.bad("throttle_under_load", *(f"{name}_percent" for name in THROTTLED)),
        *(f for f in host.bad("temperature_idle") if f.subject not in at_work),
    )
    gpus = {finding.subject for finding in hot}
    slow = host.bad_on(gpus, "clocks_under_load", "sustained_tflops", "power_under_load")
    return sign("likely", (*hot, *slow))


@rule(
    title="A heat sink or cold plate has poor contact to its chip",
    effect="that GPU heats up within seconds of a load and slows down before fans can act",
    fix="take the board out and look at mounting and thermal interface",
    confirm="nvidia-smi dmon -s pt -c 30, under load and just after its start",
    source="derived: with the same power, the slope of the first seconds goes by the resistance "
    "between chip and sink; peers of the node are the measure",
)
def thermal_contact(host: HostFindings) -> Sign | None:
    """Air and fans act later than contact."""
    slopes = host.bad("thermal_slope", "slope_over_peers")
    gpus = {finding.subject for finding in slopes}
    return sign("likely", (*slopes, *host.bad_on(gpus, "thermal_spread", "temperature_under_load")))


@rule(
    title="A process of somebody else is on a GPU",
    effect="it takes memory and time from what is measured and from the next job",
    fix="find the owner; where the job is over, end the process and see that its memory is free; "
    "then measure again: what was measured beside it (by --force) says little of the GPU",
    confirm="nvidia-smi pmon -c 1; nvidia-smi --query-compute-apps=pid,name,used_memory "
    "--format=csv",
    source="NVML API Reference Guide, nvmlDeviceGetComputeRunningProcesses",
)
def gpu_in_use(host: HostFindings) -> Sign | None:
    """A GPU at work is warm, too; one that computes for somebody else is slower under a load."""
    processes = host.bad("stray_processes", "compute_processes", "graphics_processes")
    gpus = {finding.subject for finding in processes}
    return sign("certain", (*processes, *host.bad_on(gpus, "temperature_idle", *AT_WORK)))


@rule(
    title="The power sensor of a GPU does not measure",
    effect="the driver keeps to the power limit by it: the GPU draws more than it should, or is "
    "slowed down for nothing, and sums over the node are wrong",
    fix="power the node off and on; when the sensor still says 0 have the board examined",
    confirm="nvidia-smi --query-gpu=index,power.draw --format=csv",
    source="NVML API Reference Guide, nvmlDeviceGetPowerUsage: milliwatts of the whole board",
)
def power_sensor_broken(host: HostFindings) -> Sign | None:
    """No board that answers draws nothing."""
    return sign("likely", host.bad("power_idle", "power_told_as_nothing"))


@rule(
    title="A GPU with nothing to do draws more power than it should",
    effect="its power and heat are missing elsewhere; work that nobody sees, or a board that "
    "leaks, is behind it",
    fix="look for clocks that are locked high (nvidia-smi -rgc) and for work of containers and "
    "guests; reset the GPU; when it goes on, have the board examined",
    confirm="nvidia-smi --query-gpu=index,power.draw,pstate,clocks.sm,utilization.gpu --format=csv",
    source="NVML API Reference Guide, nvmlDeviceGetPowerUsage; derived: idle boards of one model "
    "draw alike",
)
def power_wasted(host: HostFindings) -> Sign | None:
    """Its heat follows from it."""
    power = host.bad("power_idle", "power_idle_w")
    return sign("likely", (*power, *host.bad_on({f.subject for f in power}, "temperature_idle")))


@rule(
    title="A GPU is slower at work than it should be, and nothing that was read says why",
    effect="every collective goes at its pace",
    fix="compare its clocks, power and temperature at work with those of a neighbor; reset its "
    "clocks (nvidia-smi -rgc, -rmc) and measure again; then swap it with a neighbor: what moves "
    "along is the board's, what stays is the slot's",
    confirm="nvidia-smi dmon -s puct -c 30, under load, beside a GPU that is as it should be",
    source="derived: GPUs of one model and one power limit compute alike; the models' figures are "
    "in hwcheck/judge/models, each with its source",
)
def slow_at_work(host: HostFindings) -> Sign | None:
    """Heat, power, clocks that were set and other causes that are seen explain it better."""
    return sign("possible", (finding for check in AT_WORK for finding in host.bad(check)))
