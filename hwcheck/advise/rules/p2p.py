"""What makes P2P between GPUs hang, damage data, run slowly or be refused."""

from __future__ import annotations

import re

from hwcheck.advise.rule import WITH_P2P, HostFindings, Sign, rule, sign
from hwcheck.judge.records import Finding

STATES = ("leg_state", "p2p_state")
"""Metrics that say how a leg, or the copies of a pair, ended."""
IN_TRAINING = (
    "; two GPUs took 29 % longer for a step of DDP without P2P (Hugging Face, perf_train_gpu_many "
    "at 032b32abfb): `hwcheck train bench` says what it costs here"
)
"""What a lost P2P costs whoever trains."""
LOOKS_AT_IOMMU = (13, 5)
"""The CUDA from which on the driver looks at IOMMU and ACS before it grants PCIe P2P."""
WRONG = ("wrong_elements", "p2p_wrong_elements")
"""Metrics of data that arrived wrong."""


@rule(
    title="ACS sends what GPUs send each other over PCIe to the CPU",
    effect="P2P is slow at best; with an IOMMU that translates, collectives hang or bring wrong "
    "data",
    fix="switch ACS off in the firmware, or clear it at every boot on root ports and on every "
    "switch port above GPUs: setpci -s BRIDGE ECAP_ACS+6.w=0000; until then "
    "NCCL_P2P_LEVEL=NVL where GPUs are bridged, else NCCL_P2P_DISABLE=1",
    confirm="sudo lspci -vvv | grep -E '^[0-9a-f]|ACSCtl'",
    source="NCCL User Guide, Troubleshooting, PCI Access Control Services (ACS); NVIDIA/nccl "
    "issues 2079, 606, 631; both levels of bridges matter: local-inference-lab/rtx6kpro",
    role="pcie_p2p",
)
def acs_redirect(host: HostFindings) -> Sign | None:
    """In a virtual machine access control has to be on."""
    ports = host.bad("pcie_acs", "acs_redirect")
    return None if host.hypervisor else _by_way_of_cpu(host, ports)


@rule(
    title="The IOMMU translates the addresses that GPUs use for each other",
    effect="PCIe P2P goes by way of the CPU: collectives hang, bring wrong data or are slow",
    fix="boot with iommu=pt, or switch VT-d or AMD-Vi off in the firmware where nothing is "
    "passed to virtual machines",
    confirm="cat /proc/cmdline; grep . /sys/kernel/iommu_groups/*/type | sort -t: -k2 | head",
    source="NCCL User Guide, Troubleshooting, GPU Direct; NVIDIA/nccl issues 257 and 631, "
    "ROCm/rccl issue 1129, vllm-project/vllm issue 33041",
    role="pcie_p2p",
)
def iommu_translates(host: HostFindings) -> Sign | None:
    """In a virtual machine the IOMMU is its host's."""
    groups = host.bad("iommu", "translated")
    return None if host.hypervisor else _by_way_of_cpu(host, groups)


def _by_way_of_cpu(host: HostFindings, reasons: tuple[Finding, ...]) -> Sign | None:
    """Return the sign of what sends P2P by way of the CPU, with all that is bad on that way."""
    if not reasons:
        return None
    trouble = (*host.p2p_trouble(over_pcie=True), *host.p2p_losses(), *host.slow_over_pcie())
    return sign("likely" if trouble else "possible", (*reasons, *trouble))


@rule(
    title="The window into GPU memory (BAR1) is smaller than the memory",
    effect="peers and network cards cannot map it: P2P fails with error 205 or goes through the "
    "host",
    fix="switch on Above 4G Decoding and Resizable BAR in the firmware; on boards with a "
    "display mode choose the compute mode",
    confirm="nvidia-smi -q -d MEMORY; sudo lspci -vv -d 10de: | grep -A3 'Resizable BAR'",
    source="NVIDIA GPUDirect RDMA documentation, PCI BAR sizes; tinygrad/open-gpu-kernel-modules "
    "issues 36 and 44",
)
def bar1_small(host: HostFindings) -> Sign | None:
    """What a guest reads of BAR1 is not to be trusted."""
    windows = host.bad("bar1_size", "bar1_total_bytes")
    if host.hypervisor or not windows:
        return None
    return sign("certain", (*windows, *host.p2p_trouble(over_pcie=True)))


@rule(
    title="The virtual machine does not carry P2P between its GPUs",
    effect="collectives hang or fail as soon as GPUs reach each other, or go through the guest's "
    "memory; nothing inside the guest mends it",
    fix="ask whoever runs the hypervisor for access control with ATS, or for GPUs that share "
    "a baseboard; until then NCCL_P2P_DISABLE=1 in the guest",
    confirm="systemd-detect-virt; nvidia-smi topo -p2p r; nvidia-smi topo -m",
    source="NCCL User Guide, Troubleshooting (virtual machines need ACS, use ATS); NVIDIA/nccl "
    "issues 175, 182, 417",
)
def p2p_in_a_vm(host: HostFindings) -> Sign | None:
    """A guest sees none of the bridges: its legs tell, and what the driver refuses.

    Where P2P is refused data goes through the guest's memory, which may be slow for other reasons.
    """
    if not host.hypervisor:
        return None
    trouble = host.p2p_trouble()
    codes = {str(code) for code in host.values("p2p_status", "pcie_read").values()} - {"OK"}
    slow = host.slow_over_pcie() if codes else ()
    observations = [f"virtualization: {host.hypervisor}"]
    observations += [f"p2p_status: pcie_read {', '.join(sorted(codes))}"] if codes else []
    return sign("likely" if trouble else "possible", (*trouble, *slow), observations)


@rule(
    title="P2P hangs while the driver's heterogeneous memory management (UVM HMM) is on",
    effect="copies between GPUs lock up until the node is rebooted",
    fix="try 'options nvidia_uvm uvm_disable_hmm=1' in /etc/modprobe.d, reload the module, and "
    "run the same test again; keep it only where that mends it",
    confirm="cat /sys/module/nvidia_uvm/parameters/uvm_disable_hmm",
    source="local-inference-lab/rtx6kpro, optimization/nccl-tuning.md; it is on by default, so it "
    "is named where nothing better is known",
)
def uvm_hmm(host: HostFindings) -> Sign | None:
    """ACS, the IOMMU or a virtual machine explain a hang better."""
    if host.value("p2p_status", "uvm_hmm") is not True:
        return None
    if host.hypervisor or host.bad("pcie_acs") or host.bad("iommu", "translated"):
        return None
    hangs = [f for f in host.p2p_trouble() if f.metric in STATES and f.value == "hang"]
    return sign("possible", hangs, ["p2p_status: uvm_hmm yes"], independent=True)


@rule(
    title="The driver refuses PCIe P2P to GPUs that should have it (CNS, GNS, NS)",
    effect="between these GPUs data goes through host memory, so every ring through them is as "
    "slow as that" + IN_TRAINING,
    fix="make slots, firmware settings (Resizable BAR, Above 4G Decoding), boards and driver "
    "settings of these GPUs like those of the others; where all are refused, look for "
    "RMDisableP2P and take a driver that knows the chipset (CNS); GeForce boards refuse it by "
    "design",
    confirm="nvidia-smi topo -p2p r; nvidia-smi topo -p2p w; nvidia-smi topo -m",
    source="NVML API Reference Guide, nvmlGpuP2PStatus_t; NVIDIA/nccl src/graph/paths.cc; "
    "NVIDIA/nccl issue 175",
)
def p2p_refused_over_pcie(host: HostFindings) -> Sign | None:
    """What consumer boards are refused alike is as the driver makes it: no fault."""
    refused = host.bad("p2p_status", "unlike_other_pairs", "refused_like_all")
    if host.hypervisor or not refused:
        return None
    codes = {
        f"p2p_status: {metric} {code} ({finding.subject})"
        for finding in refused
        for metric in ("pcie_read", "pcie_write")
        for code in [host.values("p2p_status", metric).get(finding.subject)]
        if code not in (None, "OK")
    }
    return sign("certain", refused, sorted(codes))


@rule(
    title="CUDA refuses PCIe P2P that NVML grants: from 13.5 on it looks at IOMMU and ACS first",
    effect="data between these GPUs goes through host memory; with an older CUDA the same path "
    "would hang, damage data or be slow" + IN_TRAINING,
    fix="boot with iommu=pt and clear ACS redirection on the bridges above the GPUs, then measure "
    "again; set CUDA_DISABLE_IOMMU_ACS_P2P_CAPABILITY_CHECK=1 only where gpu_pairs and every "
    "collective are clean with it",
    confirm="cat /proc/cmdline; sudo lspci -vvv | grep -E '^[0-9a-f]|ACSCtl'; nvidia-smi topo "
    "-p2p r",
    source="CUDA Features Archive, CUDA 13.5, CUDA Platform: cuDeviceCanAccessPeer() and "
    "cuCtxEnablePeerAccess()",
    role="pcie_p2p",
)
def cuda_refuses_p2p(host: HostFindings) -> Sign | None:
    """It is certain where such a CUDA, and what it looks for, are seen."""
    refused = host.bad("gpu_pairs", "p2p_refused_by_cuda")
    refused = tuple(finding for finding in refused if not host.has_nvlink(finding.subject))
    if not refused:
        return None
    reasons = (*host.bad("iommu", "translated"), *host.bad("pcie_acs", "acs_redirect"))
    cuda = str(host.value("cuda_driver", "cuda_driver_version") or "")
    number = re.match(r"(\d{1,3})\.(\d{1,3})", cuda)
    looks = number is not None and (int(number[1]), int(number[2])) >= LOOKS_AT_IOMMU
    slow = host.slow_over_pcie() if looks else ()
    confidence = "certain" if looks and reasons else "likely" if looks or reasons else "possible"
    observations = [f"cuda_driver: CUDA {cuda}"] if cuda else []
    return sign(confidence, (*refused, *reasons, *slow), observations)


@rule(
    title="The driver refuses NVLinked GPUs to reach each other",
    effect="NCCL does not start over such links, and never falls back by itself",
    fix="mend the link or the setting (RMDisableP2P, MIG, fabric manager), then reset or "
    "reboot; never set NCCL_IGNORE_DISABLED_P2P, which hides it",
    confirm="nvidia-smi topo -p2p n; nvidia-smi nvlink --status; grep -r RMDisableP2P "
    "/etc/modprobe.d",
    source="NVIDIA/nccl issue 2329 and src/graph/paths.cc, ncclTopoCheckP2p",
)
def p2p_refused_over_nvlink(host: HostFindings) -> Sign | None:
    """NVML says so itself; legs that do not start follow from it."""
    refused = host.bad("p2p_status", "nvlink_read", "nvlink_write")
    return sign("certain", refused, follows=host.failed_legs(WITH_P2P))


@rule(
    title="P2P collapses when several pairs of GPUs copy at once",
    effect="a pair by itself is as fast as it should be, and collectives over all GPUs run at a "
    "fraction of it",
    fix="spread the GPUs so that those of one switch write to one root port; update firmware of "
    "switches and board; compare NCCL_P2P_LEVEL=PXB and NCCL_P2P_DISABLE=1 over every collective, "
    "and test after each upgrade",
    confirm="nvidia-smi topo -m; fab validate --only gpu_pairs; sudo lspci -tv",
    source="local-inference-lab/rtx6kpro, hardware/collapse-report.md (2.7 to 7 GB/s where one "
    "pair has 50; Broadcom PEX890xx or the root complex of the CPU)",
)
def p2p_collapses(host: HostFindings) -> Sign | None:
    """ACS explains it better where it is seen."""
    return sign("likely", host.bad("gpu_pairs", "p2p_concurrent_percent"))


@rule(
    title="PCIe P2P goes through a CPU that forwards it badly",
    effect="the default is slower than shared memory for some collectives, often alltoall and so "
    "MoE models",
    fix="leave NCCL alone where only all_reduce matters; otherwise NCCL_P2P_LEVEL=PXB (NVL "
    "where bridged), or NCCL_P2P_DISABLE=1 where every collective gains, and test after "
    "each upgrade",
    confirm="nvidia-smi topo -m; time all_reduce and alltoall with and without NCCL_P2P_DISABLE=1",
    source="NVIDIA/nccl issue 1603 (4x RTX 4090: alltoall 18 to 2 GB/s with P2P), issues 1817 "
    "and 384",
)
def p2p_through_cpu(host: HostFindings) -> Sign | None:
    """ACS or the IOMMU explain it better where they are seen."""
    linked = any(path.startswith("NV") for path in host.paths.values())
    return sign("possible", () if linked else host.p2p_losses())


@rule(
    title="P2P is offered by the driver and does not work",
    effect="jobs on these GPUs hang, at the first collective or copy that takes the way",
    fix="set NCCL_P2P_DISABLE=1 (NCCL_P2P_LEVEL=NVL where bridged pairs are clean) for now; "
    "try another driver, look for unlike boards, a patched driver or a display on one of "
    "them, then test again",
    confirm="nvidia-smi topo -p2p r; nvidia-smi topo -m; cat /proc/driver/nvidia/version",
    source="NVIDIA/nccl-tests issue 117 (RTX 4090), dmlc/xgboost issue 11242 (driver 560), "
    "tinygrad/open-gpu-kernel-modules issues 44 and 45",
)
def p2p_hangs(host: HostFindings) -> Sign | None:
    """ACS, the IOMMU or a virtual machine explain it better where they are seen."""
    trouble = tuple(f for f in host.p2p_trouble() if f.metric not in WRONG)
    hangs = any(f.metric in STATES for f in trouble)
    return sign("possible", trouble if hangs else ())


@rule(
    title="The driver offers P2P on a path that damages data",
    effect="results are wrong and nothing reports an error: worse than a node that is slow",
    fix="keep jobs off the node; set NCCL_P2P_DISABLE=1 (NCCL_P2P_LEVEL=NVL where bridged "
    "pairs are clean) until another driver is proven by the same test; unlike boards, or "
    "a display on one of them, make it likelier",
    confirm="nvidia-smi topo -p2p r; nvidia-smi --query-gpu=name,driver_version,display_active "
    "--format=csv; sudo dmesg | grep -iE 'xid|aer'",
    source="NVIDIA/open-gpu-kernel-modules issue 1257 (two RTX 6000 Ada), NVIDIA/nccl-tests "
    "issue 131, aikitoria/open-gpu-kernel-modules issue 11",
)
def p2p_corrupts(host: HostFindings) -> Sign | None:
    """ACS, the IOMMU or a virtual machine explain it better where they are seen."""
    return sign("possible", (f for f in host.p2p_trouble() if f.metric in WRONG))


@rule(
    title="NCCL's own diagnostics and the checks of the GPUs contradict each other",
    effect="one of the two ways between the GPUs is broken, or the fault comes and goes: a job "
    "may take either",
    fix="run both again: fab validate --only gpu_pairs,nccl_diagnostics; believe whichever says "
    "broken, and keep jobs off P2P there (NCCL_P2P_DISABLE=1) until both are clean; where only "
    "NCCL complains look at CUDA IPC, the container's rights and the newest NCCL",
    confirm="NCCL_RUN_DIAGNOSTICS=1 with any job; nvidia-smi topo -p2p r; nvidia-smi topo -m; "
    "sudo dmesg | grep -iE 'xid|aer'",
    source="NVIDIA/nccl src/diagnostics/p2p.cc: kernels that write, verify and read memory of "
    "another process; gpu_pairs has copy engines copy within one process",
)
def nccl_contradicts(host: HostFindings) -> Sign | None:
    """What NCCL complains of, and the copies do, is told by the rules of P2P."""
    contradicting = host.bad("nccl_diagnostics", "contradicts")
    pairs = {finding.subject for finding in contradicting}
    complaints = host.bad("nccl_diagnostics", "diag_p2p")
    others = host.bad("nccl_diagnostics", "ras_inventory", "ras_driver")
    disputed = (*(f for f in complaints if f.subject in pairs), *others)
    return sign("possible", (*contradicting, *disputed))


@rule(
    title="NCCL cannot reach one GPU from another by P2P",
    effect="jobs fail, hang or compute wrong results on that pair, by whatever transport NCCL has "
    "chosen for it",
    fix="for a mismatch keep jobs off the pair and look at NVLinks, IOMMU and PCIe ACS; for an "
    "import that failed look at CUDA IPC, the container's rights and the GPUs that it sees",
    confirm="NCCL_RUN_DIAGNOSTICS=1 with any job; nvidia-smi topo -p2p r; nvidia-smi topo -m",
    source="NCCL User Guide, Troubleshooting, Diagnostics; NVIDIA/nccl src/diagnostics/p2p.cc",
)
def nccl_p2p_fails(host: HostFindings) -> Sign | None:
    """Where the copies say the opposite it is a contradiction."""
    disputed = {finding.subject for finding in host.bad("nccl_diagnostics", "contradicts")}
    complaints = host.bad("nccl_diagnostics", "diag_p2p")
    return sign("likely", (f for f in complaints if f.subject not in disputed))


@rule(
    title="NVML refuses GPUs the peer access that CUDA grants them",
    effect="NCCL asks NVML too and leaves P2P off between these GPUs, so collectives go through "
    "host memory; over NVLink it does not start",
    fix="see that the driver's library and its kernel module are of one build, and unpatched; "
    "reset the GPUs or reboot; where it stays compare the boards' slots and firmware settings",
    confirm="nvidia-smi topo -p2p r; nvidia-smi topo -p2p w; cat /proc/driver/nvidia/version; "
    "NCCL_DEBUG=INFO with any job shows P2P is disabled between connected GPUs",
    source="NVIDIA/nccl src/graph/paths.cc, ncclTopoCheckP2p and NCCL_IGNORE_DISABLED_P2P; NVML "
    "API Reference Guide, nvmlDeviceGetP2PStatus",
)
def nvml_refuses_p2p(host: HostFindings) -> Sign | None:
    """Both were asked of one pair."""
    return sign("certain", host.bad("gpu_pairs", "p2p_refused_by_nvml"))


@rule(
    title="CUDA refuses peer access over NVLink that NVML grants",
    effect="NCCL does without NVLink between these GPUs: collectives are many times slower",
    fix="see that every GPU has joined the fabric (nvswitch_fabric) and that no process holds them "
    "from before a reset; load the driver again or reset the GPUs, then measure again",
    confirm="nvidia-smi topo -p2p r; nvidia-smi topo -m; nvidia-smi nvlink --status; nvidia-smi -q "
    "| grep -A 4 Fabric",
    source="CUDA Driver API, cuDeviceCanAccessPeer; NVML API Reference Guide, "
    "nvmlDeviceGetP2PStatus: both speak of the same way",
)
def cuda_refuses_nvlink(host: HostFindings) -> Sign | None:
    """Both were asked of one pair; why, neither says."""
    refused = host.bad("gpu_pairs", "p2p_refused_by_cuda")
    return sign("likely", [f for f in refused if host.has_nvlink(f.subject)])
