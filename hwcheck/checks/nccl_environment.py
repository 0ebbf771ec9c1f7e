"""No NCCL setting is left over from an experiment."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Metric, Remedy, check
from hwcheck.contract.limits import Equal
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

GUIDE = "NCCL User Guide, Environment Variables, section Debugging"

NAMES = """
P2P_DISABLE P2P_LEVEL P2P_DIRECT_DISABLE SHM_DISABLE BUFFSIZE NTHREADS MAX_NCHANNELS
MIN_NCHANNELS MAX_NRINGS MIN_NRINGS CHECKS_DISABLE CHECK_POINTERS CHECK_MODE LAUNCH_MODE
IB_DISABLE IB_AR_THRESHOLD IB_OOO_RQ IB_QPS_PER_CONNECTION IB_SPLIT_DATA_ON_QPS
IB_CUDA_SUPPORT IB_PCI_RELAXED_ORDERING IB_ADAPTIVE_ROUTING IB_ECE_ENABLE MEM_SYNC_DOMAIN
CUMEM_ENABLE CUMEM_HOST_ENABLE NET_GDR_LEVEL IB_GDR_LEVEL NET_GDR_C2C NET_GDR_READ
GDRCOPY_ENABLE GDRCOPY_FIFO_ENABLE GDRCOPY_SYNC_ENABLE GDRCOPY_FLUSH_ENABLE
NET_SHARED_BUFFERS NET_SHARED_COMMS IGNORE_NET_MISMATCH IGNORE_COLLNET_MISMATCH
SINGLE_RING_THRESHOLD LL_THRESHOLD TREE_THRESHOLD ALGO PROTO NVB_DISABLE PXN_DISABLE
P2P_PXN_LEVEL PXN_C2C RUNTIME_CONNECT GRAPH_REGISTER LOCAL_REGISTER LEGACY_CUDA_REGISTER
WIN_ENABLE SET_STACK_SIZE GRAPH_MIXING_SUPPORT GRAPH_STREAM_ORDERING RMA_EAGER_INIT
DMABUF_ENABLE P2P_NET_CHUNKSIZE P2P_LL_THRESHOLD ALLOC_P2P_NET_LL_BUFFERS COMM_BLOCKING
CGA_CLUSTER_SIZE MAX_CTAS MIN_CTAS NVLS_ENABLE IB_MERGE_NICS NET_MERGE_POLICY MNNVL_ENABLE
MNNVL_UUID MNNVL_CLIQUE_ID RAS_ENABLE RAS_ADDR RAS_TIMEOUT_FACTOR LAUNCH_ORDER_IMPLICIT
LAUNCH_RACE_FATAL IPC_USE_ABSTRACT_SOCKET SYM_GIN_KERNELS_ENABLE
"""
DEBUGGING = frozenset("NCCL_" + name for name in NAMES.split())
"""Every variable of that section (NCCL 2.32)."""

TEXT_LIMIT = 200


@check(
    metrics=[
        Metric("nccl_setting", "", "value of this variable and where it comes from"),
        Metric(
            "debugging_settings",
            "",
            "variables in force that are meant for debugging, with their origin",
            (
                Equal(
                    "none",
                    source=GUIDE + ": they keep NCCL from choosing the best setting and should "
                    "generally not be set for production",
                    otherwise="warn",
                ),
            ),
            required=True,
        ),
    ],
    remedy=Remedy(
        cause="a setting of an experiment, a workaround or an image that outlived its reason",
        fix="remove it where it comes from and measure again; keep it only with a measurement of "
        "this NCCL version that proves it",
        command="env | grep ^NCCL_; grep -H NCCL_ /etc/nccl.conf ~/.nccl.conf /etc/environment "
        "/etc/profile.d/*.sh",
    ),
    group="collectives",
)
def nccl_environment(node: Node) -> Iterator[Sample]:
    """List every NCCL_* variable that a job of this login would find, with its origin.

    A forgotten NCCL_P2P_LEVEL or NCCL_P2P_DISABLE costs up to 40 times the bandwidth, and nothing
    says so. Sources, the first wins: the process environment, /etc/profile.d, /etc/environment,
    the file that NCCL_CONF_FILE names or else ~/.nccl.conf, /etc/nccl.conf. What a job script or a
    container image sets is not seen here. Only NCCL_* variables leave the node.
    """
    debugging = []
    for setting in node.host.nccl_settings():
        text = "%s (%s)" % (setting.value, setting.origin)
        yield Sample("nccl_setting", text[:TEXT_LIMIT], "", setting.name)
        if setting.name in DEBUGGING:
            debugging.append("%s=%s" % (setting.name, text))
    yield Sample("debugging_settings", "; ".join(debugging)[: 2 * TEXT_LIMIT] or "none")
