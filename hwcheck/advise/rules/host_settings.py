"""Settings of a host that cost speed or order, or keep checks from measuring."""

from __future__ import annotations

from hwcheck.advise.rule import HostFindings, Sign, rule, sign
from hwcheck.contract.reasons import LOG_LOST, MIG, NO_PERMISSION
from hwcheck.judge.records import PEERS, Finding
from hwcheck.results.site_limits import ABSENT


@rule(
    title="Persistence is off: the driver forgets a GPU between jobs",
    effect="every job starts seconds later, and a power limit or clocks that were set are "
    "lost with the last client",
    fix="enable and start the nvidia-persistenced service",
    confirm="nvidia-smi --query-gpu=index,persistence_mode --format=csv; systemctl status "
    "nvidia-persistenced",
    source="NVIDIA Driver Persistence, Persistence Daemon",
    role="nvidia_driver",
)
def persistence_off(host: HostFindings) -> Sign | None:
    """The reading says it itself; a slow opening is what it costs."""
    off = host.bad("persistence_mode", "persistence_mode")
    return sign("certain", [*off, *host.bad("persistence_mode", "nvml_opening_s")] if off else off)


@rule(
    title="A power-saving governor holds the CPUs down",
    effect="shared-memory transport, data loading and kernel launches are slow on this host",
    fix="choose the performance governor: tuned-adm profile throughput-performance, or "
    "cpupower frequency-set -g performance",
    confirm="cpupower frequency-info; grep . "
    "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor | sort -t: -k2 | head",
    source="Linux kernel, admin-guide/pm/cpufreq, governors",
    role="system_tuning",
)
def cpu_power_saving(host: HostFindings) -> Sign | None:
    """The governor is what the kernel says it is; that it costs is derived."""
    slow = host.bad("cpu_governor", "slow_cpus")
    governor = (f for f in host.bad("cpu_governor", "governor") if f.value != "performance")
    return sign("likely", (*slow, *governor))


@rule(
    title="The kernel chooses the frequency of the CPUs otherwise than on like hosts",
    effect="kernel launches, data loading and shared-memory transport take another time here, and "
    "a job waits for its slowest node",
    fix="compare the firmware's power profile and the kernel's options (intel_pstate, amd_pstate) "
    "with those of a like host, make them alike, and reboot",
    confirm="cpupower frequency-info; cat /proc/cmdline (beside those of a like host)",
    source="Linux kernel documentation, CPU Performance Scaling; the majority of like hosts",
)
def cpu_scaling_differs(host: HostFindings) -> Sign | None:
    """A governor that saves power is told by its own cause."""
    return sign("possible", host.bad("cpu_governor", "frequency_driver", "governor"))


@rule(
    title="Huge pages are reserved and nobody uses them",
    effect="that memory is lost to everything else: data loaders and page cache have less",
    fix="lower vm.nr_hugepages, or take hugepages= off the command line of the kernel",
    confirm="grep -i huge /proc/meminfo",
    source="Linux kernel documentation, admin-guide/mm/hugetlbpage",
    role="system_tuning",
)
def huge_pages_idle(host: HostFindings) -> Sign | None:
    """The reading says it itself."""
    return sign("certain", host.bad("hugepages", "huge_pages_unused_percent"))


@rule(
    title="A file system that jobs write to is full",
    effect="jobs end as they write a log, a checkpoint or a compiled kernel, and logins may fail",
    fix="find what fills it (logs, core dumps, images, files of dead jobs) and delete or move it",
    confirm="df -h / /tmp ~; sudo du -xh --max-depth=2 / | sort -h | tail",
    source="derived: what df shows is what is there",
)
def disk_full(host: HostFindings) -> Sign | None:
    """The reading says it itself."""
    return sign("certain", host.bad("disk_free", "disk_free_gib"))


@rule(
    title="The clock runs free",
    effect="logs of nodes cannot be put in order, and certificates, tokens and Kerberos "
    "fail once it is minutes off",
    fix="run chrony or systemd-timesyncd with servers that the node reaches; put rtcsync "
    "into chrony.conf",
    confirm="timedatectl; chronyc tracking",
    source="adjtimex(2), STA_UNSYNC; chrony.conf(5), rtcsync",
)
def clock_unsynchronized(host: HostFindings) -> Sign | None:
    """The reading says it itself."""
    return sign("certain", host.bad("time_sync", "clock_synchronized"))


@rule(
    title="A change of the MIG mode waits for a reset of the GPU",
    effect="the GPU comes back split, or whole, at the next reset or reboot: jobs then "
    "find other devices than now",
    fix="end the processes on the GPU and reset it (nvidia-smi --gpu-reset), or take the "
    "change back",
    confirm="nvidia-smi --query-gpu=index,mig.mode.current,mig.mode.pending --format=csv",
    source="NVIDIA Multi-Instance GPU User Guide, Enable MIG Mode",
)
def mig_change_pending(host: HostFindings) -> Sign | None:
    """The reading says it itself."""
    return sign("certain", host.bad("mig", "mig_change_pending"))


@rule(
    title="GPUs are split by MIG, and others like them are whole",
    effect="jobs see slices of these GPUs: they have no P2P and no NVLink, and a job over all GPUs "
    "of the node does not start",
    fix="end the processes on the GPU, then nvidia-smi -i N -mig 0, and reset it where the change "
    "waits for that; where it is meant, split all alike or group the host with those like it",
    confirm="nvidia-smi --query-gpu=index,mig.mode.current,mig.mode.pending --format=csv; "
    "nvidia-smi mig -lgi",
    source="NVIDIA Multi-Instance GPU User Guide, Enable MIG Mode and Application Considerations; "
    "the majority of GPUs of the same model",
)
def mig_differs(host: HostFindings) -> Sign | None:
    """The mode was read; what is kept back of a GPU that is split follows from it."""
    split = host.bad("mig", "mig_enabled")
    gpus = {finding.subject for finding in split}
    follows = (f for f in host.findings if f.metric == ABSENT and f.subject in gpus)
    return sign("certain", split, follows=follows)


@rule(
    title="The memory of the host is divided into other NUMA nodes than on like hosts (NPS, SNC)",
    effect="ranks and their memory are pinned otherwise here, and copies and collectives over host "
    "memory take other ways than on the other hosts",
    fix="set it in the firmware as on the others (NUMA nodes per socket, sub-NUMA clustering), and "
    "reboot",
    confirm="numactl --hardware; lscpu | grep NUMA (beside those of a like host)",
    source="Linux kernel documentation, admin-guide/mm/numaperf; derived: hosts of one kind are "
    "set up alike",
)
def numa_layout_differs(host: HostFindings) -> Sign | None:
    """Nodes that are smaller, as there are more of them, lack nothing."""
    number = host.bad("numa_balancing", "numa_nodes")
    return sign("likely", number, follows=_sizes_of_numa(host))


def _sizes_of_numa(host: HostFindings) -> tuple[Finding, ...]:
    """Return what is bad of the size of NUMA nodes beside those of like hosts."""
    sizes = host.bad("host_memory", "numa_memory_gib", "numa_memory_most_gib")
    return tuple(finding for finding in sizes if finding.basis == PEERS)


@rule(
    title="MIG is on, and the driver keeps counters of the whole GPU back",
    effect="errors of this GPU cannot be seen from here while it is split",
    fix="take the GPU out of MIG mode to measure it, or leave what is named out with --skip",
    confirm="nvidia-smi --query-gpu=index,mig.mode.current --format=csv; nvidia-smi -q -d ECC",
    source="NVIDIA Multi-Instance GPU User Guide; NVML API Reference Guide, "
    "NVML_ERROR_NOT_SUPPORTED",
)
def mig_hides_counters(host: HostFindings) -> Sign | None:
    """The reasons say it themselves."""
    return sign("certain", host.unmeasured(MIG))


@rule(
    title="The login has too few rights to measure everything",
    effect="nothing is wrong that is known: what only root may read was not measured, so "
    "access control on the bus or errors in the kernel log may go unseen",
    fix="set ansible_become for the node, or add the login to the group adm and run as "
    "root what names PCI configuration space; a container sees no kernel log: log in to its node",
    confirm="id; sudo -n true",
    source="proc(5) and dmesg(1), kernel.dmesg_restrict; pciutils, lspci(8): the "
    "configuration space beyond 64 bytes is for root",
)
def login_unprivileged(host: HostFindings) -> Sign | None:
    """The reasons say it themselves."""
    return sign("certain", host.unmeasured(NO_PERMISSION))


@rule(
    title="The kernel log has lost its beginning, and with it what the driver reported",
    effect="a fault of a GPU that was logged earlier goes unseen; what floods a log is often a "
    "fault itself, such as a device that reports an error each second",
    fix="find what writes most and stop it; keep the journal on disk (Storage=persistent) and let "
    "the login read it: root, or a member of the group adm",
    confirm="sudo dmesg | cut -d] -f2 | cut -c1-30 | sort | uniq -c | sort -rn | head",
    source="journald.conf(5), Storage=; proc(5) and dmesg(1)",
)
def kernel_log_lost(host: HostFindings) -> Sign | None:
    """The reason says it itself."""
    return sign("certain", host.unmeasured(LOG_LOST))


@rule(
    title="The compute mode of a GPU keeps processes off it",
    effect="where it is prohibited, jobs end at their first CUDA call with an error that speaks of "
    "busy devices; where it is exclusive, the second process on the GPU does",
    fix="set it back with nvidia-smi -c 0, and look for the prolog or script that sets it; "
    "declare it as hwcheck_compute_mode when it is meant",
    confirm="nvidia-smi --query-gpu=index,compute_mode --format=csv",
    source="NVML API Reference Guide, nvmlComputeMode_t",
    role="gpu_settings",
)
def compute_mode_set(host: HostFindings) -> Sign | None:
    """The reading says it itself."""
    return sign("certain", host.bad("compute_mode"))


@rule(
    title="GPU memory is in use and nobody is on the GPU: a job left it behind",
    effect="the next job on this GPU has less memory and may end as it asks for more",
    fix="look for a process that was killed and cannot end (state D or Z) and that holds "
    "/dev/nvidia*; end what holds it, then reset the GPU (nvidia-smi --gpu-reset -i N) or reboot",
    confirm="nvidia-smi --query-gpu=index,memory.used,memory.reserved --format=csv; sudo fuser -v "
    "/dev/nvidia*; ps -eo pid,stat,comm | grep -E ' [DZ]'",
    source="derived from NVML API Reference Guide, nvmlDeviceGetMemoryInfo_v2 and "
    "nvmlDeviceGetComputeRunningProcesses: what neither the driver nor a process has is left over",
)
def memory_held(host: HostFindings) -> Sign | None:
    """A container, a guest of another or a kernel thread may hold it as well."""
    return sign("likely", host.bad("stray_processes", "memory_held_bytes"))


@rule(
    title="A file system was made read-only, or shut down, after an error: its disk may be dying",
    effect="jobs end as they write a log, a checkpoint or a compiled kernel; what runs on may lose "
    "what it writes",
    fix="drain the node; read the kernel log for errors of the disk and its SMART data, check the "
    "file system offline, replace the disk",
    confirm="findmnt -O ro; sudo dmesg | grep -iE 'remount|I/O error|EXT4-fs error|XFS'; sudo "
    "smartctl -a /dev/nvme0n1",
    source="Linux kernel documentation, filesystems/ext4 (errors=remount-ro)",
)
def disk_failing(host: HostFindings) -> Sign | None:
    """A damaged file system on a good disk looks alike."""
    return sign("likely", host.bad("file_systems", "read_only_by_error"))


@rule(
    title="A place that jobs write to (/tmp, /dev/shm, the home folder, the root) is mounted "
    "read-only",
    effect="jobs end as they write their first temporary file, socket or segment of shared memory",
    fix="look at /etc/fstab, at the options that the container was started with, and in the kernel "
    "log for an error; mount it read-write",
    confirm="findmnt -O ro -o TARGET,SOURCE,FSTYPE,OPTIONS; findmnt -T /tmp; findmnt -T /dev/shm; "
    "cat /etc/fstab",
    source="Filesystem Hierarchy Standard, /tmp; shm_overview(7); the majority of like hosts",
)
def scratch_read_only(host: HostFindings) -> Sign | None:
    """The mount says it; an error of its disk is another cause, and named by its own."""
    mounts = (
        *host.bad("disk_free", "tmp_read_only"),
        *host.bad("shm_size", "shm_read_only"),
        *host.bad("file_systems", "mounted_read_only"),
    )
    return sign("certain", mounts)


@rule(
    title="Memory of the host is missing: a module is switched off, or was left out",
    effect="less room for data loaders and checkpoints, and fewer memory channels: copies to the "
    "GPUs and collectives over host memory are slower than on other hosts",
    fix="compare the management controller's list of modules with what was bought; reseat or "
    "replace the module that is missing there",
    confirm="sudo dmidecode -t memory | grep -E 'Size|Locator'; ipmitool sel list | grep -i "
    "memory; numactl --hardware",
    source="derived: processors of one host, and hosts of one kind, are populated alike",
)
def host_memory_missing(host: HostFindings) -> Sign | None:
    """Modules may also have been put in so on purpose; other NUMA nodes have other sizes."""
    sizes = host.bad("host_memory", "memory_total_gib", "numa_memory_gib", "numa_memory_most_gib")
    other_nodes = _sizes_of_numa(host) if host.bad("numa_balancing", "numa_nodes") else ()
    return sign("likely", (finding for finding in sizes if finding not in other_nodes))


@rule(
    title="Programs or files in memory hold most of the host's memory",
    effect="a job that needs as much as on other hosts is ended for want of memory, or swaps",
    fix="end what is left of former jobs; empty file systems in memory (/dev/shm, /tmp); where "
    "neither holds it, look at the kernel's own share (slabtop) and at the ARC of ZFS",
    confirm="free -g; ps -eo rss,user,args --sort=-rss | head; df -h -t tmpfs; sudo slabtop -o",
    source="proc(5), /proc/meminfo, MemAvailable; earlyoom(1)",
)
def host_memory_held(host: HostFindings) -> Sign | None:
    """Who holds it, only a look at the host says; a job at work may."""
    return sign("likely", host.bad("host_memory", "memory_held_percent"))


@rule(
    title="Memory of the host is swapped out to a disk",
    effect="data loaders and checkpoints wait for the disk, and the GPUs for them",
    fix="see who is swapped out and give jobs limits; switch swap off where nothing needs it",
    confirm="free -g; cat /proc/swaps; vmstat 1 5",
    source="proc(5), /proc/swaps",
)
def host_swaps(host: HostFindings) -> Sign | None:
    """The reading says it itself."""
    return sign("certain", host.bad("host_memory", "swap_used_percent"))


@rule(
    title="Containers are given no libraries of the NVIDIA driver, or missing or empty ones",
    effect="the host computes, and a job in a container does not start, or ends with "
    "'libcuda.so.1: file too short'",
    fix="generate the CDI specification again after each change of the driver (nvidia-ctk cdi "
    "generate --output=/etc/cdi/nvidia.yaml, or the service nvidia-cdi-refresh); install the "
    "driver's libraries again where the host's own are empty",
    confirm="nvidia-ctk cdi list; ls -lL /usr/lib/*/libcuda.so.1 /usr/lib/*/libnvidia-ml.so.1",
    source="NVIDIA Container Toolkit, Support for Container Device Interface; "
    "NVIDIA/libnvidia-container issues 50 and 140",
)
def container_libraries_broken(host: HostFindings) -> Sign | None:
    """The files are there or they are not; on a host without a specification it may be meant."""
    broken = host.bad("container_files", "driver_library", "unusable_libraries")
    differs = host.bad("container_files", "cdi_specification")
    return sign("certain", broken) or sign("likely", differs)


@rule(
    title="The container runtime gives jobs less than they need unless they ask for it",
    effect="an image that works on other nodes ends here with 'No space left on device' in "
    "/dev/shm or without RDMA, or its container does not start",
    fix="mend the runtime's file: default-ulimits memlock with Soft and Hard -1 and "
    "default-shm-size 16G in /etc/docker/daemon.json, sudo nvidia-ctk runtime configure for the "
    "NVIDIA runtime; then restart the daemon when no job runs",
    confirm="docker info; cat /etc/docker/daemon.json; containerd config dump",
    source="dockerd(8), Daemon configuration file; NVIDIA Container Toolkit, Installing; NCCL User "
    "Guide, Troubleshooting, Shared memory",
)
def container_settings_unfit(host: HostFindings) -> Sign | None:
    """The file says it; a difference from other hosts alone may be meant."""
    stated = host.bad(
        "container_settings",
        *("settings_whole", "nvidia_program", "default_memlock_unlimited", "default_shm_mib"),
    )
    differs = host.bad("container_settings", "settings")
    return sign("certain", stated) or sign("possible", differs)
