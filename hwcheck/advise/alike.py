"""Which hosts are alike as far as NCCL settings go. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from hwcheck.judge.evidence import gpus_of
from hwcheck.judge.interconnect import links_of
from hwcheck.judge.legs import legs_of
from hwcheck.node.wire import Value
from hwcheck.results.run_folder import HostRecord
from hwcheck.text import line

SLUG_CHARACTERS = 40
MOST_PATHS = 6


@dataclass(frozen=True)
class Alike:
    """What hosts share that one setting may be for: all that decides how NCCL sends its data.

    ``gpus`` are the models with their number, ``topology`` the ways between the GPUs with theirs,
    ``library`` the NCCL that ran and ``driver`` the driver's version; empty where not known.
    """

    gpus: str
    topology: str
    library: str
    driver: str

    def __str__(self) -> str:
        """Return it in words."""
        driver = f"driver {self.driver}" if self.driver else ""
        return ", ".join(part for part in (self.gpus, self.topology, self.library, driver) if part)

    @property
    def slug(self) -> str:
        """Return a name for a folder: letters, digits and hyphens of what ``gpus`` says."""
        plain = re.sub(r"[^a-z0-9]+", "-", self.gpus.lower().replace("nvidia", ""))
        return plain.strip("-")[:SLUG_CHARACTERS].strip("-") or "gpu"


def alike_of(record: HostRecord) -> Alike | None:
    """Return what a host is like; None where it names no GPU."""
    names = Counter(line(str(gpu.get("name", "")), 60) for gpu in gpus_of(record))
    if not names:
        return None
    models = " and ".join(f"{count}x {name}" for name, count in sorted(names.items()))
    return Alike(models, _topology(record), library_of(record), driver_of(record))


def library_of(record: HostRecord) -> str:
    """Return ``NCCL 2.27.5`` as most legs ran with, or as torch brings it; empty if not known."""
    ran = Counter(
        line(leg.library, 60) for leg in legs_of(record) if leg.backend == "nccl" and leg.library
    )
    if ran:
        return ran.most_common(1)[0][0]
    version = reading(record, "software_versions", "nccl_version")
    return f"NCCL {line(str(version), 40)}" if version is not None else ""


def driver_of(record: HostRecord) -> str:
    """Return the driver's version; empty where it is not known."""
    version = reading(record, "driver", "driver_version")
    return line(str(version), 40) if version is not None else ""


def reading(record: HostRecord, check: str, metric: str) -> Value | None:
    """Return what a host measured of itself; None where it did not."""
    values = readings(record, check, metric)
    return values.get("node")


def readings(record: HostRecord, check: str, metric: str) -> dict[str, Value]:
    """Return what a host measured, by subject."""
    return {
        sample.subject: sample.value
        for result in (record.report.results if record.report else ())
        if result.check == check
        for sample in result.samples
        if sample.metric == metric
    }


def _topology(record: HostRecord) -> str:
    links = links_of(record)
    if links is not None:
        return _counted(line(hop.path, 20) for hop in links.hops.values())
    # Without the ways, the links of each GPU still tell a bridged board from a bare one.
    counts = [gpu.get("nvlink_links") for gpu in gpus_of(record)]
    known = [count for count in counts if type(count) is int and count > 0]
    return f"NVLinks by GPU {_counted(map(str, known))}" if known else ""


def _counted(words: Iterable[str]) -> str:
    counts = sorted(Counter(words).items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{word} x{count}" for word, count in counts[:MOST_PATHS]]
    return " ".join(shown) + (" ..." if len(counts) > MOST_PATHS else "")
