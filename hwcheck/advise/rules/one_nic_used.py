"""NCCL uses some of the network ports only."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule
from hwcheck.judge.network import named_ports


@rule(
    title="NCCL uses fewer network ports than are active",
    follows="jobs over several nodes have the bandwidth of these ports, a fraction of what is "
    "there",
    fix="take NCCL_IB_HCA out of force, or name every compute port in it "
    "(NCCL_IB_HCA==mlx5_0:1,mlx5_1:1); see that the job sees the other ports (a container needs "
    "all of /dev/infiniband) and that the other nodes reach them",
    confirm="env | grep NCCL_IB_HCA; grep NCCL_ /etc/nccl.conf; rdma link; ls /dev/infiniband; "
    "NCCL_DEBUG=INFO with any job shows NET/IB : Using",
    source="NVIDIA/nccl issue 700 (one port of four named: 9.84 GB/s), NVIDIA/nccl-tests issue 232",
)
def one_nic_used(case: Case) -> Sign | None:
    """Look for it. Ports that are there for something else do not count, see the judge."""
    ports = case.value("infiniband_ports", "active_ports")
    named = {port for leg in case.legs for port in named_ports(leg)}
    own = case.of_legs("network_ports")
    fewer = isinstance(ports, int) and 0 < len(named) < ports
    slow = case.slow(("net",)) if fewer else ()
    if not own and not slow:
        return None
    hca = case.values("nccl_environment", "nccl_setting").get("NCCL_IB_HCA")
    settings = [f for f in case.bad("nccl_environment") if "NCCL_IB" in str(f.value)]
    also = [f"NCCL used {', '.join(sorted(named))} of {ports} active ports"]
    also += [f"nccl_environment: NCCL_IB_HCA {hca}"] if hca else []
    return sign("likely", (*own, *slow, *settings), also, stands=True)
