"""A file system has no room left."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="A file system that jobs write to is full",
    follows="jobs end as they write a log, a checkpoint or a compiled kernel, and logins may fail",
    fix="find what fills it (logs, core dumps, images, files of dead jobs) and delete or move it",
    confirm="df -h / /tmp ~; sudo du -xh --max-depth=2 / | sort -h | tail",
    source="derived: what df shows is what is there",
)
def disk_full(case: Case) -> Sign | None:
    """Look for it. The reading says it itself."""
    return sign("certain", case.bad("disk_free", "disk_free_gib"))
