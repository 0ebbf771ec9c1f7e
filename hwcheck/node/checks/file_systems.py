"""No file system that jobs write to was made read-only by an error."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from hwcheck.node.check import Metric, Node, Remedy, check
from hwcheck.node.host.facts import Mount
from hwcheck.node.limits import Equal
from hwcheck.node.wire import Sample

WRITTEN = ("/", "/tmp", "/var")  # noqa: S108
ON_DISKS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs")
"""Kinds that are written to where nobody says otherwise; images (squashfs, erofs), overlays and
network file systems may be read-only as they are meant."""


@check(
    metrics=[
        Metric(
            "read_only_by_error",
            "",
            "whether the kernel has made the file system read-only",
            (
                Equal(
                    False,
                    source="Linux kernel documentation, filesystems/ext4, errors=remount-ro "
                    "(remount read-only on an error), and fs/ext4 super.c (emergency_ro, "
                    "shutdown); fstab(5): an entry without ro asks to be writable",
                    confidence="derived",
                ),
            ),
            required=True,
        ),
        Metric("file_system", "", "kind of the file system, and where it is"),
    ],
    remedy=Remedy(
        cause="a disk that fails, or a file system that is damaged",
        fix="read the kernel log for errors of the disk, save what is needed, check the file "
        "system offline and replace the disk",
        command="findmnt -O ro -o TARGET,SOURCE,FSTYPE,OPTIONS; sudo dmesg | grep -iE 'remount|I/O "
        "error|nvme|EXT4-fs error'",
    ),
    gpu=False,
)
def file_systems(node: Node) -> Iterator[Sample]:
    """Read whether the file systems of the root, /tmp, /var and the home folder take writes.

    After an error the kernel goes on with a file system read-only: programs that are in memory run
    on, and jobs end as they write. Mostly the disk is dying. An image that is read-only as it was
    made, a mount that only this place sees read-only, and what /etc/fstab wants read-only are left
    alone.
    """
    mounts = node.host.mounts()
    shown = set()
    for path in (*WRITTEN, node.host.home()):
        mount = _holds(path, mounts)
        if mount is not None and mount.point not in shown:
            shown.add(mount.point)
            yield Sample("read_only_by_error", _by_error(mount), "", mount.point)
            yield Sample("file_system", "%s on %s" % (mount.kind, mount.source), "", mount.point)


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
