"""NVLinks, bridges and NVSwitches that are down, fail, or are not in use."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hwcheck.advise.rule import WITH_P2P, HostFindings, Sign, rule, sign
from hwcheck.contract.wire import Leg
from hwcheck.judge.expectation import PASS_FROM
from hwcheck.judge.expectation import SOURCE as OWN_LINKS
from hwcheck.judge.records import SHARP, Finding
from hwcheck.results.site_limits import ABSENT

NVLINK_FAULTS = re.compile(r"(xid (74|136|14[4-9]|150)|sxid \d+)$")
TAKEN_DOWN = re.compile(r"xid 155$")
"""Also written when a link is taken down on purpose: no fault by itself."""
RING_SHARE = 0.6
"""Of what is expected with NVLS a ring reaches three quarters on Hopper, and more on Blackwell (368
of 482 GB/s on 8 H200, ml-engineering). What has lost far more has lost it in another way."""


@rule(
    title="NVLinks are down: a bridge or board that is not seated, or a link that failed",
    effect="that GPU is the slowest of every collective, and the whole node runs at its speed",
    fix="read the kernel log for Xid 74 and SXid; reset the GPUs (all of a baseboard at once) "
    "or reboot; reseat bridge or board, then have it replaced; never disable NVLink to "
    "get by",
    confirm="nvidia-smi nvlink --status; nvidia-smi topo -m; sudo dmesg | grep -E 'Xid|SXid'",
    source="NVML API Reference Guide, nvmlDeviceGetNvLinkState; NVIDIA/nccl issue 2329",
)
def nvlink_down(host: HostFindings) -> Sign | None:
    """Where all GPUs have lost some, it is rather a switch or the fabric."""
    metrics = ("nvlink_links_active", "switch_links_active", "nvlink_speed_gbps")
    links = host.bad("nvlink_state", *metrics)
    pairs = host.bad("topology", "nvlinks", "nvlinks_unanswered")
    by_nccl = host.bad("nccl_diagnostics", "ras_nvlink")
    if not links and not pairs and not by_nccl:
        return None
    down = {finding.subject for finding in links}
    everywhere = down >= set(host.values("nvlink_state", "nvlink_links_active"))
    slow = host.bad("gpu_pairs", "p2p_percent_of_alike")
    copies = [finding for finding in slow if host.has_nvlink(finding.subject)]
    errors = (*host.bad_on(down, "nvlink_errors"), *host.logged(NVLINK_FAULTS))
    errors += host.logged(TAKEN_DOWN)
    legs, ways = _slowed(host)
    explained = (*links, *pairs, *by_nccl, *errors, *copies, *legs)
    return sign("possible" if everywhere else "likely", explained, ways)


def _slowed(host: HostFindings) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """Return the slow legs that links explain which are down, and the way that NCCL took instead.

    What a node's own links allow reckons with those that are up. A leg below that is slow for
    another reason, unless NCCL went around the links, through host memory or the network, or some
    are up at one end only. Below like hosts, or its own past, a leg is slow by the links as well.
    """
    at_one_end = (
        *host.bad("topology", "nvlinks_unanswered"),
        *host.bad("nccl_diagnostics", "ras_nvlink"),
    )
    ways = {f"leg {leg.leg}": way for leg in host.legs if (way := _way_around(leg))}
    slow = tuple(
        finding
        for finding in host.slow_legs()
        if at_one_end or finding.subject in ways or finding.source != OWN_LINKS
    )
    subjects = dict.fromkeys(finding.subject for finding in slow if finding.subject in ways)
    return slow, tuple(f"{each}: NCCL went over {ways[each]}" for each in subjects)


def _way_around(leg: Leg) -> str:
    """Return the way that NCCL took between GPUs instead of NVLink; empty where it took none."""
    kinds = sorted(kind for kind in leg.transport if kind.startswith(("SHM", "NET/")))
    return ", ".join(kinds)


@rule(
    title="An NVSwitch is out of use: every GPU lost the links that led to it",
    effect="every collective of the node runs on the links that are left",
    fix="reset GPUs and switches or reboot; when the switch stays away, have the baseboard "
    "repaired",
    confirm="nvidia-smi nvlink --status; lspci | grep -iE 'nvswitch|10de.*bridge'; sudo dmesg | "
    "grep SXid",
    source="NVIDIA Fabric Manager User Guide, High Availability Modes and GPU Baseboard Topologies",
)
def nvswitch_lost(host: HostFindings) -> Sign | None:
    """One GPU that lost links is another matter, and none that is up is the fabric."""
    switch_links = host.bad("nvlink_state", "switch_links_active")
    gpus = {finding.subject for finding in switch_links}
    lost = set(_links_lost(host))
    if len(gpus) < 2 or len(lost) != 1 or 0 in lost:
        return None
    xids = (*host.logged(NVLINK_FAULTS), *host.bad_on(gpus, "nvlink_errors"))
    links = host.bad("nvlink_state", "nvlink_links_active")
    legs, ways = _slowed(host)
    observation = f"nvlink_state: {lost.pop()} links are down on each of {len(gpus)} GPUs"
    return sign("likely", (*switch_links, *links, *xids, *legs), [observation, *ways])


@rule(
    title="An NVSwitch is gone from the bus, or does not answer there any more",
    effect="the fabric manager can neither watch it nor set it up again: after the next reset its "
    "links are missing, or the GPUs do not join the fabric at all",
    fix="drain the node, power it off and on; when the switch stays away, have the baseboard "
    "repaired",
    confirm="lspci -d 10de: | grep -i bridge; sudo dmesg | grep -E 'SXid|fallen off'",
    source="NVIDIA Fabric Manager User Guide; PCI Express Base Specification, 2.3.2 (completion "
    "of reads)",
)
def nvswitch_off_the_bus(host: HostFindings) -> Sign | None:
    """Its NVLinks may still carry data."""
    return sign("likely", host.bad("nvswitch_fabric", "nvswitches", "nvswitch_answers", ABSENT))


def _links_lost(host: HostFindings) -> Iterator[int]:
    active = host.values("nvlink_state", "switch_links_active")
    for gpu, links in host.values("nvlink_state", "switch_links").items():
        up = active.get(gpu)
        # A GPU with no link up at all has another trouble.
        if isinstance(links, int) and isinstance(up, int):
            yield links - up if up else 0


@rule(
    title="NVLinks have errors: a bad contact, or a link on its way to failing",
    effect="data is sent again, which costs bandwidth, until the link goes down under a job",
    fix="see whether the counts grow under load; reset the GPUs, reseat bridge or board, then "
    "have it replaced",
    confirm="nvidia-smi nvlink -e; sudo dmesg | grep -E 'Xid.*: 74|SXid'",
    source="NVML API Reference Guide, nvmlDeviceGetNvLinkErrorCounter; NVIDIA DCGM "
    "documentation, NVLink error limits",
)
def nvlink_failing(host: HostFindings) -> Sign | None:
    """A link that could not be trained again leaves no doubt, and explains one that is down."""
    errors, logged = host.bad("nvlink_errors"), host.logged(NVLINK_FAULTS)
    untrained = [f for f in errors if f.metric == "nvlink_recovery_failed_errors"]
    gpus = {finding.subject for finding in untrained}
    pairs = host.bad("topology", "nvlinks", "nvlinks_unanswered")
    down = (
        *host.bad_on(gpus, "nvlink_state"),
        *(finding for finding in pairs if gpus & set(finding.subject.split("-"))),
    )
    legs, ways = _slowed(host) if down else ((), ())
    return sign("certain" if untrained else "likely", (*errors, *logged, *down, *legs), ways)


@rule(
    title="Some GPUs have no NVLink bridge while others of their model have one",
    effect="collectives over these GPUs go over PCIe, so a job is as slow as they are",
    fix="fit the missing bridge, or keep jobs that need NVLink on the bridged pairs",
    confirm="nvidia-smi topo -m; nvidia-smi nvlink --status",
    source="derived from NVML API Reference Guide, nvmlDeviceGetNvLinkState: boards of one model "
    "in one node, some bridged",
)
def bridge_missing(host: HostFindings) -> Sign | None:
    """It may be as it was built, so it is not certain."""
    return sign("likely", host.bad("nvlink_state", "nvlink_unbridged"))


def _outside(host: HostFindings) -> tuple[Finding, ...]:
    """Return the findings of GPUs that have not joined the fabric."""
    return host.bad("nvswitch_fabric", "fabric_state", "fabric_status")


def _follow(host: HostFindings, gpus: set[str]) -> Iterator[Finding]:
    """Yield what is down, slow or cannot be measured because these GPUs are outside the fabric."""
    yield from host.bad_on(gpus, "nvlink_state", "nvlink_errors")
    yield from (f for f in host.unmeasured() if f.check in ("nvlink_state", "nvlink_errors"))
    pairs = (
        *host.bad("topology", "nvlinks", "nvlinks_unanswered"),
        *host.bad("p2p_status", "nvlink_read", "nvlink_write"),
        *host.bad("gpu_pairs"),
    )
    yield from (finding for finding in pairs if gpus & set(finding.subject.split("-")))
    yield from host.failed_legs((*WITH_P2P, "p2p_off", "net"))  # CUDA may not start at all
    yield from host.slow_legs()


@rule(
    title="The fabric manager does not run",
    effect="NVSwitches are not set up and their errors not handled: CUDA does not start on these "
    "GPUs, or collectives go over PCIe at a tenth of the bandwidth",
    fix="install the fabric manager in the driver's version and start it; where it ends again, "
    "read its log",
    confirm="systemctl status nvidia-fabricmanager; journalctl -u nvidia-fabricmanager -n 50; "
    "nvidia-smi -q | grep -A12 Fabric",
    source="NVIDIA Fabric Manager User Guide, Fabric Manager Startup; pytorch/pytorch issue 177472 "
    "(multicast binding fails)",
    role="nvidia_fabricmanager",
)
def fabric_manager_down(host: HostFindings) -> Sign | None:
    """Where its service cannot be seen, no GPU in the fabric makes it likely."""
    service, outside = host.bad("nvswitch_fabric", "fabric_manager"), _outside(host)
    if not service and (host.hypervisor or not outside or _is_managed(host)):
        return None
    follow = _follow(host, {finding.subject for finding in outside})
    return sign("certain" if service else "likely", (*service, *outside, *follow))


def _is_managed(host: HostFindings) -> bool:
    """Whether the fabric manager runs: it is seen, or some GPU has joined the fabric."""
    runs = host.value("nvswitch_fabric", "fabric_manager") is True
    return runs or "completed" in host.values("nvswitch_fabric", "fabric_state").values()


@rule(
    title="GPUs have not joined the NVSwitch fabric, although the fabric manager runs",
    effect="CUDA does not start on these GPUs, or they reach the others over PCIe only, so a job "
    "over all of them fails or is slow",
    fix="read the fabric manager's log for the GPU, link or switch that failed; reset the GPUs and "
    "start the fabric manager again, or reboot; where the same GPU stays outside, have it or the "
    "baseboard repaired",
    confirm="nvidia-smi -q | grep -A12 Fabric; journalctl -u nvidia-fabricmanager -n 50; sudo "
    "dmesg | grep -E 'Xid|SXid'",
    source="NVML API Reference Guide, nvmlGpuFabricInfo_v3_t, state and status; NVIDIA Fabric "
    "Manager User Guide, errors while the fabric is set up",
)
def fabric_not_joined(host: HostFindings) -> Sign | None:
    """Links of these GPUs that never came up are a symptom of it."""
    outside = _outside(host)
    if not outside or not _is_managed(host):
        return None
    gpus = {finding.subject for finding in outside}
    return sign("certain", (*outside, *_follow(host, gpus)))


@rule(
    title="The virtual machine was given GPUs without their NVSwitch fabric",
    effect="CUDA does not start on these GPUs, or they reach each other over PCIe only",
    fix="have the fabric manager run where the NVSwitches are (on the hypervisor, shared "
    "NVSwitch model) and the partition of this guest activated",
    confirm="nvidia-smi -q | grep -A12 Fabric; lspci | grep -i nvswitch; systemd-detect-virt",
    source="NVIDIA Fabric Manager User Guide, Shared NVSwitch Virtualization Model; "
    "NVIDIA/nccl-tests issue 260",
)
def vm_without_fabric(host: HostFindings) -> Sign | None:
    """A guest cannot see what the hypervisor did; one with switches of its own manages them."""
    outside = _outside(host)
    managed = _is_managed(host) or bool(host.bad("nvswitch_fabric", "fabric_manager"))
    if not host.hypervisor or not outside or managed:
        return None
    follow = _follow(host, {finding.subject for finding in outside})
    return sign("likely", (*outside, *follow), [f"virtualization: {host.hypervisor}"])


@rule(
    title="The NVSwitch fabric leaves GPUs out, or is configured wrongly for them",
    effect="these GPUs have no NVLink peers, so a job over all of them does not start",
    fix="correct partition, clique or firmware in the fabric's configuration, then reset the "
    "GPUs; read the fabric manager's log",
    confirm="nvidia-smi -q | grep -A16 Fabric; journalctl -u nvidia-fabricmanager -n 50",
    source="NVML API Reference Guide, Fabric definitions, "
    "NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION and ROUTE_UNHEALTHY",
)
def fabric_partition(host: HostFindings) -> Sign | None:
    """NVML names what is wrong."""
    return sign("certain", host.bad("nvswitch_fabric", "fabric_unhealthy"))


@rule(
    title="The NVSwitch fabric runs on fewer links than it has",
    effect="collectives over these GPUs reach less than the links promise, and one failure more "
    "may stop them",
    fix="find the link or switch that failed in the fabric manager's log, plan its repair, "
    "and keep the largest jobs elsewhere",
    confirm="nvidia-smi -q | grep -A16 Fabric; journalctl -u nvidia-fabricmanager -n 50",
    source="NVML API Reference Guide, Fabric definitions, "
    "NVML_GPU_FABRIC_HEALTH_MASK_DEGRADED_BW and _RECOVERY",
)
def fabric_degraded(host: HostFindings) -> Sign | None:
    """NVML says so itself."""
    return sign("certain", host.bad("nvswitch_fabric", "fabric_degraded"))


def _share(finding: Finding) -> float:
    """Return a leg's share of the bandwidth that is expected of it; 1 where nothing is."""
    if not isinstance(finding.value, int | float) or not finding.warn_at:
        return 1.0
    return float(finding.value) * PASS_FROM / finding.warn_at


@rule(
    title="NVLink SHARP (NVLS) is not in use although the switches have it",
    effect="all_reduce runs as a ring, at about three quarters of what the node can do",
    fix="look for NCCL_NVLS_ENABLE=0 or NCCL_ALGO in force, and for 'Failed to bind NVLink "
    "SHARP' in NCCL's log: then restart or repair the fabric manager",
    confirm="env | grep -E 'NCCL_(NVLS|ALGO)'; systemctl status nvidia-fabricmanager; "
    "NCCL_DEBUG=INFO with any job",
    source="NVIDIA/nccl src/graph/tuning.cc; pytorch/pytorch issue 177472; 8 H200 reach 482 GB/s "
    "with it and 368 without (ml-engineering)",
)
def nvls_unused(host: HostFindings) -> Sign | None:
    """NCCL says in its log whether it made the channels; a greater loss has another cause."""
    slow = [f for f in host.slow_legs() if f.basis == SHARP and _share(f) >= RING_SHARE]
    unbound = [text[:160] for text in host.log_lines("Failed to bind NVLink SHARP")][:1]
    if unbound:
        return sign("certain", slow, unbound)
    without = {f"leg {leg.leg}" for leg in host.legs if leg.transport.get("nvls") is False}
    rings = [finding for finding in slow if finding.subject in without]
    return sign("likely", rings, ["NCCL made no NVLS channel"])


@rule(
    title="Hosts or GPUs that should be one NVLink domain are in several, or in none",
    effect="between them there is no NVLink: collectives over several trays go over the network, "
    "at a fraction of the bandwidth",
    fix="compare ClusterUUID and CliqueId of all trays; look at the partitions of the rack's "
    "fabric manager and at IMEX; where hosts are of several racks, say so with "
    "hwcheck_nvlink_domain",
    confirm="nvidia-smi -q | grep -A8 Fabric; nvidia-imex-ctl -N",
    source="NVML API Reference Guide, nvmlGpuFabricInfo_v3_t (clusterUuid, cliqueId)",
)
def nvlink_domain_split(host: HostFindings) -> Sign | None:
    """Partitions may also be meant."""
    metrics = ("clusters", "has_cluster", "clique_id", "cluster_of_domain")
    return sign("likely", host.bad("nvswitch_fabric", *metrics))


@rule(
    title="IMEX is not set up: hosts of one NVLink domain do not reach each other's memory",
    effect="collectives over several trays fail to start, or go over the network at a fraction of "
    "the bandwidth",
    fix="write the addresses of all trays into nodes_config.cfg, alike on all; load the driver "
    "with NVreg_CreateImexChannel0=1; start nvidia-imex on each; where the scheduler starts it for "
    "each job, declare hwcheck_imex: per_job",
    confirm="systemctl status nvidia-imex; ls -l /dev/nvidia-caps-imex-channels; cat "
    "/etc/nvidia-imex/nodes_config.cfg; nvidia-imex-ctl -N",
    source="NVIDIA IMEX Service for NVLink Networks, Deployment Models and IMEX Channels; NCCL "
    "user guide, Troubleshooting, Multi-node NVLink issues",
    role="nvidia_imex",
)
def imex_down(host: HostFindings) -> Sign | None:
    """Undeclared, a scheduler may start it for each job, so it is not certain."""
    metrics = ("imex_service", "imex_channels", "imex_nodes_file")
    return sign("likely", host.bad("imex", *metrics))
