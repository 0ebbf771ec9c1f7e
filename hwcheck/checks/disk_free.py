"""There is room where a job and its login write."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import BY_USE, Metric, Remedy, check
from hwcheck.contract.limits import AtLeast, Equal
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import one_by_one
from hwcheck.node.node import Node, NodeHost

GIB = float(1 << 30)


@check(
    metrics=[
        Metric(
            "disk_free_gib",
            "GiB",
            "what a user who is not root may still write",
            (
                AtLeast(
                    "CUDA Programming Guide, environment variables: CUDA_CACHE_MAXSIZE, 1 GiB of "
                    "compiled kernels in the home folder; below a tenth of that not even the logs "
                    "of a job have room",
                    fail=0.1,
                    warn=1.0,
                    confidence="derived",
                ),
            ),
            required=True,
            varies=BY_USE,
        ),
        Metric(
            "tmp_read_only",
            "",
            "whether /tmp takes no writes from anybody",
            (
                Equal(
                    False,
                    source="Filesystem Hierarchy Standard, /tmp: it must be made available for "
                    "programs that require temporary files",
                    confidence="derived",
                    otherwise="warn",
                ),
            ),
        ),
        Metric("disk_size_gib", "GiB", "size of the file system", required=True),
    ],
    remedy=Remedy(
        cause="logs, core dumps, container images or files of dead jobs",
        fix="find what fills it and delete it, or move it to another file system",
        command="df -h / /tmp ~; sudo du -xh --max-depth=2 / | sort -h | tail",
    ),
    group="host",
)
def disk_free(node: Node) -> Iterator[Sample]:
    """Read what is free in the home folder, in /tmp and in the root file system.

    A full disk ends jobs in the strangest places: a kernel cache that cannot be written, a socket
    in /tmp that cannot be made, a log that stops. Of a file system that is mounted read-only the
    room is left out: nobody expects to write there, but to /tmp everybody does.
    """
    paths = {"home": node.host.home(), "/tmp": "/tmp", "/": "/"}  # noqa: S108
    yield from one_by_one(paths, lambda name: _room(node.host, name, paths[name]))


def _room(host: NodeHost, name: str, path: str) -> Iterator[Sample]:
    disk = host.filesystem(path)
    if path == "/tmp":  # noqa: S108
        yield Sample("tmp_read_only", disk.read_only, "", name)
    if not disk.read_only:
        yield Sample("disk_free_gib", round(disk.free_bytes / GIB, 2), "GiB", name)
        yield Sample("disk_size_gib", round(disk.size_bytes / GIB, 2), "GiB", name)
