"""What a check may ask of the machine and its kernel."""

from __future__ import annotations

from typing import Dict, List, Optional, Protocol, Sequence, Tuple

from hwcheck.node.host.facts import (
    ContainerSettings,
    Filesystem,
    HugePages,
    Imex,
    KernelLog,
    Mount,
    NcclSetting,
    Neighbor,
    NvmeDrive,
    Part,
    RdmaPort,
    TorchStack,
)


class NodeHost(Protocol):
    """``/proc``, ``/sys`` and the kernel log as a check sees them.

    A method raises CouldNotMeasure where it says so and where its file cannot be read.
    """

    def pci_gpus(self) -> List[str]:
        """PCI addresses of NVIDIA display and 3D controllers."""

    def nvswitches(self) -> List[str]:
        """PCI addresses of NVSwitches, or of the bridges that manage them.

        Those of Blackwell are not on the bus; their bridges are told from network cards by data
        that only root may read.
        """

    def pci_answers(self, pci_address: str) -> bool:
        """Whether a device answers on the bus; one that fell off reads as all ones."""

    def driver_version(self) -> str:
        """Version of the loaded NVIDIA kernel module; empty when none is loaded."""

    def driver_is_open(self) -> bool:
        """Whether the loaded NVIDIA kernel module is the open one."""

    def driver_parameter(self, name: str) -> str:
        """Value of a parameter of the NVIDIA kernel module (``NVreg_`` left out); empty: not set.

        Raises CouldNotMeasure where the driver shows none.
        """

    def pcie_port_width_max(self, pci_address: str) -> int:
        """Lanes that the upstream port of a device offers. Raises CouldNotMeasure."""

    def pcie_port_generation_max(self, pci_address: str) -> int:
        """PCIe generation that the upstream port of a device offers. Raises CouldNotMeasure."""

    def pcie_widths(self, pci_address: str) -> Tuple[int, int]:
        """Lanes that a device uses on its link and lanes it has there. Raises CouldNotMeasure."""

    def pcie_generations(self, pci_address: str) -> Tuple[int, int]:
        """PCIe generation of a device's link and the newest it can do. Raises CouldNotMeasure."""

    def has_pcie_link(self, pci_address: str) -> bool:
        """Whether a device has a PCIe link; virtual ones and those in the processor have none."""

    def pci_ids(self, pci_address: str) -> str:
        """Vendor, device and subsystem of a device (``15b3:1021:15b3:0041``); empty: not there."""

    def nvme_drives(self) -> List[NvmeDrive]:
        """NVMe controllers on the bus, by address; virtual functions are left out."""

    def parts(self) -> List[Part]:
        """Parts of the machine but its GPUs, as firmware, bus and drivers name them."""

    def hidden_parts(self) -> str:
        """Why the parts that the firmware names cannot be read; empty where they can."""

    def neighbors(self) -> List[Neighbor]:
        """Far ends of the cables of InfiniBand ports and network interfaces, as far as they tell.

        Raises CouldNotMeasure where no program is installed that asks them.
        """

    def bridges_above(self, pci_address: str) -> List[str]:
        """PCI addresses of the bridges between a device and the root, nearest first."""

    def numa_node(self, pci_address: str) -> Optional[int]:
        """NUMA node of a device; None where the firmware does not tell."""

    def rdma_devices(self) -> Dict[str, str]:
        """PCI address by name of the RDMA devices.

        Software, virtual functions and bridges that manage NVSwitches are left out.
        """

    def cards_without_rdma(self) -> Dict[str, str]:
        """Driver by PCI address of InfiniBand and ConnectX cards that are no RDMA device.

        It is empty where no driver has taken the card. Virtual functions and bridges that manage
        NVSwitches are left out.
        """

    def is_idle(self, pci_address: str) -> bool:
        """Whether nothing came of a network card, against what is meant.

        It has no driver, and none was ruled out by hand; or its driver has made neither a network
        interface nor anything for RDMA of it.
        """

    def acs_control(self, pci_address: str) -> Optional[int]:
        """Access control register of a bridge; None: it has none. Raises CouldNotMeasure."""

    def ats_enabled(self, pci_address: str) -> Optional[bool]:
        """Whether a device's address translation services are on; None: it has none.

        Raises CouldNotMeasure.
        """

    def has_command_queues(self) -> bool:
        """Whether the firmware gives this system an SMMU with command queues of its own (CMDQV)."""

    def aer_errors(self, pci_address: str) -> Dict[str, int]:
        """Advanced error reporting since boot: fatal, nonfatal, correctable.

        Unsupported requests are left out: probing a device at boot makes them. Raises
        CouldNotMeasure.
        """

    def iommu_groups(self) -> int:
        """Count the groups of the IOMMU; 0 when it is off."""

    def iommu_domain(self, pci_address: str) -> str:
        """``identity``, ``DMA``, ``DMA-FQ``; empty without a group. Raises CouldNotMeasure."""

    def fabric_manager_runs(self) -> Optional[bool]:
        """Whether the fabric manager runs; None where processes of others are hidden."""

    def mps_runs(self) -> Optional[bool]:
        """Whether the Multi-Process Service runs; None where processes of others are hidden."""

    def imex(self) -> Imex:
        """State of the service by which hosts of an NVLink domain map each other's memory."""

    def in_container(self) -> bool:
        """Whether this is a container, whose bus shows devices that it may not use."""

    def hypervisor(self) -> str:
        """Name of the hypervisor below this virtual machine; empty on bare metal."""

    def product(self) -> str:
        """Vendor and product of the machine by DMI; empty where the firmware has none."""

    def cpu_vendor(self) -> str:
        """``GenuineIntel``, ``AuthenticAMD``, ``ARM``; empty where the kernel does not say."""

    def numa_nodes(self) -> int:
        """NUMA nodes; 0 where the kernel does not know them."""

    def cpu_governors(self) -> Dict[str, int]:
        """CPUs by ``<driver> <governor>``; empty where the kernel does not scale frequencies."""

    def memory_available_bytes(self) -> int:
        """MemAvailable, or what a control group leaves of it. Raises CouldNotMeasure."""

    def memory_held_bytes(self) -> int:
        """Memory that the kernel can give to nobody else, but huge pages. Raises CouldNotMeasure.

        That is MemTotal less MemAvailable: what programs, file systems in memory and the kernel
        hold, and no file cache.
        """

    def huge_pages(self) -> HugePages:
        """Memory set aside as huge pages. Raises CouldNotMeasure."""

    def locked_memory_limit_bytes(self) -> Optional[int]:
        """RLIMIT_MEMLOCK of this login; None means unlimited."""

    def filesystem(self, path: str) -> Filesystem:
        """Size of the file system that holds a path. Raises CouldNotMeasure."""

    def mounts(self) -> List[Mount]:
        """Mounted file systems, in order. Raises CouldNotMeasure."""

    def memory_total_bytes(self) -> int:
        """MemTotal. Raises CouldNotMeasure."""

    def memory_by_numa_bytes(self) -> Dict[int, int]:
        """Memory of each NUMA node that has processors; empty where the kernel does not say."""

    def memory_only_numa_nodes(self) -> int:
        """NUMA nodes with memory and without processors."""

    def swap_used_bytes(self) -> int:
        """Memory that is swapped out, but to compressed memory. Raises CouldNotMeasure."""

    def pci_driver(self, pci_address: str) -> str:
        """Kernel driver that a device is bound to; empty without one."""

    def home(self) -> str:
        """Home folder of the user that this runs as."""

    def uptime_s(self) -> float:
        """Seconds since boot. Raises CouldNotMeasure."""

    def clock_synchronized(self) -> bool:
        """Whether something keeps the clock right. Raises CouldNotMeasure."""

    def kernel_options(self) -> List[str]:
        """Words of the kernel's command line. They may hold secrets: send on only what is known."""

    def kernel_setting(self, name: str) -> str:
        """Content of ``/proc/sys/<name>``. Raises CouldNotMeasure."""

    def has_module(self, name: str) -> bool:
        """Whether a kernel module is loaded."""

    def module_parameter(self, module: str, name: str) -> str:
        """Value of a parameter of a loaded kernel module; empty where it shows none."""

    def kernel_log(self, words: Sequence[str]) -> KernelLog:
        """Kernel messages since boot with one of these words. Raises CouldNotMeasure."""

    def nccl_settings(self) -> List[NcclSetting]:
        """NCCL_* variables that a job started by this login would find."""

    def system_nccl(self) -> List[str]:
        """Versions of the NCCL that the linker finds; empty without one."""

    def tool_versions(self) -> Dict[str, List[str]]:
        """Versions of NVIDIA's ``container_toolkit`` and ``dcgm`` that are installed, in order."""

    def file_bytes(self, path: str) -> Optional[int]:
        """Size of a file behind its links; None: it is not there. Raises CouldNotMeasure."""

    def container_libraries(self) -> Dict[str, List[str]]:
        """Libraries of this host that NVIDIA's CDI specifications give to containers, by file."""

    def container_settings(self, runtime: str) -> Optional[ContainerSettings]:
        """Say what docker, containerd or podman gives to every container; None without its file."""

    def has_program(self, name: str) -> bool:
        """Whether a program is there and not empty, by its path or in the usual folders."""

    def torch_stack(self, python: str) -> Optional[TorchStack]:
        """Say which torch this interpreter has (the payload's own where empty), or None.

        Raises CouldNotMeasure where the interpreter does not run.
        """

    def interface_gbps(self, name: str) -> Optional[float]:
        """Rate of a network interface in Gb/s; None where the kernel knows of no hardware's.

        Of one that stands on others (a VLAN, a bond, a bridge) it is that of the slowest.
        """

    def rdma_ports(self) -> List[RdmaPort]:
        """Ports of the RDMA devices; empty without any.

        Virtual functions beside their card and bridges that manage NVSwitches are left out.
        """
