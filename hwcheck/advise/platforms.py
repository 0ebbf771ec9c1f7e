"""What decides how NCCL sends data: hosts of one platform may share settings. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hwcheck.advise.records import Platform
from hwcheck.checks.driver import DRIVER_VERSION, driver
from hwcheck.checks.software_versions import NCCL_VERSION, software_versions
from hwcheck.contract.check import Check, Metric
from hwcheck.contract.wire import Value
from hwcheck.judge.host_case import gpus_of, values_of
from hwcheck.judge.interconnect import links_of
from hwcheck.judge.legs import legs_of
from hwcheck.results.run_folder import HostRecord
from hwcheck.text import line

MOST_PATHS = 6


def platform_of(record: HostRecord) -> Platform | None:
    """Return what decides how NCCL sends a host's data; None where it names no GPU."""
    names = Counter(line(gpu.name, 60) for gpu in gpus_of(record))
    if not names:
        return None
    models = " and ".join(f"{count}x {name}" for name, count in sorted(names.items()))
    return Platform(models, _topology(record), library_of(record), driver_of(record))


def library_of(record: HostRecord) -> str:
    """Return ``NCCL 2.27.5`` as most legs ran with, or as torch brings it; empty if not known."""
    ran = Counter(
        line(leg.library, 60) for leg in legs_of(record) if leg.backend == "nccl" and leg.library
    )
    if ran:
        return ran.most_common(1)[0][0]
    version = reading(record, software_versions, NCCL_VERSION)
    return f"NCCL {line(str(version), 40)}" if version is not None else ""


def driver_of(record: HostRecord) -> str:
    """Return the driver's version; empty where it is not known."""
    version = reading(record, driver, DRIVER_VERSION)
    return line(str(version), 40) if version is not None else ""


def reading(record: HostRecord, check: Check, metric: Metric) -> Value | None:
    """Return what a host measured of itself; None where it did not."""
    return values_of(record, check, metric).get("node")


def _topology(record: HostRecord) -> str:
    links = links_of(record)
    if links is not None:
        return _counted(line(hop.path, 20) for hop in links.hops.values())
    # Without the ways, the links of each GPU still tell a bridged board from a bare one.
    counts = [gpu.nvlink_links for gpu in gpus_of(record)]
    active = [count for count in counts if count is not None and count > 0]
    return f"NVLinks by GPU {_counted(map(str, active))}" if active else ""


def _counted(words: Iterable[str]) -> str:
    counts = sorted(Counter(words).items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{word} x{count}" for word, count in counts[:MOST_PATHS]]
    return " ".join(shown) + (" ..." if len(counts) > MOST_PATHS else "")
