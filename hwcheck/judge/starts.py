"""Legs that did not start, each beside the others of its collective on its node. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hwcheck.checks.shared.leg_checks import LEG_STATE
from hwcheck.contract.reasons import HANG, Reason
from hwcheck.judge.host_case import HostCase
from hwcheck.judge.legs import start_hang
from hwcheck.judge.records import Finding

LIMIT = "fail where another leg of the collective started in less than half the time"
SOURCE = "NVIDIA/nccl issue 1646: a minute on a cold node, for every leg alike"


def judge_starts(host: HostCase) -> Iterator[Finding]:
    """Yield a failure for each leg that hangs at start; where none started, nothing is known."""
    for check, legs in host.legs:
        for leg in legs:
            reason = start_hang(leg, legs)
            if reason:
                yield Finding(
                    host=host.name,
                    check=check,
                    outcome="fail",
                    metric=LEG_STATE.name,
                    subject=f"leg {leg.leg}",
                    value="hang",
                    limit=LIMIT,
                    source=SOURCE,
                    confidence="derived",
                    reason=Reason(HANG, reason),
                )
