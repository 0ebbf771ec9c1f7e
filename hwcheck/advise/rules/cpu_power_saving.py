"""CPUs are held at low frequency."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="A power-saving governor holds the CPUs down",
    follows="shared-memory transport, data loading and kernel launches are slow on this host",
    fix="choose the performance governor: tuned-adm profile throughput-performance, or "
    "cpupower frequency-set -g performance",
    confirm="cpupower frequency-info; grep . "
    "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor | sort -t: -k2 | head",
    source="Linux kernel, admin-guide/pm/cpufreq, governors",
)
def cpu_power_saving(case: Case) -> Sign | None:
    """Look for it. The governor is what the kernel says it is; that it costs is derived."""
    return sign("likely", case.bad("cpu_governor"))
