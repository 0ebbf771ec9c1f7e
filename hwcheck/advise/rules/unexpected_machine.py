"""The address leads to another kind of machine."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="The host is another machine than was meant: virtual instead of real, or under "
    "another hypervisor",
    follows="bandwidth, topology and counters are what the hypervisor shows",
    fix="correct the address or hwcheck_hypervisor in the inventory",
    confirm="systemd-detect-virt; cat /sys/class/dmi/id/product_name",
    source="Linux kernel, /sys/hypervisor, CPUID and DMI; the inventory's hwcheck_hypervisor",
)
def unexpected_machine(case: Case) -> Sign | None:
    """Look for it. The machine says what it is."""
    return sign("certain", case.bad("virtualization", "hypervisor"))
