"""Whether a host answered, as itself and of everything that it was asked. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hwcheck.judge.evidence import contradictions
from hwcheck.judge.host_case import HostCase
from hwcheck.judge.records import Finding, unmeasured


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
        yield unmeasured(host.name, "", "no check applies to this host")


def _applies(host: HostCase, check: str) -> bool:
    return check not in host.answers or host.answers[check].state != "not_applicable"


def _problems(host: HostCase) -> Iterator[Finding]:
    record = host.record
    if record.state != "reported":
        reason = f"{record.state.replace('_', ' ')}: {record.reason}"
        yield unmeasured(host.name, "", reason)
    else:
        for reason in contradictions(record, host.facts):
            yield unmeasured(host.name, "", reason)
    if host.same_machine:
        yield unmeasured(host.name, "", host.same_machine)
    if record.report is not None:
        for name, check in host.checks.items():
            if check is None:
                reason = "this version of hwcheck does not know the check"
                yield unmeasured(host.name, name, reason)
            elif name not in host.answers:
                answered = record.state == "reported"
                reason = "no answer" if answered else f"not reached: {record.reason}"
                yield unmeasured(host.name, name, reason)
