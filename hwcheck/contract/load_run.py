"""What the GPUs showed at work: what each did in a load, and NVML over time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping, Optional, Tuple

SW_POWER_CAP = 0x04
HW_SLOWDOWN = 0x08
SW_THERMAL = 0x20
HW_THERMAL = 0x40
HW_POWER_BRAKE = 0x80
"""The bits of ``clock_events``: what holds the clocks down (NVML API Reference Guide,
NvmlClocksEventReasons)."""

Column = Tuple[Optional[float], ...]
"""One quantity of one GPU over time; None where it was not told then."""

Bits = Mapping[int, int]
"""How often each value of ``clock_events`` was told."""


@dataclass(frozen=True)
class GpuWork:
    """What one GPU did.

    ``size`` is the edge of the square matrices, ``tflops`` the median over windows of about a
    second and ``tflops_low`` their 5th percentile (1e12 floating-point operations per second, 2
    n^3 for a product). ``wrong_products`` counts results that are not bit for bit the GPU's first;
    ``digest`` names that first one, and GPUs of one model have the same. ``copy_gbps`` is the bytes
    read and written by a copy within the GPU's memory, the other two those of pinned memory over
    PCIe, each way alone (1e9 bytes/s). None where it was not measured; ``reason`` says why the work
    ended early.
    """

    subject: str
    dtype: str
    size: int
    products: int
    tflops: Optional[float] = None
    tflops_low: Optional[float] = None
    wrong_products: int = 0
    digest: str = ""
    copy_gbps: Optional[float] = None
    to_device_gbps: Optional[float] = None
    from_device_gbps: Optional[float] = None
    reason: str = ""


@dataclass(frozen=True)
class Series:
    """NVML over time: ``columns[subject][quantity]`` has a value for each of ``time_s``.

    ``time_s`` counts from the start of the work; samples before it are negative. Quantities:
    ``power_w``, ``power_average_w``, ``temperature_c``, ``memory_temperature_c``, ``sm_clock_mhz``,
    ``memory_clock_mhz``, ``clock_events`` (bits as nvmlClocksEventReason*), ``fan_percent``,
    ``pcie_generation``, ``pcie_width``, ``pcie_tx_gbps``, ``pcie_rx_gbps``,
    ``utilization_percent``, ``thermal_margin_c`` (where the board gives no slowdown threshold),
    ``ecc_uncorrected``, ``ecc_corrected``, ``pcie_replays`` (the last three count up). A quantity
    that the GPU does not have has no column.

    Where rows stand for several samples (``rows.Rows``), ``typical`` has one sample of each as it
    was told, and ``bits`` those of all. Both are for judging, and stay on the node.
    """

    time_s: Tuple[float, ...] = ()
    columns: Mapping[str, Mapping[str, Column]] = field(default_factory=dict)
    typical: Mapping[str, Mapping[str, Column]] = field(default_factory=dict)
    bits: Mapping[str, Tuple[Bits, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class CollectiveRun:
    """What NVML told while the GPUs of a node worked together, in collectives and copies.

    ``end_s`` is when the last of them ended, in the times of ``series.time_s``.
    """

    series: Series
    end_s: float


@dataclass(frozen=True)
class LoadRun:
    """One load. Times are those of ``series.time_s``.

    ``backend`` is ``cuda``, or ``cpu`` for an exercise that says nothing about GPUs. ``load_end_s``
    is when the work ended and ``cool_end_s`` when the sampler did. ``settled_s`` is when the
    temperatures had settled, None where they did not. ``stopped`` says why the load was ended for
    safety's sake, empty where it was not.
    """

    backend: str
    library: str
    work: Tuple[GpuWork, ...]
    series: Series
    load_end_s: float
    cool_end_s: float
    settled_s: Optional[float] = None
    stopped: str = ""

    @property
    def exercise(self) -> bool:
        """Whether no GPU was loaded."""
        return self.backend != "cuda"
