"""RDMA ports, and NCCL that does not use them."""

from __future__ import annotations

from hwcheck.advise.rule import HostFindings, Sign, rule, sign
from hwcheck.contract.reasons import IDLE_CARDS
from hwcheck.contract.wire import Leg
from hwcheck.fold import fold
from hwcheck.judge.interconnect import NEAR
from hwcheck.judge.network import named_ports
from hwcheck.judge.records import Finding
from hwcheck.results.site_limits import ABSENT

SOCKET = "NET/Socket"
"""NCCL's name of its transport over sockets."""

NAMES_GPU = "the GPU at "
"""Words of infiniband_ports about a port without a link."""

"""Words of infiniband_ports about a node without RDMA devices whose bus has cards."""


@rule(
    title="A port is cabled to another port than the plan of the fabric has",
    effect="a GPU talks on the rail of another: every collective over hosts crosses switches that "
    "it was not meant to cross",
    fix="move the cable to the port of the plan, or correct hwcheck_parts",
    confirm="sudo smpquery nodedesc -D 0,1; lldpctl",
    source="the inventory's hwcheck_parts; IEEE 802.1AB; InfiniBand Architecture Specification, "
    "NodeInfo",
)
def cabled_elsewhere(host: HostFindings) -> Sign | None:
    """The far end names itself."""
    return sign("certain", host.bad("cabling", "as_ordered", "ports_at_this_end"))


@rule(
    title="RDMA ports are not active or not there: no subnet manager, a cable, or a function "
    "not given",
    effect="NCCL silently leaves the port out, so nodes reach each other with less bandwidth, or "
    "hangs",
    fix="where a port is DOWN or Polling reseat or replace its cable and module; where it stays in "
    "INIT start the subnet manager; have a missing function given to the guest",
    confirm="ibstat; rdma link; lspci | grep -iE 'infiniband|ethernet.*mellanox'",
    source="Linux kernel, Documentation/ABI/stable/sysfs-class-infiniband, state; InfiniBand "
    "Architecture Specification, port states",
)
def rdma_port_down(host: HostFindings) -> Sign | None:
    """Which of the three it is, the state of the port says, and the log how long it has lasted."""
    metrics = ["linked_state", "port_lanes", "port_rate_share", "port_rate_gbps"]
    idle = host.bad("infiniband_ports", "card_use")
    if not idle:  # whose ports are missing with them
        metrics.append("active_ports")
    ports = host.bad("infiniband_ports", *metrics)
    without_link = host.bad("infiniband_ports", "port_link")
    down = {finding.subject: finding.value for finding in without_link}
    if any(finding.metric == "active_ports" for finding in ports):  # a count alone names none
        down.update(host.values("infiniband_ports", "port_state"))
    for finding in without_link:
        if NAMES_GPU in str(finding.value):  # the finding says it all
            del down[finding.subject]
    outages = host.bad_on({finding.subject for finding in without_link}, "port_flaps")
    absent = () if idle else _missing_ports(host)
    observations = [_without_link(host, port, state) for port, state in down.items()]
    return sign("likely", (*ports, *without_link, *outages, *absent), observations)


@rule(
    title="RDMA cards are on the bus, and their driver has made no RDMA device of them",
    effect="NCCL leaves the card out; without any it reaches other nodes over sockets, if at all",
    fix="where no card works load their driver (modprobe mlx5_ib); after a change of the kernel "
    "install it again for this kernel. Where one does not, look in the log at why its driver gave "
    "up, bind it again (echo ADDRESS > /sys/bus/pci/drivers/mlx5_core/bind) or power the node off "
    "and on, then bring its firmware to that of the others or have it replaced",
    confirm="lspci -k | grep -iA3 -E 'infiniband|mellanox'; lsmod | grep -E 'mlx5_(core|ib)'; sudo "
    "dmesg | grep -i mlx5",
    source="Linux kernel, Documentation/ABI/stable/sysfs-class-infiniband: a device is there when "
    "its driver is; PCI Code and ID Assignment Specification, class 02h",
)
def rdma_driver_missing(host: HostFindings) -> Sign | None:
    """The bus shows the cards, and no device of the class infiniband is there, or one too few."""
    some = host.bad("infiniband_ports", "card_use")
    if some:
        follows = (*host.bad("infiniband_ports", "active_ports"), *_missing_ports(host))
        return sign("certain", some, follows=follows)
    idle = _idle_cards(host)
    return sign("certain", _without_rdma(host), [f"infiniband_ports: {idle}"]) if idle else None


@rule(
    title="The RDMA cards that like hosts have are not there: their driver is not loaded, or they "
    "are gone from the bus",
    effect="NCCL reaches other nodes over sockets, if at all",
    fix="where lspci shows the cards load their driver (mlx5_ib; after a change of the kernel "
    "install the vendor's again); where it does not, power the node off and on and reseat them; "
    "have their functions given to a guest",
    confirm="lspci | grep -iE 'infiniband|mellanox'; lsmod | grep -E 'mlx5_(core|ib)'; sudo dmesg "
    "| grep -i mlx5",
    source="Linux kernel, Documentation/ABI/stable/sysfs-class-infiniband: a device is there when "
    "its driver is; the majority of like hosts",
)
def rdma_cards_missing(host: HostFindings) -> Sign | None:
    """No device of the class infiniband, and no card on the bus that one knows for one."""
    return None if _idle_cards(host) else sign("likely", _without_rdma(host))


@rule(
    title="The link of an RDMA port goes down and comes back, or makes errors",
    effect="a job ends when a port is down for longer than its retries take, and loses bandwidth "
    "to packets that are sent again",
    fix="where all ports went down at once look at their switch; else clean and reseat cable and "
    "module, swap them with those of another port and see what the fault follows; reset the "
    "counters then (perfquery -R), so that a full one counts again",
    confirm="sudo dmesg --ctime | grep -iE 'link (is )?(up|down|active)'; mlxlink -d mlx5_0 -c -m; "
    "grep . /sys/class/infiniband/*/ports/*/counters/link_downed",
    source="InfiniBand Architecture Specification, volume 1, PortCounters; NVIDIA Health "
    "Validation, rdma_linkflap_fatal; NVIDIA NVSentinel, NIC health monitor",
)
def rdma_link_unstable(host: HostFindings) -> Sign | None:
    """What the log and the counters say of a link; one that is down now is down."""
    counters = [
        metric
        for name in ("symbol_errors", "link_error_recovery", "link_downed", "port_rcv_errors")
        for metric in (f"{name}_per_hour", f"{name}_full")
    ]
    counters += [
        "link_downed_over_alike",
        "local_link_integrity_errors",
        "excessive_buffer_overrun_errors",
    ]
    down = {finding.subject for finding in host.bad("infiniband_ports", "port_link")}
    outages = [f for f in host.bad("port_flaps", "longest_outage_s") if f.subject not in down]
    flaps = (*host.bad("port_flaps", "link_downs"), *outages)
    errors = host.bad_collectives("network_errors")
    return sign("likely", (*flaps, *host.bad("infiniband_ports", *counters), *errors))


@rule(
    title="An InfiniBand port is not in the partition of its neighbors",
    effect="the port is active and reaches nobody: NCCL hangs as it starts, or ends with a timeout "
    "of that port",
    fix="add the port's GUID to the partition as a full member, in the subnet manager "
    "(partitions.conf, UFM), or have the cloud do it",
    confirm="grep -H . /sys/class/infiniband/*/ports/*/pkeys/* | grep -v 0x0000",
    source="InfiniBand Architecture Specification, volume 1, Partitioning; Linux kernel, "
    "Documentation/ABI/stable/sysfs-class-infiniband, pkeys",
)
def rdma_partition_differs(host: HostFindings) -> Sign | None:
    """The tables of the ports are compared with each other."""
    return sign("likely", host.bad("partition_keys"))


def _without_rdma(host: HostFindings) -> tuple[Finding, ...]:
    """Return that a host has no RDMA device, and what else it lacks for it."""
    if host.values("infiniband_ports", "active_ports"):
        return ()
    checks = ("infiniband_ports", "memlock", "peermem", "roce_gids")
    absent = (finding for check in checks for finding in host.bad(check, ABSENT))
    return (*absent, *host.bad("infiniband_ports", "active_ports"))


def _missing_ports(host: HostFindings) -> tuple[Finding, ...]:
    """Return the ports that like hosts have and this one lacks."""
    return tuple(f for f in host.bad("infiniband_ports", ABSENT) if f.subject != "node")


def _idle_cards(host: HostFindings) -> str:
    """Return what infiniband_ports says of cards on the bus without RDMA; empty: of none."""
    for answer in host.record.report.results if host.record.report else ():
        if answer.check == "infiniband_ports" and answer.reason.code == IDLE_CARDS:
            return answer.reason.text
    return ""


def _without_link(host: HostFindings, subject: str, state: object) -> str:
    """Return a port without a link in words, with the GPUs that it is nearest to."""
    device = subject.removeprefix("port ").partition("/")[0]
    ways = host.values("topology", "nic_path").items()
    near = [
        pair.partition("-")[0] for pair, way in ways if pair.endswith(f"-{device}") and way in NEAR
    ]
    return f"infiniband_ports: {subject} {state}" + (f", near {fold(near)}" if near else "")


@rule(
    title="A RoCE port has no address that NCCL takes and that can be routed",
    effect="NCCL takes a link-local address or RoCE v1 there: it works between two ports "
    "of a switch and hangs or fails beyond",
    fix="give the network interface of the port its IP address, and see that RoCE v2 is on; on a "
    "fabric of IPv6 set NCCL_IB_ADDR_FAMILY=AF_INET6",
    confirm="show_gids; rdma link; ip -br address",
    source="NCCL User Guide, NCCL_IB_GID_INDEX, NCCL_IB_ROCE_VERSION_NUM and NCCL_IB_ADDR_FAMILY",
)
def roce_without_address(host: HostFindings) -> Sign | None:
    """The reading says it itself."""
    return sign("certain", host.bad("roce_gids", "routable_gids"))


@rule(
    title="The login may lock too little memory for RDMA",
    effect="NCCL's InfiniBand transport ends with 'Cannot allocate memory', or falls back to "
    "sockets",
    fix="set '* soft memlock unlimited' and '* hard memlock unlimited' in "
    "/etc/security/limits.d, LimitMEMLOCK=infinity for services, --ulimit memlock=-1 for "
    "containers",
    confirm="ulimit -l; systemctl show --property=DefaultLimitMEMLOCK",
    source="NCCL User Guide, Troubleshooting, Networking issues; rdma-core, libibverbs, locked "
    "memory",
    role="rdma",
)
def memlock_limited(host: HostFindings) -> Sign | None:
    """The limit is there or it is not."""
    return sign("certain", host.bad("memlock", "memlock_unlimited"), [host.container])


@rule(
    title="GPUDirect RDMA is not possible: neither dma-buf nor nvidia-peermem",
    effect="data to other nodes is copied through host memory first, at about half the bandwidth",
    fix="install the open kernel modules of the driver, which bring dma-buf on Linux 5.12 or "
    "newer; on an older kernel, or with GPUs before Turing, load nvidia-peermem at boot (a file in "
    "/etc/modules-load.d)",
    confirm="modinfo -F license nvidia; uname -r; lsmod | grep nvidia_peermem",
    source="NVIDIA GPUDirect RDMA documentation; NCCL User Guide, Troubleshooting, GPU Direct RDMA",
    role="rdma",
)
def no_gpudirect(host: HostFindings) -> Sign | None:
    """The driver, the kernel and the module say it together."""
    return sign("certain", host.bad("peermem", "gpudirect_rdma"))


@rule(
    title="NCCL does not use GPUDirect RDMA, although the driver offers it",
    effect="data to other nodes is copied through host memory first, at about half the bandwidth",
    fix="take NCCL_NET_GDR_LEVEL, NCCL_NET_GDR_READ=0 and NCCL_DMABUF_ENABLE=0 out of force; see "
    "that the job's container has the host's libibverbs, and that access control on PCIe switches "
    "and the IOMMU leave the way between card and GPU alone",
    confirm="env | grep -E 'NCCL_(NET_GDR|DMABUF)'; NCCL_DEBUG=INFO with any job over several "
    "nodes shows GDRDMA; NCCL_DEBUG_SUBSYS=NET shows why not",
    source="NCCL User Guide, NCCL_NET_GDR_LEVEL and Troubleshooting, GPU Direct RDMA",
)
def gpudirect_unused(host: HostFindings) -> Sign | None:
    """NCCL names it at each connection that uses it."""
    unused = host.bad_collectives("gpudirect_used")
    legs = {finding.subject for finding in unused}
    ways = (f for f in host.bad_collectives("leg_way") if f.subject in legs)
    return sign("likely", unused, follows=ways)


@rule(
    title="GPUDirect RDMA hangs on nvidia-peermem alone, where dma-buf could be",
    effect="nothing today; the interface that the module stands on is deprecated since CUDA 13.0, "
    "and the module has to be built and loaded for each kernel and network driver",
    fix="install the open kernel modules of the driver (nvidia_driver_kernel_modules: open); NCCL "
    "takes dma-buf by itself then",
    confirm="modinfo -F license nvidia; uname -r; NCCL_DEBUG=INFO with any job over several nodes "
    "shows DMA-BUF is available",
    source="GPUDirect RDMA guide, Changes in CUDA 13.0, Deprecation Notice: NV-P2P API Support; "
    "NVIDIA GPU Operator documentation, GPUDirect RDMA (dma-buf is recommended)",
    role="nvidia_driver",
)
def peermem_alone(host: HostFindings) -> Sign | None:
    """The driver, the kernel and the module say it together."""
    return sign("certain", host.bad("peermem", "peermem_alone"))


@rule(
    title="The driver keeps EFA cards from the memory of GPUs on Grace boards",
    effect="jobs over several hosts silently go over sockets, at a fraction of the bandwidth",
    fix="set NVreg_GrdmaPciTopoCheckOverride=1 (nvidia_driver_module_options) with driver "
    "580.126.20 or a later one of its branch, and reboot; from R595 on there is no such option",
    confirm="grep GrdmaPciTopoCheckOverride /proc/driver/nvidia/params; NCCL_DEBUG=INFO with any "
    "job over several nodes shows GDRDMA",
    source="NVIDIA/aicr PR 640 and 2607 (GB200 with EFA); Azure/azhpc-images PR 589",
    role="nvidia_driver",
)
def efa_topology_check(host: HostFindings) -> Sign | None:
    """The parameter is set or it is not."""
    return sign("certain", host.bad("peermem", "topology_check_off"))


@rule(
    title="A virtual machine on Grace lacks ATS on its cards or command queues of its SMMU",
    effect="GPUDirect RDMA stays below its bandwidth, since each translation and each invalidation "
    "goes by way of the hypervisor",
    fix="on the host: mlxconfig -d DEVICE set ATS_ENABLED=true and a cold start; give the guest an "
    "SMMU with CMDQV (and memory in huge pages, which it needs)",
    confirm="sudo lspci -d 15b3: -vvv | grep ATSCtl; ls -d /sys/bus/acpi/devices/NVDA200C*",
    source="NVIDIA AI Enterprise, Optimizing VM Configuration for AI Inference, appendix; Linux, "
    "commit 918eb5c856f6 (Tegra241 CMDQV); NVIDIA/NV-Kernels PR 32",
)
def grace_guest_incomplete(host: HostFindings) -> Sign | None:
    """What the guest was given was read."""
    return sign("certain", host.bad("grace_guest", "card_ats", "command_queues"))


@rule(
    title="NCCL uses fewer network ports than are active",
    effect="jobs over several nodes have the bandwidth of these ports, a fraction of what is there",
    fix="take NCCL_IB_HCA out of force, or name every compute port in it "
    "(NCCL_IB_HCA==mlx5_0:1,mlx5_1:1); see that the job sees the other ports (a container needs "
    "all of /dev/infiniband) and that the other nodes reach them",
    confirm="env | grep NCCL_IB_HCA; grep NCCL_ /etc/nccl.conf; rdma link; ls /dev/infiniband; "
    "NCCL_DEBUG=INFO with any job shows NET/IB : Using",
    source="NVIDIA/nccl issue 700 (one port of four named: 9.84 GB/s), NVIDIA/nccl-tests issue 232",
)
def one_nic_used(host: HostFindings) -> Sign | None:
    """Ports that are there for something else do not count, see the judge."""
    active = host.value("infiniband_ports", "active_ports")
    named = {port for leg in host.legs for port in named_ports(leg)}
    ports = host.bad_collectives("network_ports")
    fewer = isinstance(active, int) and 0 < len(named) < active
    slow = host.slow_legs("net") if fewer else ()
    if not ports and not slow:
        return None
    hca = host.values("nccl_environment", "nccl_setting").get("NCCL_IB_HCA")
    settings = [f for f in host.bad("nccl_environment") if "NCCL_IB" in str(f.value)]
    observations = [f"NCCL used {', '.join(sorted(named))} of {active} active ports"]
    observations += [f"nccl_environment: NCCL_IB_HCA {hca}"] if hca else []
    return sign("likely", (*ports, *slow, *settings), observations, independent=True)


@rule(
    title="NCCL goes over TCP sockets although RDMA ports are active",
    effect="jobs over several nodes run at a twentieth of the bandwidth",
    fix="install what NCCL lacks for RDMA in the job's image (libibverbs, or the vendor's "
    "plugin such as aws-ofi-nccl), give the container /dev/infiniband and memlock, and "
    "take NCCL_IB_DISABLE and NCCL_NET=Socket out of force",
    confirm="ls /dev/infiniband; ldconfig -p | grep -E 'libibverbs|libnccl-net'; env | grep -E "
    "'NCCL_(NET|IB)'",
    source="eth-cscs/cscs-docs, docs/software/communication/nccl.md (122.6 GB/s with the plugin, "
    "5.4 over sockets)",
)
def wrong_network_transport(host: HostFindings) -> Sign | None:
    """NCCL names the way that its data took; that is judged in the leg net."""
    active = host.value("infiniband_ports", "active_ports")
    legs = sorted({leg.leg for leg in host.legs if _only_sockets(leg)})
    if not isinstance(active, int) or active < 1 or not legs:
        return None
    explained = (
        *host.bad_collectives("network_transport"),
        *host.bad("memlock"),
        *host.slow_legs("net"),
        *host.bad("nccl_environment"),
    )
    observations = [f"NCCL used {SOCKET} in the leg {name}" for name in legs]
    observations.append(f"infiniband_ports: {active} active")
    return sign("likely", explained, observations, independent=True)


@rule(
    title="A network plugin of NCCL does not work between GPUs of one node",
    effect="jobs on one node lose nothing, as they take NVLink, PCIe or shared memory; those over "
    "several nodes may fail as the leg did",
    fix="read at what NCCL failed, and bring the plugin (aws-ofi-nccl, NCCL-SHARP of HPC-X, "
    "libnccl-net.so) and this NCCL to versions that belong together; whether it works between "
    "nodes, hwcheck validate --scope pairs shows",
    confirm="ldconfig -p | grep libnccl-net; NCCL_DEBUG=INFO with any job shows NET/Plugin",
    source="NCCL User Guide, NCCL_NET and NCCL_NET_PLUGIN",
)
def network_plugin_fails(host: HostFindings) -> Sign | None:
    """The leg net failed over the network that NCCL chose, and is well over sockets."""
    failures = {leg.collective: leg.first_failure for leg in host.legs if leg.first_failure}
    transports = host.bad_collectives("network_transport")
    explained = [finding for finding in transports if finding.check in failures]
    return sign("likely", explained)


@rule(
    title="The topology file that NCCL_TOPO_FILE names is missing or empty",
    effect="NCCL does not know which network card is near which GPU where the bus does not show "
    "it, as in a virtual machine, and data takes detours",
    fix="put the cloud's or the maker's file there, on the host and in the job's image, or take "
    "NCCL_TOPO_FILE out of force",
    confirm="env | grep NCCL_TOPO_FILE; grep -r NCCL_TOPO_FILE /etc/nccl.conf /etc/environment; "
    "NCCL_DEBUG=INFO with any job shows NCCL_TOPO_FILE set by environment",
    source="NCCL User Guide, NCCL_TOPO_FILE; NCCL, src/graph/xml.cc",
)
def topology_file_missing(host: HostFindings) -> Sign | None:
    """The file is there or it is not."""
    return sign("certain", host.bad("nccl_topology_file"))


def _only_sockets(leg: Leg) -> bool:
    if leg.first_failure:  # sockets were its second try
        return False
    return {kind for kind in leg.transport if kind.startswith("NET/")} == {SOCKET}
