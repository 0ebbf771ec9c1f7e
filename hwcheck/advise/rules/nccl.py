"""What makes NCCL fail or lose speed on paths that are fine: shared memory, settings, versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from hwcheck.advise.rule import WITH_P2P, HostFindings, Sign, rule, sign
from hwcheck.judge.legs import is_clean
from hwcheck.judge.p2p import crosses, rule_changes
from hwcheck.judge.records import Finding, NoMajority

NO_SPACE = "No space left"
"""Words of the system where shared memory is full."""
NUMA_WORDS = ("cuMem host", "cuMemHost", "shm.cc", "get_mempolicy")
"""Words of NCCL's log where a NUMA call was refused."""
NUMA_CALLS_FROM, NUMA_CALLS_UNTIL = (2, 24, 0), (2, 26, 5)
"""NCCL that allocates shared memory with NUMA calls and does not do without them."""
NUMA_CALLS_CUDA = (12, 6)
"""The CUDA of the driver from which on such an NCCL does so by itself."""
NCCL_VERSION = re.compile(r"NCCL (\d{1,3})\.(\d{1,3})\.(\d{1,3})\b")


@rule(
    title="Shared memory (/dev/shm) is too small for NCCL",
    effect="NCCL ends with 'No space left on device' as soon as some GPUs talk through host memory",
    fix="start the container with --shm-size=1g or more (Kubernetes: an emptyDir of medium "
    "Memory at /dev/shm), and delete what dead jobs left there; never set "
    "NCCL_SHM_DISABLE for it",
    confirm="df -h /dev/shm; ls -la /dev/shm",
    source="NCCL User Guide, Troubleshooting, Shared memory; NVIDIA/nccl issues 290, 342 and "
    "525, pytorch/ci-infra issue 490",
)
def shm_too_small(host: HostFindings) -> Sign | None:
    """The size alone is enough, and so are NCCL's own words."""
    size = host.bad("shm_size", "shm_size_mib", "shm_free_mib")
    words = [text[:160] for text in host.log_lines(NO_SPACE) if "shm" in text][:2]
    if not size and not words:
        return None
    failed = host.failed_legs(("default", "p2p_off"))
    return sign("certain", (*size, *failed), [host.container, *words])


@rule(
    title="Processes may not share GPU or host memory here (CUDA IPC, /dev/shm)",
    effect="NCCL fails with P2P and with shared memory, and works over sockets at a fraction of "
    "the speed",
    fix="run the ranks in one container with a shared /dev/shm (--ipc=host or --shm-size=1g); "
    "in a virtual machine ask for CUDA IPC; until then NCCL_P2P_DISABLE=1 and "
    "NCCL_SHM_DISABLE=1",
    confirm="df -h /dev/shm; systemd-detect-virt; ipcs -m",
    source="PrimeIntellect-ai/prime-rl issue 2236; NCCL User Guide, Troubleshooting, Shared memory",
)
def ipc_blocked(host: HostFindings) -> Sign | None:
    """The legs default and p2p_off have to be bad, and net clean."""
    failed = [
        finding
        for leg in host.legs
        if leg.leg == "net" and is_clean(leg)
        for finding in host.failed_legs(("p2p_off", *WITH_P2P), leg.collective)
    ]
    both = {finding.subject for finding in failed} >= {"leg default", "leg p2p_off"}
    inside = (host.hypervisor or host.container) and not _needs_numa_calls(host)
    return sign("likely" if inside else "possible", failed if both else ())


@rule(
    title="The container refuses the NUMA calls that NCCL 2.24 to 2.26.4 needs for shared memory",
    effect="NCCL fails as soon as two GPUs talk through host memory, with an error of CUDA that "
    "names no reason",
    fix="start the container with --cap-add SYS_NICE, or take NCCL 2.26.5 or newer; until then "
    "NCCL_CUMEM_HOST_ENABLE=0",
    confirm="numactl -s; grep Seccomp /proc/self/status; python3 -c 'import torch; "
    "print(torch.cuda.nccl.version())'",
    source="NCCL User Guide, Troubleshooting, NUMA support in containers; pytorch/pytorch issue "
    "152302 (2.26.2: NCCL_CUMEM_HOST_ENABLE=0 helps; 2.26.5 falls back by itself)",
)
def numa_calls_blocked(host: HostFindings) -> Sign | None:
    """Shared memory has to fail, the network not, in a container or in NCCL's words."""
    failed = tuple(_shm_fails(host)) if _needs_numa_calls(host) else ()
    words = dict.fromkeys(text[:160] for word in NUMA_WORDS for text in host.log_lines(word))
    if not (host.container or words) or any(host.log_lines(NO_SPACE)):
        return None
    return sign("likely", failed, [host.container, *list(words)[:2]])


def _shm_fails(host: HostFindings) -> Iterator[Finding]:
    for leg in host.legs:
        if leg.leg != "net" or not is_clean(leg):
            continue
        failed = host.failed_legs(("p2p_off", "default", "site"), leg.collective)
        if any(f.subject == "leg p2p_off" and f.value == "failed" for f in failed):
            yield from failed


def _needs_numa_calls(host: HostFindings) -> bool:
    """Return whether the NCCL of the legs fails where get_mempolicy and its like are refused."""
    matches = [NCCL_VERSION.match(leg.library) for leg in host.legs]
    versions = {tuple(int(part) for part in match.groups()) for match in matches if match}
    cuda = re.match(r"(\d{1,3})\.(\d{1,3})", str(host.value("cuda_driver", "cuda_driver_version")))
    if cuda and (int(cuda[1]), int(cuda[2])) < NUMA_CALLS_CUDA:
        return False
    return any(NUMA_CALLS_FROM <= version < NUMA_CALLS_UNTIL for version in versions)


@rule(
    title="The container keeps from NCCL what the host has",
    effect="jobs in containers of this kind fail, or go a slower way than the host could",
    fix="start it with --ipc=host (or --shm-size=1g), --ulimit memlock=-1, "
    "--device=/dev/infiniband and --cap-add SYS_NICE; on Kubernetes an emptyDir of medium Memory "
    "at /dev/shm, the RDMA device plugin and IPC_LOCK",
    confirm="df -h /dev/shm; ulimit -l; ls /dev/infiniband; grep -E 'Cap|Seccomp' "
    "/proc/self/status",
    source="NCCL User Guide, Troubleshooting, Shared memory and Networking issues; Docker "
    "documentation, docker run",
    brings=("shm_too_small", "memlock_limited"),
)
def container_keeps_back(host: HostFindings) -> Sign | None:
    """Two such things at once come from how it was started, not from the host."""
    if not host.container:
        return None
    shm = host.bad("shm_size", "shm_size_mib", "shm_free_mib")
    small = shm or any("shm" in text for text in host.log_lines(NO_SPACE))
    kept_back = [
        (*shm, *(host.failed_legs(("default", "p2p_off")) if small else ())),
        host.bad("memlock", "memlock_unlimited"),
        host.bad_collectives("network_transport", "network_ports"),
    ]
    several = sum(map(bool, kept_back)) > 1
    return sign("likely" if several else "possible", chain(*kept_back), [host.container])


@rule(
    title="NCCL settings that are meant for debugging are in force",
    effect="NCCL does not choose for itself: a forgotten NCCL_P2P_LEVEL or NCCL_P2P_DISABLE "
    "costs up to 40 times the bandwidth",
    fix="remove the variable where it comes from and measure again; keep it only with a "
    "measurement of this NCCL version that proves it",
    confirm="env | grep ^NCCL_; grep -H NCCL_ /etc/nccl.conf ~/.nccl.conf /etc/environment "
    "/etc/profile.d/*.sh",
    source="NCCL User Guide, Environment Variables, Debugging; NVIDIA/nccl-tests issue 228 "
    "(NCCL_P2P_LEVEL=LOC left over: removing it gave 220 GB/s)",
)
def stale_nccl_settings(host: HostFindings) -> Sign | None:
    """It explains the leg site, which is timed with what is in force."""
    settings = host.bad("nccl_environment", "debugging_settings")
    legs = (*host.failed_legs(("site",)), *host.slow_legs("site"))
    return sign("certain", settings, follows=legs)


@rule(
    title="NCCL decides about PCIe P2P by other rules here than on most hosts, or in torch than in "
    "other programs (2.23 changed them)",
    effect="the same hardware takes another transport: on AMD CPUs with more than two GPUs P2P "
    "beyond PCIe switches is on up to 2.22 and off from 2.23",
    fix="bring all hosts, and torch and the system, to one NCCL; when PCIe P2P is "
    "wanted on 2.23 or newer, prove it for every collective before NCCL_P2P_LEVEL is set",
    confirm="python3 -c 'import torch; print(torch.cuda.nccl.version())'; ldconfig -p | grep "
    "libnccl; NCCL_DEBUG=INFO with any job",
    source="NVIDIA/nccl src/graph/paths.cc, ncclTopoCheckP2p, in 2.22 and 2.23",
    role="nccl",
    brings=("nccl_differs", "torch_differs"),
)
def nccl_p2p_default(host: HostFindings) -> Sign | None:
    """GPUs with NVLink are not concerned, nor are CPUs of Intel and ARM."""
    paths = host.paths.values()
    if not paths or any(path.startswith("NV") for path in paths):
        return None
    if not rule_changes(host.cpu_vendor, len(host.models)):
        return None
    versions = host.bad("software_versions", "nccl_version", "system_nccl_version")
    crossing = [finding for finding in versions if crosses(" ".join(_versions(finding)))]
    crossing += host.bad_collectives("nccl_p2p_default")
    slow = (*host.slow_legs(), *host.p2p_losses())
    return sign("certain", crossing, follows=(*versions, *slow))


def _versions(finding: Finding) -> Iterator[str]:
    """Yield the version that a finding is about, and those that it is held against."""
    wanted = finding.wanted
    others = wanted.values if isinstance(wanted, NoMajority) else (wanted,)
    yield from map(str, (finding.value, *others))


@rule(
    title="This NCCL has a defect with GPUs of this generation (2.25 on Blackwell)",
    effect="collectives end with an error about shared memory of the kernel",
    fix="bring torch or NCCL to one with NCCL 2.26 or newer",
    confirm="python3 -c 'import torch; print(torch.__version__, torch.cuda.nccl.version())'",
    source="NVIDIA/nccl issue 1637, NVIDIA/nccl-tests issue 287",
    role="validation_env",
)
def nccl_too_old(host: HostFindings) -> Sign | None:
    """These are NCCL's own words, in the log of a leg that failed."""
    words = [text[:160] for text in host.log_lines("ncclMaxSharedMem")][:2]
    return sign("certain", host.bad_collectives("leg_state") if words else (), words)


@rule(
    title="This NCCL has a known defect that any job may meet",
    effect="jobs crash, hang or compute with wrong data, some of the time and with no fault of the "
    "node",
    fix="bring torch or NCCL to a version without it, and until then set what the defect's report "
    "names; hwcheck/judge/versions/nccl.yml has both",
    confirm="python3 -c 'import torch; print(torch.__version__, torch.cuda.nccl.version())'",
    source="NCCL Release Notes and NVIDIA/nccl issues, row by row in "
    "hwcheck/judge/versions/nccl.yml",
    role="validation_env",
)
def nccl_defect(host: HostFindings) -> Sign | None:
    """The version has it or it does not; whether a leg failed by it nobody can say."""
    return sign("certain", host.bad("software_versions", "nccl_defects"))


@rule(
    title="NCCL goes another way on this host than on those like it",
    effect="collectives are slower here, or come to be with other sizes and other jobs; a job over "
    "several nodes goes as fast as its slowest",
    fix="compare NCCL's settings in force, its topology file, the paths between GPUs and cards and "
    "the active ports with those of another host; mend what differs",
    confirm="env | grep NCCL_; cat /etc/nccl.conf; nvidia-smi topo -m; NCCL_DEBUG=INFO with any "
    "job shows Channel and via",
    source="NVIDIA/nccl, src/graph: the way is chosen by the topology, the version and settings",
)
def nccl_way_differs(host: HostFindings) -> Sign | None:
    """What differs in the host, other findings say where there are any."""
    return sign("possible", host.bad_collectives("leg_way"))


@rule(
    title="Small messages take far longer on this host than on those like it",
    effect="training with many small collectives (pipelines, tensor parallel inference) waits for "
    "this host",
    fix="look for what takes the CPUs' time there: a power-saving governor, another process, "
    "interrupts on the ranks' cores, a firmware profile that saves power; compare with other hosts",
    confirm="cpupower frequency-info; top -b -n 1 | head -n 20; numactl --show; sudo turbostat "
    "--num_iterations 1",
    source="NVIDIA/nccl, src/graph/tuning.cc: latency of a step; derived: hosts of one kind agree",
)
def small_messages_slow(host: HostFindings) -> Sign | None:
    """The same causes slow the bandwidth of host memory, and have findings of their own."""
    return sign("possible", host.bad_collectives("small_messages_us"))
