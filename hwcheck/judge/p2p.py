"""The default leg against the leg without P2P: which transport is the faster one."""

from __future__ import annotations

from collections.abc import Sequence

from hwcheck.judge.legs import LEAST_BYTES, compare, is_clean, leg_problem, planned_env
from hwcheck.judge.records import Finding
from hwcheck.node.wire import Leg

SOURCE = (
    "P2P that loses to shared memory is a defect or a poor PCIe path (NCCL issue 1603); "
    "10 % beyond the run's own spread"
)


def judge_p2p(host: str, check: str, legs: Sequence[Leg]) -> list[Finding]:
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
                source=SOURCE,
                confidence="derived",
            )
        )
    return findings
