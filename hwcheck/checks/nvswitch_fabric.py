"""Every GPU on an NVSwitch has joined the fabric, and its way through it is healthy."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Metric, Remedy, check
from hwcheck.contract.limits import AtMost, Equal, like_most
from hwcheck.contract.quantities import Fabric
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import mig_is_on, where_supported
from hwcheck.node.node import Gpu, Node
from hwcheck.node.pcie import has_c2c

INFO = "NVML API Reference Guide, nvmlGpuFabricInfo_v3_t: "
HEALTH = "NVML API Reference Guide, Fabric definitions, NVML_GPU_FABRIC_HEALTH_MASK_"


@check(
    metrics=[
        Metric(
            "fabric_manager",
            "",
            "whether the fabric manager of a node with NVSwitches runs",
            (
                Equal(
                    True,
                    source="NVIDIA Fabric Manager User Guide: without it NVSwitches are not set up "
                    "and their errors not handled; after it ended, boards before Hopper start no "
                    "CUDA work",
                    confidence="derived",
                    otherwise="warn",
                ),
            ),
        ),
        Metric(
            "nvswitches",
            "",
            "NVSwitches on the node's bus, or bridges that manage them",
            (
                like_most(
                    "Linux kernel, PCI devices in sysfs: a base board of one kind has as many on "
                    "every host; one that is gone is not set up the next time"
                ),
            ),
        ),
        Metric(
            "nvswitch_answers",
            "",
            "whether the configuration space of the device reads as anything but all ones",
            (
                Equal(
                    True,
                    source="PCI Express Base Specification, 2.3.2: a read that no device completes "
                    "returns all ones; vendor 0xffff is never assigned",
                ),
            ),
        ),
        Metric(
            "fabric_state",
            "",
            "how far the GPU's registration with the fabric has come",
            (
                Equal(
                    "completed",
                    source=INFO + "state; NVIDIA Fabric Manager User Guide: CUDA does not start "
                    "on a GPU whose fabric is not initialized",
                ),
            ),
            required=True,
        ),
        Metric(
            "fabric_status",
            "",
            "error of the registration, once it is completed",
            (Equal("Success", source=INFO + "status, to be read when the state is completed"),),
        ),
        Metric(
            "fabric_unhealthy",
            "",
            "what is wrong with the GPU's way through the fabric",
            (Equal("nothing", source=HEALTH + "ROUTE_UNHEALTHY and INCORRECT_CONFIGURATION"),),
            required=True,
        ),
        Metric(
            "fabric_degraded",
            "",
            "what the fabric does without, or is about to repair",
            (
                Equal(
                    "nothing",
                    source=HEALTH + "DEGRADED_BW, ROUTE_RECOVERY and ACCESS_TIMEOUT_RECOVERY",
                    otherwise="warn",
                ),
            ),
            required=True,
        ),
        Metric("cluster_uuid", "", "fabric over several hosts that the GPU has joined"),
        Metric(
            "has_cluster",
            "",
            "whether a GPU on NVLink-C2C, whose fabric is that of a rack, has joined one",
            (
                Equal(
                    True,
                    source=INFO + "clusterUuid; NVIDIA GB200 NVL Multi-Node Tuning Guide, System "
                    "(ClusterUUID and CliqueId of nvidia-smi -q): all zeros is no domain",
                    confidence="derived",
                    otherwise="warn",
                ),
            ),
        ),
        Metric(
            "clique_id",
            "",
            "part of that fabric within which GPUs reach each other",
            (
                like_most(
                    INFO + "cliqueId: hosts of one cluster and two cliques have no NVLink between "
                    "them",
                    alike="cluster_uuid",
                ),
            ),
        ),
        Metric(
            "cluster_of_domain",
            "",
            "cluster and clique; only where the inventory declares hwcheck_nvlink_domain",
            (
                like_most(
                    INFO + "clusterUuid and cliqueId, and the inventory's hwcheck_nvlink_domain: "
                    "hosts of one domain are in one cluster and clique",
                    alike="declared_domain",
                ),
            ),
        ),
        Metric("declared_domain", "", "the inventory's hwcheck_nvlink_domain"),
        Metric(
            "clusters",
            "",
            "clusters and cliques that the GPUs of this host are in, together",
            (
                AtMost(
                    INFO + "clusterUuid and cliqueId: the GPUs of one tray have one fabric",
                    fail=1,
                    confidence="derived",
                ),
            ),
        ),
    ],
    remedy=Remedy(
        cause="the fabric manager is not running or is of another version than the driver, or a "
        "GPU, NVSwitch or NVLink failed while the fabric was set up",
        fix="install the fabric manager in the driver's version and start it; when it runs, read "
        "its log for the link that failed",
        command="nvidia-smi -q | grep -A12 Fabric; systemctl status nvidia-fabricmanager; "
        "journalctl -u nvidia-fabricmanager -n 50",
        role="nvidia_fabricmanager",
    ),
    optional="NVSwitch",
    group="NVLink, P2P",
    follows=("mig", "virtualization"),
)
def nvswitch_fabric(node: Node) -> Iterator[Sample]:
    """Read whether each GPU has joined its NVSwitch fabric, and how the fabric judges itself.

    A GPU that did not join has no NVLink peers: CUDA does not start, or collectives go over PCIe
    at a tenth of the bandwidth. GPUs before Hopper and boards without NVSwitch do not register;
    with MIG on a GPU makes no use of the fabric. Where the node has NVSwitches on its own bus the
    fabric manager has to run on it, whatever its GPUs say. Where a fabric spans hosts (GB200
    NVL72), those of one cluster must be of one clique, and those that the inventory declares to be
    one domain must be of one cluster too; otherwise their way to each other is the network.
    """
    switches = node.host.nvswitches()
    if switches:
        yield Sample("nvswitches", len(switches))
    for address in switches:
        yield Sample("nvswitch_answers", node.host.pci_answers(address), "", "pci " + address)
    if switches and not node.host.in_container():
        runs = node.host.fabric_manager_runs()
        if runs is not None:
            yield Sample("fabric_manager", runs)
    domain = node.request.expect.get("nvlink_domain", "")
    if domain:
        yield Sample("declared_domain", domain)
    clusters = set()
    missing = "no GPU of this node registers with an NVSwitch"
    for sample in where_supported(node, lambda gpu: _fabric(gpu, node, domain), missing):
        if sample.metric == "cluster_uuid":
            cluster = sample.value
        if sample.metric == "clique_id":
            clusters.add((cluster, sample.value))
        yield sample
    if clusters:
        yield Sample("clusters", len(clusters))


def _fabric(gpu: Gpu, node: Node, domain: str) -> Iterator[Sample]:
    fabric = gpu.fabric()
    if fabric is None or mig_is_on(gpu):
        return
    yield Sample("fabric_state", fabric.state, "", gpu.subject)
    if fabric.state == "completed":
        yield Sample("fabric_status", fabric.status, "", gpu.subject)
    yield Sample("fabric_unhealthy", fabric.unhealthy or "nothing", "", gpu.subject)
    yield Sample("fabric_degraded", fabric.degraded or "nothing", "", gpu.subject)
    if fabric.state == "completed":
        yield from _cluster(gpu, fabric, node, domain)


def _cluster(gpu: Gpu, fabric: Fabric, node: Node, domain: str) -> Iterator[Sample]:
    """Yield which fabric over several hosts the GPU is in; that of one board has no name."""
    if fabric.cluster_uuid:
        yield Sample("cluster_uuid", fabric.cluster_uuid, "", gpu.subject)
        yield Sample("clique_id", str(fabric.clique_id), "", gpu.subject)
    if has_c2c(gpu, node.host):
        yield Sample("has_cluster", bool(fabric.cluster_uuid), "", gpu.subject)
    if domain:
        cluster = "%s clique %s" % (fabric.cluster_uuid or "none", fabric.clique_id)
        yield Sample("cluster_of_domain", cluster, "", gpu.subject)
