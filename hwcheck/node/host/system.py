"""The machine and its kernel: virtualization, processors, memory, limits, clock, disks."""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, Optional

from hwcheck.contract.facts import Filesystem, HugePages, Mount
from hwcheck.node.host import system_calls
from hwcheck.node.host.tree import Tree

DMI = "sys/class/dmi/id/"
NODES = "sys/devices/system/node/"
POOLS = "sys/kernel/mm/hugepages/"
LOWER = "lower_"
"""So begin the links from a network interface to those that it stands on."""
MOST_BELOW = 4
EMULATORS = {
    "qemu": "qemu",
    "kvm": "kvm",
    "vmware": "vmware",
    "virtualbox": "virtualbox",
    "microsoft corporation virtual machine": "microsoft",
    "xen": "xen",
    "parallels": "parallels",
    "bhyve": "bhyve",
}
CLOUDS = {"amazon ec2": "amazon", "google compute engine": "google", "openstack": "openstack"}
"""Words of DMI's vendor and product. A cloud's bare metal bears the cloud's name as well, so a
cloud counts where the processor has no flag that says better: on ARM, unless it is named metal."""


class SystemReader(Tree):
    """What a kernel says of the machine, for ``node.NodeHost``."""

    def hypervisor(self) -> str:
        """Name of the hypervisor below this virtual machine; empty on bare metal."""
        if "control_d" in self._read("proc/xen/capabilities"):
            return ""  # Xen's own domain has the hardware
        flags = re.search(r"^flags\s*:(.*)$", self._read("proc/cpuinfo"), re.MULTILINE)
        by_flag = flags is not None and "hypervisor" in flags.group(1).split()
        product = self.product().lower()
        words = dict(EMULATORS)
        if "metal" not in product and (flags is None or by_flag):
            words.update(CLOUDS)
        named = self._read("sys/hypervisor/type").strip()
        named = named or next((name for word, name in words.items() if word in product), "")
        return named or ("unknown" if by_flag else "")

    def product(self) -> str:
        """Vendor and product of the machine by DMI; empty where the firmware has none."""
        words = (self._read(DMI + name).strip() for name in ("sys_vendor", "product_name"))
        return " ".join(word for word in words if word)

    def cpu_vendor(self) -> str:
        """``GenuineIntel``, ``AuthenticAMD``, ``ARM``; empty where the kernel does not say."""
        text = self._read("proc/cpuinfo")
        match = re.search(r"^vendor_id\s*:\s*(\S+)", text, re.MULTILINE)
        if match:
            return match.group(1)
        return "ARM" if re.search(r"^CPU implementer\s*:", text, re.MULTILINE) else ""

    def kernel_options(self) -> List[str]:
        """Words of the kernel's command line. They may hold secrets: send on only what is known."""
        return self._read("proc/cmdline").split()

    def kernel_setting(self, name: str) -> str:
        """Content of ``/proc/sys/<name>``. Raises CouldNotMeasure."""
        text = self._text("proc/sys/" + name)
        if text is None:
            raise self._unread("proc/sys/" + name, "/proc/sys/%s cannot be read" % name)
        return text.strip()

    def numa_nodes(self) -> int:
        """NUMA nodes; 0 where the kernel does not know them."""
        folder = self._list("sys/devices/system/node")
        return sum(bool(re.fullmatch(r"node\d+", name)) for name in folder)

    def interface_gbps(self, name: str) -> Optional[float]:
        """Rate of a network interface in Gb/s; None where the kernel knows of no hardware's.

        Of one that stands on others (a VLAN, a bond, a bridge) it is that of the slowest.
        """
        if self.hypervisor():
            return None  # a guest's driver says what it was made to, not what the guest may use
        return self._interface_gbps(name, MOST_BELOW)

    def _interface_gbps(self, name: str, depth: int) -> Optional[float]:
        folder = "sys/class/net/%s/" % name
        if self._exists(folder + "device"):
            speed = self._read(folder + "speed").strip()  # Mb/s; -1 or no text where not known
            return int(speed) / 1000.0 if re.fullmatch(r"[1-9]\d{0,8}", speed) else None
        below = [each[len(LOWER) :] for each in self._list(folder) if each.startswith(LOWER)]
        rates = [self._interface_gbps(each, depth - 1) for each in below if depth]
        return min((rate for rate in rates if rate is not None), default=None)

    def cpu_governors(self) -> Dict[str, int]:
        """CPUs by ``<driver> <governor>``; empty where the kernel does not scale frequencies."""
        counts: Dict[str, int] = {}
        for cpu in self._list("sys/devices/system/cpu"):
            if not re.fullmatch(r"cpu\d+", cpu):
                continue
            folder = "sys/devices/system/cpu/%s/cpufreq/" % cpu
            governor = self._read(folder + "scaling_governor").strip()
            if governor:
                key = "%s %s" % (self._read(folder + "scaling_driver").strip(), governor)
                counts[key] = counts.get(key, 0) + 1
        return counts

    def huge_pages(self) -> HugePages:
        """Memory set aside as huge pages. Raises CouldNotMeasure."""
        values = dict(re.findall(r"^(\w+):\s+(\d+)", self._read("proc/meminfo"), re.MULTILINE))
        if "HugePages_Total" not in values or "Hugepagesize" not in values:
            raise self._unread("proc/meminfo", "no huge pages in /proc/meminfo")
        mode = re.search(r"\[(\w+)\]", self._read("sys/kernel/mm/transparent_hugepage/enabled"))
        pages = {values["Hugepagesize"]: (values["HugePages_Total"], values.get("HugePages_Free"))}
        for name in self._list(POOLS):  # meminfo has pages of the default size only
            pool = POOLS + name
            counts = (self._read(pool + "/nr_hugepages"), self._read(pool + "/free_hugepages"))
            pages[name[len("hugepages-") : -len("kB")]] = counts
        reserved, unused = (
            sum(1024 * int(size) * int(counts[place] or 0) for size, counts in pages.items())
            for place in (0, 1)
        )
        return HugePages(
            reserved_bytes=reserved,
            unused_bytes=unused,
            memory_bytes=int(values.get("MemTotal", 0)) * 1024,
            transparent=mode.group(1) if mode else "none",
        )

    def memory_total_bytes(self) -> int:
        """MemTotal. Raises CouldNotMeasure."""
        match = re.search(r"^MemTotal:\s+(\d+) kB", self._read("proc/meminfo"), re.MULTILINE)
        if not match:
            raise self._unread("proc/meminfo", "no MemTotal in /proc/meminfo")
        return int(match.group(1)) * 1024

    def memory_by_numa_bytes(self) -> Dict[int, int]:
        """Memory of each NUMA node that has processors; empty where the kernel does not say."""
        return self._numa_bytes(with_processors=True)

    def memory_only_numa_nodes(self) -> int:
        """NUMA nodes with memory and without processors."""
        return sum(size > 0 for size in self._numa_bytes(with_processors=False).values())

    def _numa_bytes(self, with_processors: bool) -> Dict[int, int]:
        sizes = {}
        for name in self._list(NODES):
            folder = NODES + name
            match = re.search(r"MemTotal:\s+(\d+) kB", self._read(folder + "/meminfo"))
            cpus = self._text(folder + "/cpulist")
            if not match or not name[4:].isdigit() or cpus is None:
                continue
            if bool(cpus.strip()) == with_processors:
                sizes[int(name[4:])] = int(match.group(1)) * 1024
        return sizes

    def swap_used_bytes(self) -> int:
        """Memory that is swapped out, but to compressed memory. Raises CouldNotMeasure."""
        text = self._text("proc/swaps")
        if text is None:
            raise self._unread("proc/swaps", "/proc/swaps cannot be read")
        lines = (line.split() for line in text.splitlines()[1:])
        return 1024 * sum(
            int(words[3])
            for words in lines
            if len(words) >= 4 and words[3].isdigit() and not words[0].startswith("/dev/zram")
        )

    def mounts(self) -> List[Mount]:
        """Mounted file systems, in order. Raises CouldNotMeasure."""
        # The options behind the dash are those of the file system, and those before it those of
        # the place (proc(5), /proc/pid/mountinfo).
        meant = self._file_system_table()
        mounts = []
        for line in self._read("proc/self/mountinfo").splitlines():
            place, _, whole = line.partition(" - ")
            words, rest = place.split(), whole.split()
            if len(words) >= 5 and len(rest) >= 3:
                point = _unescaped(words[4])
                options = tuple(rest[-1].split(","))
                source = _unescaped(rest[1])
                device = _kernel_name(source, words[2])
                mounts.append(Mount(point, rest[0], source, options, meant.get(point), device))
        if not mounts:
            raise self._unread("proc/self/mountinfo", "/proc/self/mountinfo cannot be read")
        return mounts

    def _file_system_table(self) -> Dict[str, bool]:
        """Return by mount point whether /etc/fstab wants it read-only."""
        meant = {}
        for line in self._read("etc/fstab").splitlines():
            words = line.split()
            if len(words) >= 4 and not words[0].startswith("#"):
                meant[_unescaped(words[1])] = "ro" in words[3].split(",")
        return meant

    def memory_available_bytes(self) -> int:
        """MemAvailable, or what a control group leaves of it. Raises CouldNotMeasure."""
        match = re.search(r"^MemAvailable:\s+(\d+) kB", self._read("proc/meminfo"), re.MULTILINE)
        if not match:
            raise self._unread("proc/meminfo", "no MemAvailable in /proc/meminfo")
        return min([int(match.group(1)) * 1024, *self._left_bytes()])

    def memory_held_bytes(self) -> int:
        """Memory that the kernel can give to nobody else, but huge pages. Raises CouldNotMeasure.

        That is MemTotal less MemAvailable: what programs, file systems in memory and the kernel
        hold, and no file cache.
        """
        text = self._read("proc/meminfo")
        kib = {name: int(size) for name, size in re.findall(r"^(\w+):\s+(\d+) kB", text, re.M)}
        if "MemTotal" not in kib or "MemAvailable" not in kib:
            raise self._unread("proc/meminfo", "no MemTotal and MemAvailable in /proc/meminfo")
        pages = re.search(r"^HugePages_Total:\s+(\d+)", text, re.MULTILINE)
        usual = int(pages.group(1)) * kib.get("Hugepagesize", 0) if pages else 0
        set_aside = kib.get("Hugetlb", usual)  # of all sizes; older kernels count one
        return max(0, kib["MemTotal"] - kib["MemAvailable"] - set_aside) * 1024

    def _left_bytes(self) -> Iterator[int]:
        """Yield what each control group above this process leaves; file caches can be given up."""
        match = re.search(r"^0::(/.*)$", self._read("proc/self/cgroup"), re.MULTILINE)
        folder = "sys/fs/cgroup" + match.group(1).rstrip("/") if match else ""
        while folder.startswith("sys/fs/cgroup"):
            limit = self._read(folder + "/memory.max").strip()
            if limit.isdigit():  # or "max"
                used = int(self._read(folder + "/memory.current") or 0)
                cache = re.search(r"inactive_file (\d+)", self._read(folder + "/memory.stat"))
                yield max(0, int(limit) - used + (int(cache.group(1)) if cache else 0))
            folder = folder.rpartition("/")[0]

    def filesystem(self, path: str) -> Filesystem:
        """Size of the file system that holds a path. Raises CouldNotMeasure."""
        return system_calls.filesystem(self._path(path))

    def locked_memory_limit_bytes(self) -> Optional[int]:
        """RLIMIT_MEMLOCK of this login; None means unlimited."""
        return system_calls.locked_memory_limit_bytes()

    def clock_synchronized(self) -> bool:
        """Whether something keeps the clock right. Raises CouldNotMeasure."""
        # systemd-timesyncd leaves this file from its first answer on.
        if self._exists("run/systemd/timesync/synchronized"):
            return True
        return system_calls.clock_synchronized()

    def has_module(self, name: str) -> bool:
        """Whether a kernel module is loaded."""
        return self._exists("sys/module/" + name)

    def module_parameter(self, module: str, name: str) -> str:
        """Value of a parameter of a loaded kernel module; empty where it shows none."""
        return self._read("sys/module/%s/parameters/%s" % (module, name)).strip()


def _kernel_name(source: str, number: str) -> str:
    """Return the kernel's name of a device: that of a mapped one is in its minor number."""
    if source.startswith("/dev/mapper/"):
        return "dm-" + number.rpartition(":")[2]
    return source.rpartition("/")[2] if source.startswith("/dev/") else ""


def _unescaped(text: str) -> str:
    """Return a word of mountinfo or fstab with its spaces, which stand there as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)
