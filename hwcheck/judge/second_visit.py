"""The second visit: which legs it measures again, and what became of it. Pure.

A bandwidth whose spread straddles a border is measured again, and ``expectation`` decides by both
figures. A hang, wrong data or a visit that breaks off counts the second time too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hwcheck.checks.shared.leg_checks import BUSBW_GBPS
from hwcheck.contract.reasons import Reason
from hwcheck.judge.expectation import on_a_border
from hwcheck.judge.host_case import HostCase, node_facts
from hwcheck.judge.limits import judge_answer
from hwcheck.judge.models import Models
from hwcheck.judge.records import Finding, unmeasured
from hwcheck.results.run_folder import Run
from hwcheck.results.site_limits import ignored

LegsByCheck = Mapping[str, tuple[str, ...]]


def legs_on_a_border(run: Run) -> dict[str, LegsByCheck]:
    """Return what is to be measured again, by host; only hosts that answered to the end.

    A bandwidth that the site wants ignored is not worth a second load.
    """
    by_host: dict[str, LegsByCheck] = {}
    for plan, record in zip(run.meta.hosts, run.records, strict=True):
        if record.state != "reported" or record.report is None:
            continue
        facts, not_judged = node_facts(plan.expect, record), ignored(plan.limits)
        by_check = {
            result.check: legs
            for result in record.report.results
            if f"{result.check}.{BUSBW_GBPS.name}" not in not_judged
            and (legs := on_a_border(result.legs, record, facts))
        }
        if by_check:
            by_host[plan.name] = by_check
    return by_host


def judge_second_visit(host: HostCase, models: Models) -> Iterator[Finding]:
    """Yield how a second visit broke off, and what failed in it.

    Nobody can rely on a host that does not stand a second visit, whatever it sent.
    """
    if host.second_visit is not None and host.second_visit_failure:
        reason = f"second visit, to measure again: {host.second_visit_failure}"
        yield unmeasured(host.name, "", Reason(host.second_visit.reason.code, reason))
    for check, answer in host.judged_answers:
        second = host.second_answer(check.id) if answer.legs else None
        if second is None:
            continue
        for finding in judge_answer(host.name, check, second, host.facts, models):
            if finding.outcome == "fail":
                reason = f"when measured again: {finding.reason}".rstrip(": ")
                yield finding._replace(reason=Reason(finding.reason.code, reason))
