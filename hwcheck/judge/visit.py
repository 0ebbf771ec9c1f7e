"""Whether a host answered, as itself and of everything that it was asked. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hwcheck.contract import reasons
from hwcheck.contract.reasons import Reason
from hwcheck.judge.evidence import contradictions
from hwcheck.judge.host_case import HostCase
from hwcheck.judge.records import Finding, unmeasured
from hwcheck.results.run_folder import HostRecord


def judge_visit(host: HostCase) -> Iterator[Finding]:
    """Yield why a host's answers, or some of them, are missing or nobody can rely on them.

    A host that was asked for no check, only to take part in runs over several hosts or to train,
    is judged by these.
    """
    if host.without_checks:
        return
    problems = list(_problems(host))
    yield from problems
    if not problems and not any(_applies(host, name) for name in host.checks):
        yield unmeasured(
            host.name, "", Reason(reasons.NOTHING_APPLIES, "no check applies to this host")
        )


def _applies(host: HostCase, check: str) -> bool:
    return check not in host.answers or host.answers[check].state != "not_applicable"


def _problems(host: HostCase) -> Iterator[Finding]:
    record = host.record
    if record.state != "reported":
        yield unmeasured(host.name, "", record.reason.about(record.state.replace("_", " ")))
    else:
        for doubt in contradictions(record, host.facts):
            yield unmeasured(host.name, "", doubt)
    if host.same_machine:
        yield unmeasured(host.name, "", Reason(reasons.SAME_MACHINE, host.same_machine))
    if record.report is not None:
        for name, check in host.checks.items():
            if check is None:
                text = "this version of hwcheck does not know the check"
                yield unmeasured(host.name, name, Reason(reasons.UNKNOWN_CHECK, text))
            elif name not in host.answers:
                yield unmeasured(host.name, name, _no_answer(record))


def _no_answer(record: HostRecord) -> Reason:
    """Return why a report holds no answer of a check."""
    if record.state == "reported":
        return Reason(reasons.NOT_ANSWERED, "no answer")
    return Reason(reasons.NOT_REACHED, f"not reached: {record.reason}")
