"""What most like hosts have and a host lacks: a check that does not apply, a port, a version. Pure.

``fleet`` and ``peers`` compare what hosts measure; a host without the thing measures nothing there.
Hosts are alike as they are to ``fleet``: by the models of their GPUs. A quantity that most of a
host's GPUs answer and some do not is left to ``neighbors``; here are those that half of them or
more do not answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from hwcheck.contract.check import Check
from hwcheck.contract.limits import FromFleet
from hwcheck.contract.wire import CheckResult
from hwcheck.fold import fold
from hwcheck.judge.host_case import HostCase
from hwcheck.judge.interconnect import is_gpu
from hwcheck.judge.records import Finding, absent, complaints
from hwcheck.text import line, quantity

SOURCE = (
    "majority of hosts with GPUs of the same models: hardware, drivers and software of one kind of "
    "machine are alike"
)

MOST_NAMED = 16

Thing = tuple[str, str]
"""A metric that is compared over hosts, and its subject."""


def judge_absence(
    hosts: Sequence[HostCase], findings: Sequence[Sequence[Finding]]
) -> Iterator[Finding]:
    """Yield a warning for what a host lacks and at least half of the hosts like it have.

    ``findings`` are those of each host so far: what follows from them is not said again.
    """
    by_kind: dict[tuple[str, ...], list[tuple[HostCase, Mapping[str, set[str]]]]] = {}
    for host, of_host in zip(hosts, findings, strict=True):
        by_kind.setdefault(host.facts.kinds, []).append((host, complaints(of_host)))
    for kind, alike in by_kind.items():
        checks = hosts[0].checks if kind and len(alike) > 1 else {}
        explaining = [name for name, check in checks.items() if check and check.explains_silence]
        for name, check in checks.items():
            if check is None or check.varies:
                continue
            answered = [
                (host, host.answers[name], bad)
                for host, bad in alike
                if name in host.answers and host.answers[name].state in ("done", "not_applicable")
            ]
            of_load = check.load or check.after_load
            if not of_load or check.follows:
                yield from _without_answer(check, answered)
            if not of_load:
                yield from _without_things(check, answered)
            for mig in (False, True):  # it hides much of a GPU
                yield from _without_quantities(
                    check, explaining, [each for each in answered if each[0].facts.mig is mig]
                )


Answered = Sequence[tuple[HostCase, CheckResult, Mapping[str, set[str]]]]
"""Hosts with their answer to a check, and the subjects of what is complained of, by check."""


def _without_answer(check: Check, answered: Answered) -> Iterator[Finding]:
    voters = _voters(answered)
    have = [answer for _, answer, _ in voters if answer.state == "done"]
    if 2 * len(have) < len(voters) or len(have) == len(answered):
        return
    lacking = _lacking(check.id, answered)
    for other in check.follows:
        lacking -= _lacking(other, answered)
    for host, answer, bad in answered:
        explained = any(each in bad for each in (check.id, *check.follows))
        if host.name in lacking and not explained and not _has_declared(check, host, bad):
            counts = f"{len(have)} of {len(voters)} like hosts have it{_usual(check, have)}"
            yield _warning(host, check, "node", answer.reason.text, counts, len(have), len(voters))


def _lacking(check: str, answered: Answered) -> set[str]:
    """Return the hosts to which another check does not apply, where it applies to others."""
    answers = {host.name: host.answers[check] for host, *_ in answered if check in host.answers}
    if all(answer.state != "done" for answer in answers.values()):
        return set()
    return {name for name, answer in answers.items() if answer.state == "not_applicable"}


def _without_things(check: Check, answered: Answered) -> Iterator[Finding]:
    compared = [
        metric.name
        for metric in check.metrics
        if any(isinstance(limit.operand, FromFleet) for limit in metric.limits)
        and not metric.required
    ]
    if not compared or not check.optional:
        return  # what every answer has, evidence demands
    done = [each for each in answered if each[1].state == "done"]
    things = {host.name: _things(compared, answer) for host, answer, _ in done}
    voters = _voters(done)
    votes = Counter(thing for host, *_ in voters for thing in things[host.name])
    usual = sorted(
        (thing for thing, count in votes.items() if 2 * count >= len(voters)),
        key=lambda thing: (compared.index(thing[0]), thing[1]),
    )
    numbers = Counter(metric for metric, _ in usual)
    for host, answer, bad in done:
        if any(each in bad for each in check.follows):
            continue
        has = things[host.name]
        of_host = Counter(metric for metric, _ in has)
        missing: dict[str, str] = {}
        for metric, subject in usual:
            # As many under other names are no fewer.
            if (metric, subject) not in has and of_host[metric] < numbers[metric]:
                missing.setdefault(subject, metric)
        for subject, metric in list(missing.items())[:MOST_NAMED]:
            if subject in bad.get(check.id, ()) or _has_declared(check, host, bad):
                continue
            count = votes[metric, subject]
            reason = f"no {metric}" + (f" of {subject}" if subject != "node" else "")
            if all(sample.subject != subject for sample in answer.samples):
                reason = f"no {subject}"
            counts = f"{count} of {len(voters)} like hosts have it"
            yield _warning(host, check, subject, reason, counts, count, len(voters))


def _things(compared: Sequence[str], answer: CheckResult) -> set[Thing]:
    # GPUs that a host lacks are counted: gpu_count.
    return {
        (sample.metric, sample.subject)
        for sample in answer.samples
        if sample.metric in compared and not is_gpu(sample.subject)
    }


def _without_quantities(
    check: Check, explaining: Sequence[str], answered: Answered
) -> Iterator[Finding]:
    """Yield a warning for what half of a host's GPUs or more do not answer, and like hosts' do."""
    done = [each for each in answered if each[1].state == "done"]
    compared = [metric.name for metric in check.metrics if not metric.of_some]
    silent = {host.name: _silent_gpus(compared, host, answer) for host, answer, _ in done}
    if not any(silent.values()):
        return
    voters = _voters(done)
    silent_on = Counter(metric for other, *_ in voters for metric in silent[other.name])
    for host, _, bad in done:
        if any(each in bad for each in (*explaining, *check.follows)):
            continue
        lacking: dict[tuple[str, ...], dict[str, int]] = {}
        for metric, gpus in silent[host.name].items():
            have = len(voters) - silent_on[metric]
            gpus -= bad.get(check.id, set())
            if gpus and 2 * have >= len(voters):
                lacking.setdefault(tuple(sorted(gpus)), {})[metric] = have
        for of_gpus, metrics in lacking.items():
            have = min(metrics.values())
            subject = of_gpus[0] if len(of_gpus) == 1 else "node"
            reason = f"no {' or '.join(metrics)} of {fold(of_gpus)}"
            counts = f"GPUs of {have} of {len(voters)} like hosts give it"
            yield _warning(host, check, subject, reason, counts, have, len(voters))


def _silent_gpus(
    compared: Sequence[str], host: HostCase, answer: CheckResult
) -> dict[str, set[str]]:
    """Return by metric the GPUs that do not answer, where these are half of them or more."""
    answered: dict[str, set[str]] = {metric: set() for metric in compared}
    for sample in answer.samples:
        if sample.metric in answered:
            answered[sample.metric].add(sample.subject)
    gpus = set(host.facts.models)
    return {
        metric: gpus - who for metric, who in answered.items() if 2 * len(gpus - who) >= len(gpus)
    }


def _has_declared(check: Check, host: HostCase, bad: Mapping[str, set[str]]) -> bool:
    """Whether a host has as many as the inventory declares, which may be none."""
    counted = any(metric.unit and host.facts.declares(metric) for metric in check.metrics)
    return counted and check.id not in bad


def _voters(answered: Answered) -> Answered:
    """Return the golden hosts where there are any, otherwise all."""
    return [each for each in answered if each[0].facts.golden] or answered


def _usual(check: Check, answers: Sequence[CheckResult]) -> str:
    """Say what most of these answers hold, by a metric that counts where there is one."""
    wanted = sorted((m for m in check.metrics if m.required), key=lambda metric: not metric.unit)
    for name in (metric.name for metric in wanted):
        values = Counter(
            quantity(sample.value, sample.unit)
            for answer in answers
            for sample in answer.samples
            if sample.metric == name
        )
        if values:
            return f" ({name} {line(values.most_common(1)[0][0], 60)})"
    return ""


def _warning(
    host: HostCase, check: Check, subject: str, reason: str, counts: str, have: int, voters: int
) -> Finding:
    tie = "" if 2 * have > voters else "; which of them are right is not known"
    return absent(
        host.name,
        check.id,
        subject,
        limit=f"warn where like hosts have it: {have} of {voters}",
        source=SOURCE,
        reason=f"{line(reason, 160)}; {counts}{tie}",
    )
