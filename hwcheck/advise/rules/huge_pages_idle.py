"""Memory is set aside as huge pages that nothing uses."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="Huge pages are reserved and nobody uses them",
    follows="that memory is lost to everything else: data loaders and page cache have less",
    fix="lower vm.nr_hugepages, or take hugepages= off the command line of the kernel",
    confirm="grep -i huge /proc/meminfo",
    source="Linux kernel documentation, admin-guide/mm/hugetlbpage",
)
def huge_pages_idle(case: Case) -> Sign | None:
    """Look for it. The reading says it itself."""
    return sign("certain", case.bad("hugepages", "huge_pages_unused_percent"))
