"""Every GPU gets the power that its work asks for."""

from __future__ import annotations

from statistics import median
from typing import Iterator, List

from hwcheck.checks.shared.load_summary import (
    LEAST_SAMPLES,
    Loaded,
    peers_metric,
    percent,
    share_percent,
    with_peers,
)
from hwcheck.contract.check import CouldNotMeasure, Metric, Remedy, check
from hwcheck.contract.limits import AtLeast, AtMost, Steady
from hwcheck.contract.load_run import HW_POWER_BRAKE, HW_SLOWDOWN, HW_THERMAL, SW_THERMAL
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import NO_VGPU
from hwcheck.node.node import Node

LOW_SHARE = 0.75
TENSOR = ("bf16", "fp16")

BITS = "NVML API Reference Guide, nvmlClocksThrottleReasonHwSlowdown, HwPowerBrakeSlowdown"


POWER_LIMIT_W = Metric(
    "power_limit_w",
    "W",
    "power limit that the driver enforces",
    required=True,
    setting=True,
)


@check(
    metrics=[
        Metric(
            "power_w",
            "W",
            "median in the steady part of the load, as far as heat did not hold the clocks down",
            required=True,
            past=Steady(-1, ratio=True, scatter=0.01, least=0.06),
            drawn_as="power under load",
        ),
        POWER_LIMIT_W,
        Metric(
            "power_percent",
            "%",
            "the median as a share of the enforced limit, of bf16 and fp16; others draw less",
            (
                AtLeast(
                    "derived: DCGM's targeted_power demands 75 % (target_power_min_ratio) of a "
                    "work that it tunes until the power is drawn; a plain product draws less on "
                    "boards that share their limit with a CPU or are short of arithmetic",
                    warn=60,
                    fail=40,
                    confidence="derived",
                ),
            ),
            ratio=("power_w", "power_limit_w"),
        ),
        peers_metric(
            "power_percent_of_peers",
            "power in the steady part",
            "derived: the same work on like boards draws the same power to a few %, and at the "
            "limit exactly the limit; a quarter less is another work or another supply",
            warn=85,
            fail=75,
        ),
        Metric(
            "power_delivery_percent",
            "%",
            "share of the steady part in which hardware halves the clocks, and not for heat, while "
            "less than 75 % of the limit is drawn",
            (
                AtMost(
                    BITS
                    + ": the GPU is asked for full clocks and hardware refuses, at a power that "
                    "the limit allows. DCGM (field identifiers): also shown while a clock "
                    "changes, so 5 % of the samples may",
                    fail=5,
                ),
            ),
        ),
    ],
    remedy=Remedy(
        cause="power delivery: one cable that feeds two connectors, a power supply or a rail that "
        "is overloaded or has failed, or a connector that is not home or burned",
        fix="feed each connector of the board by a cable of its own, spread the boards over the "
        "rails and supplies, see that all supplies run, and look at the pins of the connectors; "
        "then load again",
        command="nvidia-smi -q -d POWER,PERFORMANCE; sudo ipmitool sdr type 'Power Supply'; sudo "
        "ipmitool sel elist",
    ),
    load=True,
    per_gpu=True,
    optional=NO_VGPU,
    group="power, clocks",
)
def power_under_load(node: Node) -> Iterator[Sample]:
    """Compare the power that each GPU draws at work with its limit and with its neighbors.

    A board whose supply gives way is told to brake: its clocks are halved, it stays cool, nothing
    reports an error and it looks well at idle. So low power with hardware's brake on is a finding
    of its own. A GPU at its limit is as it should be, and the driver's power cap is no fault. One
    that is slowed down for heat draws less, which says nothing about its supply: it is judged by
    what it drew before.
    """
    yield from with_peers(node, _of_gpu, "power_w", percent("power_percent_of_peers"))


def _of_gpu(loaded: Loaded) -> Iterator[Sample]:
    quantity = "power_w" if loaded.has("power_w") else "power_average_w"
    power_w, subject = median(_drawn(loaded, quantity)), loaded.subject
    yield Sample("power_w", round(power_w, 1), "W", subject)
    limit_w = loaded.gpu.power_limit_w()
    if loaded.has("clock_events"):
        low = power_w < LOW_SHARE * limit_w
        held = share_percent(loaded.bits(loaded.steady_s), _braked) if low else 0.0
        yield Sample("power_delivery_percent", held, "%", subject)
    yield Sample("power_limit_w", limit_w, "W", subject)
    if loaded.work().dtype in TENSOR:
        yield Sample("power_percent", round(100.0 * power_w / limit_w, 1), "%", subject)


def _drawn(loaded: Loaded, quantity: str) -> List[float]:
    """Return the power of the steady part, or of all the load, without what heat held down."""
    steady = loaded.steady(quantity)
    end_s = loaded.run.load_end_s
    bits = dict(loaded.points("clock_events", 0.0, end_s))
    hot = {at_s for at_s in bits if int(bits[at_s]) & (HW_THERMAL | SW_THERMAL)}
    if not hot:
        return steady
    cool = [watts for at_s, watts in loaded.points(quantity, 0.0, end_s) if at_s not in hot]
    if len(cool) < LEAST_SAMPLES:
        text = "%s: %s: heat held it down all the time; see throttle_under_load"
        raise CouldNotMeasure(text % (loaded.subject, quantity))
    return cool[-len(steady) :]


def _braked(bits: int) -> bool:
    return bool(bits & HW_POWER_BRAKE) or bool(bits & HW_SLOWDOWN and not bits & HW_THERMAL)
