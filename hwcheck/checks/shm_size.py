"""Shared memory is large enough for NCCL."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import BY_USE, Metric, Remedy, check
from hwcheck.contract.limits import AtLeast, Equal
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

MIB = 1 << 20
SHM = "NCCL User Guide, Troubleshooting, Shared memory (--shm-size=1g for containers)"


@check(
    metrics=[
        Metric(
            "shm_size_mib",
            "MiB",
            "size of /dev/shm",
            (
                AtLeast(
                    SHM + "; 64 MiB is the default of containers (docker run, --shm-size)",
                    fail=65,
                    warn=1024,
                ),
            ),
            required=True,
        ),
        Metric(
            "shm_free_mib",
            "MiB",
            "what is free in /dev/shm",
            (
                AtLeast(
                    SHM + "; what is taken is missing as if /dev/shm were smaller",
                    warn=65,
                    confidence="derived",
                ),
            ),
            required=True,
            varies=BY_USE,
        ),
        Metric(
            "shm_read_only",
            "",
            "whether /dev/shm takes no writes from anybody",
            (
                Equal(
                    False,
                    source="shm_overview(7): POSIX shared memory is made of files in /dev/shm; "
                    "NCCL and data loaders make such files",
                    confidence="derived",
                    otherwise="warn",
                ),
            ),
        ),
    ],
    remedy=Remedy(
        cause="a container with the default size, or files of dead jobs left in /dev/shm",
        fix="start the container with --shm-size=1g or more (in Kubernetes: an emptyDir of medium "
        "Memory at /dev/shm), and delete what dead jobs left; do not set NCCL_SHM_DISABLE",
        command="df -h /dev/shm; ls -la /dev/shm",
    ),
    group="host",
)
def shm_size(node: Node) -> Iterator[Sample]:
    """Read the size of /dev/shm and what is free in it.

    GPUs without a direct path exchange data through segments of 6 to 10 MB each in /dev/shm, and
    data loaders hand over their batches there. With the 64 MiB of a container NCCL ends with
    "No space left on device" as soon as a few GPUs are involved.
    """
    shm = node.host.filesystem("/dev/shm")  # noqa: S108 - it is measured, not written
    yield Sample("shm_size_mib", round(shm.size_bytes / MIB, 1), "MiB")
    yield Sample("shm_free_mib", round(shm.free_bytes / MIB, 1), "MiB")
    yield Sample("shm_read_only", shm.read_only)
