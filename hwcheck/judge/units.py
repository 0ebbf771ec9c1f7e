"""The units of metrics: what values are possible, and how far like figures lie apart. Pure data.

Over like hosts (``peers``) floors are at least five times the standard deviation that healthy hosts
show: 2 % of a matmul (ml-engineering finds 5 % between GPUs of one node), 1 to 2 % of a bandwidth
or a clock, 3 C, 3 % of a power.

Over the GPUs of a node (``neighbors``) twice the others' idle power and 40 W more is no scatter:
boards of one kind idle within 20 %, and a display takes 20 W. Memory that is gone goes by whole
stacks, an eighth or more. Other units are figures of a load, or shares of what is compared itself.

Over nights (``least_change``) GPUs of one node differ by 5 % when all is well (ml-engineering, Not
all accelerators are created equal), and a node without one of its 32 memory modules has 3 % less.
What has no least change and is not counted is not compared: times and rates differ from day to day.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

LEAST_HOSTS = 4
"""With fewer, one that is wrong moves the middle."""

LEAST_GPUS = 3
"""Of two that differ nobody knows which is wrong."""

MADS = 8.0
"""So many median absolute deviations are scatter: 5.4 standard deviations of a normal one."""

MANY = float(2**64)
"""Counters of NVML and the kernel have 64 bits."""


@dataclass(frozen=True)
class Tolerance:
    """How far healthy figures of a unit lie apart, and which side of the middle is bad.

    ``relative`` is a share of the median, ``absolute`` in the unit; the larger counts. With
    ``decades`` figures are compared by their logarithm, and below ``absolute`` none is an outlier.
    Those that scatter may lie ``mads`` median absolute deviations apart, and ``cap`` (in the unit,
    or in decades) where that is less; fewer than ``least_hosts`` are not compared.
    """

    relative: float
    absolute: float
    low: bool = False
    high: bool = False
    decades: float = 0.0
    mads: float = MADS
    least_hosts: int = LEAST_HOSTS
    cap: float = math.inf


@dataclass(frozen=True)
class Unit:
    """What is known of all metrics of a unit.

    ``lowest`` and ``highest`` are its possible values. ``peers`` is how far figures of like hosts
    lie apart, or why they are not compared; ``neighbors`` the same of the GPUs of one board in a
    node. A change over nights below ``least_change`` is none, however small its spread: a share
    where ``is_ratio``, otherwise in the unit. ``is_count``: any other number is a change.
    ``rises_with_work``: GPUs at work are left out where it is compared at idle.
    """

    name: str
    lowest: float
    highest: float
    peers: Tolerance | str
    neighbors: Tolerance | None = None
    least_change: float | None = None
    is_ratio: bool = False
    is_count: bool = False
    rises_with_work: bool = False


COUNTER = Tolerance(0.0, 1000.0, high=True, decades=2.0, cap=3.0)
"""Healthy counters grow with use and differ tenfold, a standard deviation of 0.6 decades at most: a
thousand times the middle is five of them. Their scatter has no part in it beyond that, since of
counts from 0 to 97 eight deviations reach to half a million."""

BANDWIDTH = Tolerance(0.1, 0.2, low=True)
THINGS = Tolerance(0.01, 0.5, low=True, high=True)
MEMORY = Tolerance(0.1, 0.0, low=True, high=True)

COUNTER_OF_GPU = replace(COUNTER, least_hosts=LEAST_GPUS)
MEMORY_OF_GPU = Tolerance(0.05, 0.0, low=True, mads=0.0, least_hosts=LEAST_GPUS)
HEAT_OF_GPU = Tolerance(0.0, 20.0, high=True, mads=5.0, cap=30.0, least_hosts=LEAST_GPUS)
POWER_OF_GPU = Tolerance(1.0, 40.0, high=True, mads=5.0, cap=100.0, least_hosts=LEAST_GPUS)

WEAR = "wear, which has limits of its own"


def _things(name: str) -> Unit:
    """Return a unit of things that like hosts have as many of."""
    return Unit(name, 0.0, MANY, THINGS, is_count=True)


def _events(name: str) -> Unit:
    """Return a unit of what is counted as it happens."""
    return Unit(name, 0.0, MANY, COUNTER, COUNTER_OF_GPU, is_count=True)


def _memory(name: str, size_bytes: int) -> Unit:
    highest = MANY / size_bytes
    return Unit(name, 0.0, highest, MEMORY, MEMORY_OF_GPU, least_change=0.02, is_ratio=True)


def _counted(name: str, why: str) -> Unit:
    """Return a unit of what is counted and not compared over hosts."""
    return Unit(name, 0.0, MANY, why, is_count=True)


def _speed(name: str, highest: float, peers: Tolerance) -> Unit:
    return Unit(name, 0.0, highest, peers, least_change=0.05, is_ratio=True)


_UNITS = (
    _speed("GB/s", 1e6, BANDWIDTH),
    _speed("Gb/s", 1e6, Tolerance(0.1, 1.0, low=True)),
    _speed("TFLOP/s", 1e5, Tolerance(0.12, 0.2, low=True)),
    replace(_speed("MHz", 20_000.0, Tolerance(0.1, 50.0, low=True)), rises_with_work=True),
    replace(
        _speed("W", 1e6, Tolerance(0.2, 25.0, low=True)),
        neighbors=POWER_OF_GPU,
        rises_with_work=True,
    ),
    Unit(
        *("C", -150.0, 250.0),  # margins to a threshold are in C as well
        peers=Tolerance(0.0, 16.0, high=True),
        neighbors=HEAT_OF_GPU,
        least_change=5.0,
        rises_with_work=True,
    ),
    Unit("C/s", -100.0, 100.0, Tolerance(2.0, 1.0, high=True)),
    Unit("%", 0.0, 1000.0, Tolerance(0.0, 30.0, low=True, high=True), least_change=5.0),
    Unit("x", 0.0, MANY, Tolerance(3.0, 3.0, high=True)),
    Unit("share", 0.0, 1e3, Tolerance(0.0, 0.25, high=True), least_change=0.05),
    Unit("s", 0.0, 1e7, Tolerance(1.0, 10.0, high=True)),
    *map(_events, ("errors", "events", "packets")),
    Unit("errors/h", 0.0, MANY, COUNTER, COUNTER_OF_GPU),
    Unit("lanes", 1.0, 32.0, THINGS, least_change=0.05, is_ratio=True),
    *map(_things, ("links", "GPUs", "nodes", "pairs", "ports", "parts", "drives", "CPUs")),
    _memory("bytes", 1),
    _memory("GiB", 1 << 30),
    _memory("MiB", 1 << 20),
    _counted("GIDs", "goes by the addresses of the network"),
    _counted("groups", "goes by the slots in use"),
    _counted("banks", WEAR),
    _counted("rows", WEAR),
    _counted("pages", WEAR),
    _counted("processes", "goes by who is at work"),
    _counted("products", "goes by how long the load was"),
    _counted("elements", "wrong data, which has a limit of its own"),
    _counted("tests", "goes by what DCGM has figures for"),
)

UNITS: dict[str, Unit] = {unit.name: unit for unit in _UNITS}
"""By name. A metric without a unit is a code, a text, or yes and no: no measure."""
