"""NCCL uses sockets although RDMA ports are up."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule
from hwcheck.node.wire import Leg

SOCKET = "NET/Socket"


@rule(
    title="NCCL goes over TCP sockets although RDMA ports are active",
    follows="jobs over several nodes run at a twentieth of the bandwidth",
    fix="install what NCCL lacks for RDMA in the job's image (libibverbs, or the vendor's "
    "plugin such as aws-ofi-nccl), give the container /dev/infiniband and memlock, and "
    "take NCCL_IB_DISABLE and NCCL_NET=Socket out of force",
    confirm="ls /dev/infiniband; ldconfig -p | grep -E 'libibverbs|libnccl-net'; env | grep -E "
    "'NCCL_(NET|IB)'",
    source="eth-cscs/cscs-docs, docs/software/communication/nccl.md (122.6 GB/s with the plugin, "
    "5.4 over sockets)",
)
def wrong_network_transport(case: Case) -> Sign | None:
    """Look for it. NCCL names the way that its data took; that is judged in the leg net."""
    ports = case.value("infiniband_ports", "active_ports")
    if not isinstance(ports, int) or ports < 1:
        return None
    sockets = sorted({leg.leg for leg in case.legs if _only_sockets(leg)})
    own = (
        *case.of_legs("network_transport"),
        *case.bad("memlock"),
        *case.slow(("net",)),
        *case.bad("nccl_environment"),
    )
    also = [f"NCCL used {SOCKET} in the leg {name}" for name in sockets]
    also.append(f"infiniband_ports: {ports} active")
    return sign("likely", own if sockets else (), also, stands=True)


def _only_sockets(leg: Leg) -> bool:
    return {kind for kind in leg.transport if kind.startswith("NET/")} == {SOCKET}
