"""RDMA ports are not active."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="RDMA ports are not active or not there: no subnet manager, a cable, or a function "
    "not given",
    follows="NCCL silently leaves the port out, so nodes reach each other with less bandwidth, or "
    "hangs",
    fix="start the subnet manager where ports stay in INIT; reseat or replace cable and "
    "module; have the missing function given to the guest",
    confirm="ibstat; rdma link; lspci | grep -iE 'infiniband|ethernet.*mellanox'",
    source="Linux kernel, Documentation/ABI/stable/sysfs-class-infiniband, state; InfiniBand "
    "Architecture Specification, port states",
)
def rdma_port_down(case: Case) -> Sign | None:
    """Look for it. Which of the three it is, the state of the port says."""
    metrics = ("active_ports", "linked_state", "port_lanes", "port_rate_share", "port_rate_gbps")
    return sign("likely", case.bad("infiniband_ports", *metrics))
