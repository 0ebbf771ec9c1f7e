"""NCCL uses one network card of several."""

from __future__ import annotations

import re

from hwcheck.diagnosis.case import Case, sign
from hwcheck.diagnosis.records import Sign
from hwcheck.diagnosis.rule import rule

PORT = re.compile(r"[A-Za-z0-9_]+:\d+(?=/)")
"""A port in what NCCL says of its network: ``IB mlx5_0:1/RoCE``."""


@rule(
    title="NCCL uses fewer network ports than are active",
    follows="jobs over several nodes have the bandwidth of that port, a fraction of what is there",
    fix="take NCCL_IB_HCA out of force, or name every compute port in it "
    "(NCCL_IB_HCA==mlx5_0:1,mlx5_1:1); see that the job sees the other ports and that the "
    "other nodes reach them",
    confirm="env | grep NCCL_IB_HCA; rdma link; NCCL_DEBUG=INFO with any job shows NET/IB : Using",
    source="NVIDIA/nccl issue 700 (one port of four named: 9.84 GB/s), NVIDIA/nccl-tests issue 232",
)
def one_nic_used(case: Case) -> Sign | None:
    """Look for it. A complaint has to go with it: one port may be all that a node needs."""
    ports = case.value("infiniband_ports", "active_ports")
    said = [str(leg.transport.get("network", "")) for leg in case.legs]
    named = {port for text in said for port in PORT.findall(text)}
    if not isinstance(ports, int) or not 0 < len(named) < ports:
        return None
    hca = case.values("nccl_environment", "nccl_setting").get("NCCL_IB_HCA")
    settings = [f for f in case.bad("nccl_environment") if "NCCL_IB" in str(f.value)]
    also = [f"NCCL used {', '.join(sorted(named))} of {ports} active ports"]
    also += [f"nccl_environment: NCCL_IB_HCA {hca}"] if hca else []
    return sign("likely", (*case.slow(("net",)), *settings), also, stands=True)
