"""A login may lock as much memory as RDMA needs."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import Equal
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node


@check(
    metrics=[
        Metric(
            "memlock_unlimited",
            "",
            "whether RLIMIT_MEMLOCK of this login is unlimited",
            (
                Equal(
                    True,
                    source="NVIDIA Deep Learning Frameworks documentation, running containers "
                    "(--ulimit memlock=-1), and Open MPI FAQ, registered memory: RDMA libraries "
                    "want no limit on locked memory",
                    otherwise="warn",
                ),
            ),
            required=True,
        ),
        Metric("memlock_mib", "MiB", "the limit, where there is one"),
    ],
    remedy=Remedy(
        cause="the limit of the distribution or of the container",
        fix="set '* soft memlock unlimited' and '* hard memlock unlimited' in "
        "/etc/security/limits.d, LimitMEMLOCK=infinity for the scheduler's daemon, and --ulimit "
        "memlock=-1 for containers",
        command="ulimit -l",
        role="rdma",
    ),
    optional="RDMA devices",
    group="host",
    follows=("infiniband_ports",),
)
def memlock(node: Node) -> Iterator[Sample]:
    """Read how much memory this login may lock.

    RDMA registers its buffers by locking them, and with the 8 MiB that many systems allow a queue
    pair cannot be made. This is the limit of the login that hwcheck came in by: a job that a
    scheduler starts has the limit of the scheduler's daemon. Not applicable without RDMA devices.
    """
    if not node.host.rdma_ports():
        raise NotApplicable("no RDMA device")
    limit_bytes = node.host.locked_memory_limit_bytes()
    yield Sample("memlock_unlimited", limit_bytes is None)
    if limit_bytes is not None:
        yield Sample("memlock_mib", round(limit_bytes / (1 << 20), 3), "MiB")
