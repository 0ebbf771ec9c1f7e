"""Too little memory may be locked."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="The login may lock too little memory for RDMA",
    follows="NCCL's InfiniBand transport ends with 'Cannot allocate memory', or falls back to "
    "sockets",
    fix="set '* soft memlock unlimited' and '* hard memlock unlimited' in "
    "/etc/security/limits.d, LimitMEMLOCK=infinity for services, --ulimit memlock=-1 for "
    "containers",
    confirm="ulimit -l; systemctl show --property=DefaultLimitMEMLOCK",
    source="NCCL User Guide, Troubleshooting, Networking issues; rdma-core, libibverbs, locked "
    "memory",
)
def memlock_limited(case: Case) -> Sign | None:
    """Look for it. The limit is there or it is not."""
    inside = ["virtualization: the login is in a container"] if case.container else []
    return sign("certain", case.bad("memlock", "memlock_unlimited"), inside)
