"""No file system that jobs write to was made read-only by an error."""

from __future__ import annotations

import re
from typing import Iterator, Optional, Sequence, Set

from hwcheck.contract.check import CouldNotMeasure, Metric, Remedy, check
from hwcheck.contract.facts import Mount
from hwcheck.contract.limits import Equal, like_most
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node, NodeHost

WRITTEN = ("/", "/tmp", "/var")  # noqa: S108
ON_DISKS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs")
"""Kinds that are written to where nobody says otherwise; images (squashfs, erofs), overlays and
network file systems may be read-only as they are meant."""

XFS = re.compile(
    r"XFS \(([^)]{1,64})\): (?:.*(Shutting down filesystem)|Mounting|Unmounting)", re.IGNORECASE
)
"""Lines of kubernetes/node-problem-detector#845; the mount keeps its rw (coreos/bugs#1396)."""


@check(
    metrics=[
        Metric(
            "read_only_by_error",
            "",
            "whether the kernel has made the file system read-only, or shut it down",
            (
                Equal(
                    False,
                    source="Linux kernel documentation, filesystems/ext4, errors=remount-ro "
                    "(remount read-only on an error), and fs/ext4 super.c (emergency_ro, "
                    "shutdown); fstab(5): an entry without ro asks to be writable; "
                    "fs/xfs/xfs_fsops.c, xfs_do_force_shutdown",
                    confidence="derived",
                ),
            ),
            required=True,
        ),
        Metric(
            "mounted_read_only",
            "",
            "whether it is mounted read-only, for whatever reason",
            (
                like_most(
                    "fstab(5) and Filesystem Hierarchy Standard: hosts of one kind have the same "
                    "places to write to"
                ),
            ),
        ),
        Metric("file_system", "", "kind of the file system, and where it is"),
    ],
    remedy=Remedy(
        cause="a disk that fails, or a file system that is damaged",
        fix="read the kernel log for errors of the disk, save what is needed, check the file "
        "system offline and replace the disk",
        command="findmnt -O ro -o TARGET,SOURCE,FSTYPE,OPTIONS; sudo dmesg | grep -iE 'remount|I/O "
        "error|nvme|EXT4-fs error|XFS.*shutting down'",
    ),
    gpu=False,
    group="host",
)
def file_systems(node: Node) -> Iterator[Sample]:
    """Read whether the file systems of the root, /tmp, /var and the home folder take writes.

    After an error the kernel goes on with a file system read-only: programs that are in memory run
    on, and jobs end as they write. Mostly the disk is dying. XFS refuses all access instead and
    leaves the mount as it was: only the kernel log tells, where it may be read. An image that is
    read-only as it was made, a mount that only this place sees read-only, and what /etc/fstab wants
    read-only are held against those of like hosts only.
    """
    mounts = node.host.mounts()
    holding = [_holds(path, mounts) for path in (*WRITTEN, node.host.home())]
    by_point = {mount.point: mount for mount in holding if mount is not None}
    uses_xfs = any(mount.kind == "xfs" for mount in by_point.values())
    shut_down = _shut_down(node.host) if uses_xfs else set()
    for point, mount in by_point.items():
        by_error = _by_error(mount) or (mount.kind == "xfs" and mount.device in shut_down)
        yield Sample("read_only_by_error", by_error, "", point)
        if not by_error:
            yield Sample("mounted_read_only", "ro" in mount.options, "", point)
        yield Sample("file_system", "%s on %s" % (mount.kind, mount.source), "", point)


def _shut_down(host: NodeHost) -> Set[str]:
    """Return the devices whose XFS the kernel has shut down, and that were not mounted since."""
    try:
        messages = host.kernel_log(("XFS (",)).messages
    except CouldNotMeasure:
        return set()  # the check xid says that the log cannot be read
    devices: Set[str] = set()
    for match in filter(None, (XFS.match(message.text) for message in messages)):
        if match.group(2):
            devices.add(match.group(1))
        else:
            devices.discard(match.group(1))
    return devices


def _holds(path: str, mounts: Sequence[Mount]) -> Optional[Mount]:
    """Return the mount that a path is on: the nearest above it, and of these the last."""
    holding = [each for each in mounts if _is_below(path, each.point)]
    return max(reversed(holding), key=lambda each: len(each.point)) if holding else None


def _is_below(path: str, point: str) -> bool:
    return point == "/" or path == point or path.startswith(point + "/")


def _by_error(mount: Mount) -> bool:
    if mount.meant_read_only or mount.kind not in ON_DISKS:
        return False
    if "emergency_ro" in mount.options or "shutdown" in mount.options:
        return True
    return "ro" in mount.options and (
        "errors=remount-ro" in mount.options or mount.meant_read_only is False
    )
