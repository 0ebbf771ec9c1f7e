"""Two NCCLs of one host that decide about PCIe P2P by different rules. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hwcheck.judge.interconnect import links_of
from hwcheck.judge.records import Finding
from hwcheck.node.wire import Leg
from hwcheck.results.run_folder import HostRecord

CHANGED = (2, 23)
AMD = ("AuthenticAMD", "HygonGenuine")
LEAST_GPUS = 3
FAR = ("PHB", "NODE", "SYS")
SAID_BESIDE = "all_reduce"
"""Once for a host, not once for each collective."""

SOURCE = (
    "NVIDIA/nccl src/graph/paths.cc, ncclTopoCheckP2p: up to 2.22 P2P goes beyond PCIe switches on "
    "every AMD CPU, from 2.23 on only with up to two GPUs"
)
VERSION = re.compile(r"\b(\d{1,3})\.(\d{1,3})\.\d")


def crosses(text: str) -> bool:
    """Return whether a text names versions on both sides of the change."""
    sides = {(int(major), int(minor)) >= CHANGED for major, minor in VERSION.findall(text)}
    return len(sides) == 2


def rule_changes(vendor: str, gpus: int) -> bool:
    """Return whether the change reaches a host with this CPU; one that is not known may be."""
    return not vendor or (vendor in AMD and gpus >= LEAST_GPUS)


def judge_nccl_default(
    host: str, check: str, legs: Sequence[Leg], record: HostRecord
) -> Iterator[Finding]:
    """Yield a warning where torch's NCCL and the system's take different ways on this host.

    That needs GPUs without NVLink that the driver grants P2P beyond a PCIe switch, and an AMD CPU.
    """
    default = next((leg for leg in legs if leg.leg == "default"), None)
    if check != SAID_BESIDE or default is None or default.backend != "nccl":
        return
    system = _said(record, "software_versions", "system_nccl_version").get("node", "")
    both = f"{default.library}, and {system} of the system"
    if not crosses(both):
        return
    links = links_of(record)
    if links is None or links.nvlinks or links.cpu not in AMD or links.gpus < LEAST_GPUS:
        return
    granted = _said(record, "p2p_status", "pcie_read")
    far = ["-".join(hop.ends) for hop in links.hops.values() if hop.path in FAR]
    if not any(granted.get(pair) == "OK" for pair in far):
        return
    yield Finding(
        host=host,
        check=check,
        outcome="warn",
        metric="nccl_p2p_default",
        value=both,
        limit="warn where one is older than 2.23 and the other is not",
        source=SOURCE,
        confidence="derived",
        reason="the older one lets GPUs reach each other through the CPU, the newer one does not",
    )


def _said(record: HostRecord, check: str, metric: str) -> dict[str, str]:
    return {
        sample.subject: str(sample.value)
        for result in (record.report.results if record.report else ())
        if result.check == check
        for sample in result.samples
        if sample.metric == metric
    }
