"""What a check may ask of one GPU."""

from __future__ import annotations

from typing import List, Optional, Protocol

from hwcheck.node.quantities import (
    Clocks,
    EccErrors,
    Fabric,
    GpuProcess,
    Mode,
    NvLink,
    NvLinkErrors,
    NvLinkRates,
    P2PStatus,
    RackPlace,
    RetiredPages,
    RowRemap,
)


class Gpu(Protocol):
    """One GPU as a check sees it. A method raises CouldNotMeasure where NVML does not answer.

    A method that may return None does so where this GPU does not have the thing; it raises where
    the GPU has it and cannot say now, with MIG on for example.
    """

    @property
    def subject(self) -> str:
        """``gpu<index>``, NVML's index."""

    def pci_address(self) -> str:
        """``0000:18:00.0``, as sysfs spells it."""

    def loss(self) -> str:
        """NVML's words for a GPU that is lost or waits for a reset; empty while it answers."""

    def recovery_action(self) -> Optional[int]:
        """Repair that the driver wants before it takes work (``xids.RECOVERY_ACTIONS``)."""

    def virtualization_mode(self) -> Optional[str]:
        """``none``, ``passthrough``, ``vgpu`` (a share of a GPU in a guest), ``host_vgpu``."""

    def power_w(self) -> Optional[float]:
        """Power that the board draws now."""

    def power_limit_w(self) -> float:
        """Enforced power limit: the smallest of all that are in force."""

    def power_limit_default_w(self) -> float:
        """Power limit that the board boots with."""

    def temperature_c(self) -> int:
        """Core temperature now."""

    def temperature_slowdown_c(self) -> int:
        """Threshold of the board's own at which hardware slows down."""

    def utilization_percent(self) -> int:
        """Share of the last sample period in which a kernel ran."""

    def persistence_mode(self) -> bool:
        """Whether the driver stays loaded with no client."""

    def compute_mode(self) -> Optional[str]:
        """Which processes may compute: ``default``, ``exclusive_process``, ``prohibited``."""

    def pcie_link_width(self) -> int:
        """Lanes in use now."""

    def pcie_link_width_max(self) -> int:
        """Lanes that this device in this system can use, by NVML."""

    def pcie_link_generation(self) -> int:
        """PCIe generation now; drops at idle."""

    def pcie_link_generation_max(self) -> int:
        """PCIe generation that this device in this system can reach, by NVML."""

    def compute_processes(self) -> List[int]:
        """Process ids with a compute context and none for graphics, but the one that asks."""

    def name(self) -> str:
        """Model (``NVIDIA H100 80GB HBM3``)."""

    def uuid(self) -> str:
        """``GPU-...``, unique to this GPU."""

    def board_id(self) -> str:
        """PCI device and subsystem id: boards of one id are of one design."""

    def serial(self) -> Optional[str]:
        """Board serial number."""

    def board_part_number(self) -> Optional[str]:
        """Part number of the board."""

    def vbios(self) -> Optional[str]:
        """Version of the VBIOS."""

    def inforom_image(self) -> Optional[str]:
        """Version of the infoROM image."""

    def inforom_valid(self) -> Optional[bool]:
        """Whether the checksums of the infoROM in flash hold."""

    def mig_mode(self) -> Optional[Mode]:
        """Whether the GPU is split into instances (MIG)."""

    def ecc_mode(self) -> Optional[Mode]:
        """Whether ECC is on."""

    def ecc_default(self) -> Optional[bool]:
        """Whether the board comes with ECC on."""

    def ecc_errors(self) -> Optional[EccErrors]:
        """ECC errors; None with ECC off."""

    def sram_threshold_exceeded(self) -> Optional[bool]:
        """Whether SRAM errors qualify the board for replacement; None without root too."""

    def row_remap(self) -> Optional[RowRemap]:
        """Remapped memory rows (Ampere and later)."""

    def retired_pages(self) -> Optional[RetiredPages]:
        """Retired memory pages (before Ampere)."""

    def memory_total_bytes(self) -> int:
        """Memory of the GPU."""

    def memory_used_bytes(self) -> Optional[int]:
        """Memory in use."""

    def memory_reserved_bytes(self) -> Optional[int]:
        """Memory in use that the driver and the board keep for themselves."""

    def bar1_total_bytes(self) -> Optional[int]:
        """Size of the window through which other PCI devices reach the GPU's memory."""

    def clock_event_reasons(self) -> Optional[List[str]]:
        """Names of what holds the clocks down now (``hw_thermal_slowdown``)."""

    def performance_state(self) -> Optional[int]:
        """0 (fastest) to 15."""

    def application_clocks(self) -> Optional[Clocks]:
        """Clocks that applications get, and the default."""

    def temperature_shutdown_c(self) -> Optional[int]:
        """Threshold of the board's own at which it switches itself off."""

    def temperature_max_operating_c(self) -> Optional[int]:
        """Threshold of the board's own from which on the driver lowers the clocks."""

    def memory_temperature_c(self) -> Optional[int]:
        """Memory temperature now."""

    def memory_temperature_max_c(self) -> Optional[int]:
        """Threshold of the board's own above which its memory is too hot."""

    def fan_speeds_percent(self) -> List[int]:
        """Intended speed of each fan; empty without fans. What a fan really does is not told."""

    def pcie_replays(self) -> Optional[int]:
        """PCIe packets that had to be sent again since the GPU was reset."""

    def nvlinks(self) -> List[NvLink]:
        """NVLinks, active or not; empty without NVLink."""

    def nvlink_to_switch(self) -> Optional[bool]:
        """Whether the active NVLinks lead to a switch; None without one or where unknown."""

    def nvlink_remotes(self) -> List[str]:
        """PCI address of what each active NVLink leads to, in their order.

        It is empty where NVML has none: a guest may not be shown its NVSwitches. Ask where they
        lead to no switch: what is behind one is not told.
        """

    def nvlink_version(self) -> Optional[str]:
        """``4.0``; None without an active NVLink or where the driver does not say."""

    def pcie_path(self, peer: int) -> Optional[str]:
        """PIX, PXB, PHB, NODE or SYS: the way over PCIe to the GPU with this index."""

    def p2p_status(self, peer: int) -> P2PStatus:
        """Access of this GPU to the memory of the GPU with this index."""

    def cpu_affinity(self) -> Optional[str]:
        """CPUs that are near: ``0-31,64-95``."""

    def numa_affinity(self) -> Optional[str]:
        """NUMA nodes whose memory is near: ``0``, ``0,3-9``."""

    def numa_id(self) -> Optional[int]:
        """NUMA node that the GPU's own memory is; None where it is none."""

    def nvlink_errors(self) -> List[NvLinkErrors]:
        """Error counters of the active NVLinks that have any."""

    def nvlink_rates(self) -> List[NvLinkRates]:
        """Bit error rates of the active NVLinks that have any (Blackwell and later)."""

    def fabric(self) -> Optional[Fabric]:
        """Registration with an NVSwitch fabric; None on a GPU that does not register."""

    def rack_place(self) -> Optional[RackPlace]:
        """Where in its rack it is; None where it is in none, or the driver does not tell."""

    def processes(self) -> List[GpuProcess]:
        """Every process with a compute or graphics context, but the one that asks.

        One with both is ``graphics``.
        """
