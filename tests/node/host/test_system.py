from __future__ import annotations

import resource
from pathlib import Path

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.facts import Mount
from hwcheck.node.host import system_calls
from tests.node.roots import Root

REAL = "vendor_id\t: GenuineIntel\nflags\t\t: fpu vme de pse\n"
GUEST = "vendor_id\t: AuthenticAMD\nflags\t\t: fpu vme hypervisor lahf_lm\n"
ARM = "processor\t: 0\nCPU implementer\t: 0x41\n"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def test_memory_is_in_bytes(root: Root) -> None:
    root.write("proc/meminfo", "MemTotal: 900 kB\nMemFree: 1 kB\nMemAvailable:     512 kB\n")
    assert root.host.memory_available_bytes() == 512 * 1024


@pytest.mark.parametrize(
    ("above", "inside", "bytes_left"),
    [
        ("max", "max", 512 * 1024),
        ("999999999", "max", 512 * 1024),
        ("max", "9000", 9000 - 4000 + 1500),
        ("7000", "9000", 7000 - 4000 + 1500),
        ("max", "1000", 0),
    ],
)
def test_a_control_group_may_leave_less_memory(
    root: Root, above: str, inside: str, bytes_left: int
) -> None:
    root.write("proc/meminfo", "MemAvailable:     512 kB\n")
    root.write("proc/self/cgroup", "1:cpu:/other\n0::/pod/box\n")
    for folder, limit in (("pod", above), ("pod/box", inside)):
        root.write(f"sys/fs/cgroup/{folder}/memory.max", limit + "\n")
        root.write(f"sys/fs/cgroup/{folder}/memory.current", "4000\n")
        root.write(f"sys/fs/cgroup/{folder}/memory.stat", "anon 1\ninactive_file 1500\n")
    assert root.host.memory_available_bytes() == bytes_left


@pytest.mark.parametrize(
    ("cpuinfo", "vendor", "product", "hypervisor"),
    [
        (REAL, "NVIDIA", "DGXH100", ""),
        (REAL, "Amazon EC2", "p4d.metal-24xlarge", ""),
        (REAL, "Google", "Google Compute Engine", ""),  # bare metal bears the cloud's name
        (REAL, "QEMU", "Standard PC (Q35 + ICH9, 2009)", "qemu"),  # the flag can be hidden
        (GUEST, "QEMU", "Standard PC (Q35 + ICH9, 2009)", "qemu"),
        (GUEST, "Amazon EC2", "p5.48xlarge", "amazon"),
        (GUEST, "Microsoft Corporation", "Virtual Machine", "microsoft"),
        (GUEST, "", "", "unknown"),
        (REAL, "Microsoft Corporation", "Surface Laptop", ""),
        (ARM, "NVIDIA", "GH200 P4352", ""),
        (ARM, "Amazon EC2", "g5g.metal", ""),
        (ARM, "Amazon EC2", "g5g.16xlarge", "amazon"),
        (ARM, "", "", ""),
    ],
)
def test_virtual_machines(
    root: Root, cpuinfo: str, vendor: str, product: str, hypervisor: str
) -> None:
    root.write("proc/cpuinfo", cpuinfo)
    if product:
        root.write("sys/class/dmi/id/sys_vendor", vendor + "\n")
        root.write("sys/class/dmi/id/product_name", product + "\n")
    assert root.host.hypervisor() == hypervisor
    assert root.host.product() == f"{vendor} {product}".strip()


def test_xens_own_domain_is_bare_metal(root: Root) -> None:
    root.write("proc/cpuinfo", GUEST)
    root.write("sys/hypervisor/type", "xen\n")
    assert root.host.hypervisor() == "xen"
    root.write("proc/xen/capabilities", "control_d\n")
    assert root.host.hypervisor() == ""


@pytest.mark.parametrize(
    ("cpuinfo", "vendor"), [(REAL, "GenuineIntel"), (GUEST, "AuthenticAMD"), (ARM, "ARM"), ("", "")]
)
def test_cpu_vendor(root: Root, cpuinfo: str, vendor: str) -> None:
    root.write("proc/cpuinfo", cpuinfo)
    assert root.host.cpu_vendor() == vendor


def test_kernel_settings_options_and_modules(root: Root) -> None:
    root.write("proc/sys/kernel/osrelease", "6.8.0-31-generic\n")
    root.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz ro iommu=pt\n")
    root.write("sys/module/nvidia_peermem/version", "570.86.15\n")
    assert root.host.kernel_setting("kernel/osrelease") == "6.8.0-31-generic"
    assert root.host.kernel_options() == ["BOOT_IMAGE=/vmlinuz", "ro", "iommu=pt"]
    assert root.host.has_module("nvidia_peermem")
    assert not root.host.has_module("nv_peer_mem")
    with pytest.raises(CouldNotMeasure, match="/proc/sys/kernel/numa_balancing"):
        root.host.kernel_setting("kernel/numa_balancing")


def test_a_parameter_of_a_module(root: Root) -> None:
    root.write("sys/module/nvidia_uvm/parameters/uvm_disable_hmm", "N\n")
    assert root.host.module_parameter("nvidia_uvm", "uvm_disable_hmm") == "N"
    assert root.host.module_parameter("nvidia_uvm", "another") == ""


def test_numa_nodes(root: Root) -> None:
    assert root.host.numa_nodes() == 0
    for name in ("node0", "node1", "online", "power"):
        root.write(f"sys/devices/system/node/{name}/x", "")
    assert root.host.numa_nodes() == 2


def test_governors_are_counted_by_driver(root: Root) -> None:
    assert root.host.cpu_governors() == {}
    for cpu, governor in (("cpu0", "powersave"), ("cpu1", "powersave"), ("cpu10", "performance")):
        folder = f"sys/devices/system/cpu/{cpu}/cpufreq/"
        root.write(folder + "scaling_driver", "acpi-cpufreq\n")
        root.write(folder + "scaling_governor", governor + "\n")
    root.write("sys/devices/system/cpu/cpuidle/current_governor", "menu\n")
    root.write("sys/devices/system/cpu/cpu2/online", "1\n")
    assert root.host.cpu_governors() == {
        "acpi-cpufreq powersave": 2,
        "acpi-cpufreq performance": 1,
    }


def test_memory_that_is_held(root: Root) -> None:
    with pytest.raises(CouldNotMeasure, match="MemAvailable"):
        root.host.memory_held_bytes()
    usual = "MemTotal: 1000 kB\nMemFree: 5 kB\nMemAvailable: 300 kB\nCached: 290 kB\n"
    root.write("proc/meminfo", usual)
    assert root.host.memory_held_bytes() == 700 << 10
    huge = usual + "HugePages_Total: 3\nHugepagesize: 100 kB\n"
    root.write("proc/meminfo", huge)
    assert root.host.memory_held_bytes() == 400 << 10, "huge pages are set aside, not held"
    root.write("proc/meminfo", huge + "Hugetlb: 500 kB\n")
    assert root.host.memory_held_bytes() == 200 << 10, "of every size"


def test_huge_pages(root: Root) -> None:
    root.write("proc/meminfo", "MemTotal: 1024 kB\n")
    with pytest.raises(CouldNotMeasure, match="huge pages"):
        root.host.huge_pages()
    root.write(
        "proc/meminfo",
        "MemTotal:  1048576 kB\nHugePages_Total:  10\nHugePages_Free:  4\nHugepagesize: 2048 kB\n",
    )
    root.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    pages = root.host.huge_pages()
    assert (pages.reserved_bytes, pages.unused_bytes) == (20 << 20, 8 << 20)
    assert (pages.memory_bytes, pages.transparent) == (1 << 30, "madvise")


def test_huge_pages_of_every_size(root: Root) -> None:
    root.write(
        "proc/meminfo",
        "MemTotal:  1048576 kB\nHugePages_Total:  10\nHugePages_Free:  4\nHugepagesize: 2048 kB\n",
    )
    for size, total, free in (("2048", 10, 4), ("1048576", 3, 1)):
        pool = f"sys/kernel/mm/hugepages/hugepages-{size}kB"
        root.write(pool + "/nr_hugepages", f"{total}\n")
        root.write(pool + "/free_hugepages", f"{free}\n")
    pages = root.host.huge_pages()
    assert pages.reserved_bytes == (20 << 20) + (3 << 30)
    assert pages.unused_bytes == (8 << 20) + (1 << 30)


def test_a_file_system_below_the_root(root: Root) -> None:
    with pytest.raises(CouldNotMeasure, match="dev/shm: No such file"):
        root.host.filesystem("/dev/shm")
    (root.path / "dev/shm").mkdir(parents=True)
    disk = root.host.filesystem("/dev/shm")
    assert 0 < disk.free_bytes <= disk.size_bytes


def test_the_limit_on_locked_memory_is_this_process_own(root: Root) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    expected = None if soft == resource.RLIM_INFINITY else soft
    assert root.host.locked_memory_limit_bytes() == expected


def test_timesyncd_says_that_the_clock_is_right(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system_calls, "clock_synchronized", lambda: False)
    assert not root.host.clock_synchronized()
    root.write("run/systemd/timesync/synchronized", "")
    assert root.host.clock_synchronized()


MOUNTS = """\
25 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 ro,errors=remount-ro
31 25 0:47 / /home\\040of\\040all ro,nosuid master:9 shared:3 - nfs4 nas:/home rw,vers=4.2
33 25 253:4 / /var rw,relatime shared:5 - xfs /dev/mapper/vg0-var rw,attr2
"""


def test_the_options_of_a_mount_are_those_of_the_file_system(root: Root) -> None:
    root.write("proc/self/mountinfo", MOUNTS)
    root.write("etc/fstab", "# /etc/fstab\nUUID=1 / ext4 defaults 0 1\nnas:/x /x nfs ro,hard\n")
    first, second, third = root.host.mounts()
    options = ("ro", "errors=remount-ro")
    assert first == Mount("/", "ext4", "/dev/nvme0n1p2", options, False, "nvme0n1p2")
    assert second == Mount("/home of all", "nfs4", "nas:/home", ("rw", "vers=4.2"))
    assert third == Mount("/var", "xfs", "/dev/mapper/vg0-var", ("rw", "attr2"), device="dm-4")


def test_mounts_that_are_hidden_are_not_measured(root: Root) -> None:
    with pytest.raises(CouldNotMeasure, match="mountinfo"):
        root.host.mounts()


def test_memory_of_a_numa_node_counts_where_it_has_processors(root: Root) -> None:
    for number, (cpus, size) in enumerate((("0-71", 480), ("", 96))):
        folder = f"sys/devices/system/node/node{number}"
        root.write(folder + "/cpulist", cpus + "\n")
        root.write(
            folder + "/meminfo", f"Node {number} MemTotal:  {size} kB\nNode 0 MemFree: 1 kB\n"
        )
    assert root.host.memory_by_numa_bytes() == {0: 480 * 1024}


def test_swap_in_compressed_memory_is_no_disk(root: Root) -> None:
    with pytest.raises(CouldNotMeasure, match="swaps"):
        root.host.swap_used_bytes()
    lines = (
        "Filename Type Size Used Priority\n/dev/zram0 partition 99 50 100\n/swap.img file 90 7 -2\n"
    )
    root.write("proc/swaps", lines)
    assert root.host.swap_used_bytes() == 7 * 1024


def test_a_device_says_its_driver(root: Root) -> None:
    root.device("0000:18:00.0")
    assert root.host.pci_driver("0000:18:00.0") == ""
    root.write("sys/bus/pci/drivers/nouveau/uevent", "")
    folder = root.path / "sys/devices/pci0000:00/0000:00:18.0/0000:18:00.0"
    (folder / "driver").symlink_to(root.path / "sys/bus/pci/drivers/nouveau")
    assert root.host.pci_driver("0000:18:00.0") == "nouveau"


def test_the_rate_of_an_interface_is_that_of_the_hardware_below(root: Root) -> None:
    for name, speed in (("eth0", "25000"), ("eth1", "10000"), ("eth2", "-1")):
        root.write(f"sys/class/net/{name}/speed", speed + "\n")
        root.write(f"sys/class/net/{name}/device/vendor", "0x15b3\n")
    for name in ("bond0/lower_eth0", "bond0/lower_eth1", "eth0.5/lower_eth0", "br0/lower_bond0"):
        root.write(f"sys/class/net/{name}/mtu", "1500\n")
    root.write("sys/class/net/br0/lower_tap1/mtu", "1500\n")
    root.write("sys/class/net/veth0/speed", "10000\n")
    rates = {
        name: root.host.interface_gbps(name)
        for name in ("eth0", "eth0.5", "bond0", "br0", "eth2", "veth0", "none")
    }
    assert rates == {
        "eth0": 25.0,
        "eth0.5": 25.0,
        "bond0": 10.0,
        "br0": 10.0,
        "eth2": None,
        "veth0": None,
        "none": None,
    }
    root.write("proc/cpuinfo", GUEST)
    assert root.host.interface_gbps("eth0") is None, "what a guest's driver was made to say"
