"""A RoCE port has no IP address that NCCL takes."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="A RoCE port has no address that NCCL takes and that can be routed",
    follows="NCCL takes a link-local address or RoCE v1 there: it works between two ports "
    "of a switch and hangs or fails beyond",
    fix="give the network interface of the port its IP address, and see that RoCE v2 is on; on a "
    "fabric of IPv6 set NCCL_IB_ADDR_FAMILY=AF_INET6",
    confirm="show_gids; rdma link; ip -br address",
    source="NCCL User Guide, NCCL_IB_GID_INDEX, NCCL_IB_ROCE_VERSION_NUM and NCCL_IB_ADDR_FAMILY",
)
def roce_without_address(case: Case) -> Sign | None:
    """Look for it. The reading says it itself."""
    return sign("certain", case.bad("roce_gids", "routable_gids"))
