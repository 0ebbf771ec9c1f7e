"""P2P between the GPUs of a host: whether it pays, and two NCCLs that decide about it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hwcheck.checks.all_reduce import all_reduce
from hwcheck.checks.p2p_status import PCIE_READ, p2p_status
from hwcheck.checks.software_versions import SYSTEM_NCCL_VERSION, software_versions
from hwcheck.contract.reasons import remark
from hwcheck.contract.wire import Leg
from hwcheck.judge.host_case import HostCase, values_of
from hwcheck.judge.interconnect import links_of
from hwcheck.judge.legs import LEAST_BYTES, compare, is_clean, leg_problem, planned_env
from hwcheck.judge.records import Finding

GAIN_SOURCE = (
    "P2P that loses to shared memory is a defect or a poor PCIe path (NCCL issue 1603); "
    "10 % beyond the run's own spread"
)

CHANGED = (2, 23)
AMD = ("AuthenticAMD", "HygonGenuine")
LEAST_GPUS = 3
FAR = ("PHB", "NODE", "SYS")
JUDGED_WITH = all_reduce.id
"""Once for a host, not once for each collective."""

DEFAULT_SOURCE = (
    "NVIDIA/nccl src/graph/paths.cc, ncclTopoCheckP2p: up to 2.22 P2P goes beyond PCIe switches on "
    "every AMD CPU, from 2.23 on only with up to two GPUs"
)
VERSION = re.compile(r"\b(\d{1,3})\.(\d{1,3})\.\d")


def judge_p2p(host: HostCase) -> Iterator[Finding]:
    """Yield for each collective whether P2P is faster than the way without it."""
    for check, legs in host.legs:
        yield from p2p_gains(host.name, check, legs)


def p2p_gains(host: str, check: str, legs: Sequence[Leg]) -> list[Finding]:
    """Return a finding for each collective that has both legs clean on NCCL.

    An exercise on the CPU, a hang and wrong data say nothing about which is faster, nor do figures
    that contradict each other, or those of sizes that are too small for a bandwidth.
    ``p2p_gain`` is busbw of ``default`` over busbw of ``p2p_off`` at the largest common size.
    """
    findings = []
    for collective in dict.fromkeys(leg.collective for leg in legs):
        by_name = {leg.leg: leg for leg in legs if leg.collective == collective}
        default, p2p_off = by_name.get("default"), by_name.get("p2p_off")
        if default is None or p2p_off is None or default.exercise:
            continue
        both = all(
            is_clean(leg) and not leg_problem(leg, planned_env(leg.leg))
            for leg in (default, p2p_off)
        )
        compared = compare(default, p2p_off) if both else None
        if compared is None or compared.size_bytes < LEAST_BYTES:
            continue
        findings.append(
            Finding(
                host=host,
                check=check,
                outcome="warn" if compared.other_wins else "pass",
                metric="p2p_gain",
                subject=f"{collective} default over p2p_off",
                value=round(1 / compared.ratio, 3),
                limit=f"warn when p2p_off is faster by {compared.threshold:.0%} or more",
                source=GAIN_SOURCE,
                confidence="derived",
            )
        )
    return findings


def crosses(text: str) -> bool:
    """Return whether a text names versions on both sides of the change."""
    sides = {(int(major), int(minor)) >= CHANGED for major, minor in VERSION.findall(text)}
    return len(sides) == 2


def rule_changes(vendor: str, gpus: int) -> bool:
    """Return whether the change reaches a host with this CPU; one that is not known may be."""
    return not vendor or (vendor in AMD and gpus >= LEAST_GPUS)


def judge_nccl_default(host: HostCase) -> Iterator[Finding]:
    """Yield a warning where torch's NCCL and the system's take different ways on this host.

    That needs GPUs without NVLink that the driver grants P2P beyond a PCIe switch, and an AMD CPU.
    """
    legs = dict(host.legs).get(JUDGED_WITH, ())
    default = next((leg for leg in legs if leg.leg == "default"), None)
    if default is None or default.backend != "nccl":
        return
    system = values_of(host.record, software_versions, SYSTEM_NCCL_VERSION).get("node", "")
    both = f"{default.library}, and {system} of the system"
    if not crosses(both):
        return
    links = links_of(host.record)
    if links is None or links.nvlinks or links.cpu not in AMD or links.gpus < LEAST_GPUS:
        return
    granted = values_of(host.record, p2p_status, PCIE_READ)
    far = ["-".join(hop.ends) for hop in links.hops.values() if hop.path in FAR]
    if not any(granted.get(pair) == "OK" for pair in far):
        return
    yield Finding(
        host=host.name,
        check=JUDGED_WITH,
        outcome="warn",
        metric="nccl_p2p_default",
        value=both,
        limit="warn where one is older than 2.23 and the other is not",
        source=DEFAULT_SOURCE,
        confidence="derived",
        reason=remark(
            "the older one lets GPUs reach each other through the CPU, the newer one does not"
        ),
    )
