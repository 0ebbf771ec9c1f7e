"""IMEX runs where the GPUs' NVLink fabric spans hosts, and lists this one."""

from __future__ import annotations

from typing import Iterator, Optional

from hwcheck.contract.check import CouldNotMeasure, Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import AtLeast, Equal
from hwcheck.contract.reasons import NO_PERMISSION
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import Survey, mig_is_on
from hwcheck.node.host.imex import IN_LIST
from hwcheck.node.node import Gpu, Node

GUIDE = "NVIDIA IMEX Service for NVLink Networks, "
PER_JOB = "per_job"
NO_CLUSTER = "the GPUs' fabric does not span hosts (no cluster UUID)"


@check(
    metrics=[
        Metric(
            "imex_service",
            "",
            "whether nvidia-imex runs",
            (
                Equal(
                    True,
                    source=GUIDE + "Deployment Models: it has to be up before CUDA applications "
                    "start that share memory over hosts; NCCL user guide, Troubleshooting, "
                    "Multi-node NVLink issues",
                    otherwise="warn",
                ),
            ),
            required=True,
        ),
        Metric(
            "imex_channels",
            "",
            "devices in /dev/nvidia-caps-imex-channels",
            (
                AtLeast(
                    GUIDE + "IMEX Channels: they are not made by default, and are gone after a "
                    "reboot; CUDA calls that need one fail without (insufficient permission)",
                    warn=1,
                ),
            ),
            required=True,
        ),
        Metric(
            "imex_nodes_file",
            "",
            "what the list of nodes that IMEX is given is to this host",
            (
                Equal(
                    IN_LIST,
                    source=GUIDE + "IMEX Service Config Options, IMEX_NODE_CONFIG_FILE and "
                    "BIND_INTERFACE_IP: it holds the addresses of all nodes of the domain, and "
                    "the service looks for this host's among them",
                    otherwise="warn",
                ),
            ),
        ),
    ],
    remedy=Remedy(
        cause="the service is not installed or not started, its list of nodes is not filled in, "
        "or no channel was made after the last boot",
        fix="write the addresses of all trays of the domain into nodes_config.cfg, alike on all; "
        "load the driver with NVreg_CreateImexChannel0=1; start nvidia-imex; where the scheduler "
        "starts it for each job, declare hwcheck_imex: per_job",
        command="systemctl status nvidia-imex; ls -l /dev/nvidia-caps-imex-channels; "
        "cat /etc/nvidia-imex/nodes_config.cfg; nvidia-imex-ctl -N",
        role="nvidia_imex",
    ),
    optional="an NVLink fabric over several hosts",
    group="NVLink, P2P",
)
def imex(node: Node) -> Iterator[Sample]:
    """Read whether IMEX runs, has a channel, and lists this host.

    Between the trays of a GB200 or GB300 rack CUDA maps memory over NVLink only where IMEX runs on
    every tray. Without it NCCL ends with an error, or takes the network at a fraction of the
    bandwidth. Whether all trays are connected only the service knows (nvidia-imex-ctl -N); nobody
    asks it here. Not applicable where hwcheck_imex says that each job starts its own.
    """
    if node.request.expect.get("imex") == PER_JOB:
        raise NotApplicable("hwcheck_imex: each job starts IMEX for itself")
    if node.host.in_container():
        raise NotApplicable("a container is not shown the IMEX service of its host")
    clusters = Survey(node, _cluster)
    if not clusters.answers:
        clusters.conclude(NO_CLUSTER)
    state = node.host.imex()
    yield Sample("imex_channels", state.channels)
    if state.nodes_file:
        yield Sample("imex_nodes_file", state.nodes_file)
    if state.runs is None:
        raise CouldNotMeasure(
            "/proc hides the processes of others (hidepid), so nobody sees whether nvidia-imex "
            "runs; run as root",
            NO_PERMISSION,
        )
    yield Sample("imex_service", state.runs)


def _cluster(gpu: Gpu) -> Optional[str]:
    fabric = gpu.fabric()
    if fabric is None or fabric.state != "completed" or mig_is_on(gpu):
        return None
    return fabric.cluster_uuid or None
