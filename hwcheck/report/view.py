"""What a renderer shows of one host: its checks with merged samples, its GPUs, its legs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from hwcheck.advise.assessment import Assessment
from hwcheck.contract.wire import COLLECTIVES, CheckResult, Leg, Sample, SizeTiming
from hwcheck.fold import fold_subjects
from hwcheck.judge.figures import measured
from hwcheck.judge.legs import is_clean, largest, legs_of, wrong_elements
from hwcheck.judge.records import OUTCOMES, Finding, HostVerdict, counted, worst
from hwcheck.report.words import gpu_names
from hwcheck.results.run_folder import HostRecord
from hwcheck.text import binary_size, line, number, quantity

SHOWN_COLLECTIVES = 2
"""So many stand in a host's one line: those that decide about P2P come first."""

LEG_WORDS = {
    "done": "no figure",
    "hang": "hangs",
    "failed": "failed",
    "not_run": "not run",
    "not_engaged": "did not use what it is to measure",
    "not_started": "did not start",
}

EXERCISE_MARK = " (exercise: gloo on the CPU)"

MERGE_FROM = 3
"""So many different passing values of one metric are shown as their range."""

MOST_SUBJECTS = 4

NOT_JUDGED = "not judged"
"""What the site wants ignored: it was measured, and that is no pass."""
QUIET = ("pass", "recorded", NOT_JUDGED)
"""Outcomes of a check that are no complaint."""
WAIVED = "waived"
"""What the site bears for a time: a complaint that does not count."""


@dataclass(frozen=True)
class SampleRow:
    """One or more samples of a host that are shown as one line."""

    metric: str
    subjects: str
    value: str
    outcome: str
    limit: str = ""
    source: str = ""

    @property
    def text(self) -> str:
        """The row in one line."""
        return f"{self.metric} {self.value} of {self.subjects}; {self.limit}; {self.source}"


@dataclass(frozen=True)
class CheckView:
    """One check on one host.

    ``outcome`` may also be ``not applicable``, ``recorded``, ``not judged`` or ``waived``.
    ``not_judged`` are metrics that the site wants ignored, with its source. ``reason`` joins all
    reasons; ``why`` those of the findings that gave the outcome.
    """

    check: str
    outcome: str
    reason: str
    why: str = ""
    findings: Sequence[Finding] = field(default=(), repr=False)
    samples: Sequence[Sample] = field(default=(), repr=False)
    legs: tuple[Leg, ...] = ()
    duration_s: float = 0.0
    not_judged: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def rows(self) -> tuple[SampleRow, ...]:
        """What was judged, worst first, then what was only recorded. Made when it is shown."""
        return (
            *_finding_rows(self.findings),
            *_unjudged_rows(self.samples, self.findings, self.not_judged),
        )

    @cached_property
    def complaints(self) -> tuple[SampleRow, ...]:
        """What is no pass, worst first."""
        return tuple(row for row in _finding_rows(self.findings) if row.outcome not in QUIET)

    @property
    def exercise(self) -> bool:
        """Whether its legs ran on the CPU only."""
        return any(leg.exercise for leg in self.legs)


@dataclass(frozen=True)
class HostView:
    """One host with its checks in the order in which they were asked for.

    ``peaks`` are the default legs of ``busbw`` at their largest size, by collective, where all of
    them are clean.
    """

    verdict: HostVerdict
    record: HostRecord
    gpus: str
    busbw: str
    peaks: tuple[tuple[str, SizeTiming], ...]
    check_names: tuple[str, ...]
    findings: Sequence[Finding] = field(repr=False)

    @cached_property
    def checks(self) -> tuple[CheckView, ...]:
        """Its checks. Made when they are shown: most hosts of a large run passed."""
        by_check: Mapping[str, list[Finding]] = defaultdict(list)
        for finding in self.findings:
            by_check[finding.check].append(finding)
        answers = {result.check: result for result in _results(self.record)}
        not_judged: Mapping[str, dict[str, str]] = defaultdict(dict)
        for key, source in self.verdict.not_judged:
            check, _, metric = key.partition(".")
            not_judged[check][metric] = line(source)
        return tuple(
            _check_view(name, answers.get(name), by_check[name], self.record, not_judged[name])
            for name in self.check_names
        )

    @property
    def name(self) -> str:
        """The inventory's name."""
        return self.verdict.host

    @property
    def exercise(self) -> bool:
        """Whether a collective ran on the CPU only."""
        return any(leg.exercise for leg in legs_of(self.record))

    @cached_property
    def why(self) -> str:
        """Why the outcome is not ``pass``, in one line: the first figures that broke a limit."""
        outcome = self.verdict.outcome
        if outcome == "pass" or self.record.report is None:
            return line(self.verdict.reason)
        parts = [
            f"{line(check.check, 60)}: {row.metric} {row.value}{_of(row.subjects)}"
            for check in self.checks
            if check.outcome == outcome
            for row in check.complaints[:1]
            if row.outcome == outcome
        ]
        return "; ".join(parts[:2]) or line(self.verdict.reason)


def host_views(assessment: Assessment) -> Iterator[HostView]:
    """Yield the hosts, worst outcome first, then in inventory order."""
    run, judgement = assessment.run, assessment.judgement
    records = {record.host: record for record in run.records}
    for verdict in sorted(judgement.hosts, key=lambda host: OUTCOMES.index(host.outcome)):
        record = records[verdict.host]
        yield HostView(
            verdict=verdict,
            record=record,
            gpus=gpus(record),
            busbw=busbw(record),
            peaks=peaks(record),
            check_names=run.meta.checks,
            findings=judgement.by_host.get(verdict.host, ()),
        )


def gpus(record: HostRecord) -> str:
    """Return ``8 x NVIDIA H100 80GB HBM3``."""
    if record.report is None:
        return ""
    names = Counter(line(name, 80) for name in gpu_names(record))
    if not names and record.state != "reported":
        return ""  # facts come at the end of a visit: this one was cut short
    return ", ".join(f"{amount} x {name}" for name, amount in names.items()) or "none seen"


def busbw_range(views: Sequence[HostView]) -> str:
    """Return the default legs' busbw over several hosts: one text, or the range at each size."""
    texts = dict.fromkeys(view.busbw for view in views if view.busbw and not view.peaks)
    by_size: dict[tuple[str, int, bool], list[float]] = {}
    for view in views:
        for collective, peak in view.peaks:
            name = f"{collective} " if len(view.peaks) > 1 else ""
            key = (name, peak.size_bytes, view.exercise)
            by_size.setdefault(key, []).append(peak.busbw_gbps)
    for (name, size, exercise), figures in by_size.items():
        low, high = number(min(figures)), number(max(figures))
        shown = low if low == high else f"{low} to {high}"
        mark = EXERCISE_MARK if exercise else ""
        texts[f"{name}{shown} GB/s at {binary_size(size)}{mark}"] = None
    return "; ".join(list(texts)[:4])


def _results(record: HostRecord) -> Sequence[CheckResult]:
    return record.report.results if record.report else ()


def _check_view(
    name: str,
    result: CheckResult | None,
    findings: Sequence[Finding],
    record: HostRecord,
    not_judged: Mapping[str, str],
) -> CheckView:
    if result is None:
        reason = record.reason.text or "no answer"
        return CheckView(name, "inconclusive", line(reason), line(reason), findings)
    if result.state == "not_applicable":
        return CheckView(name, "not applicable", line(result.reason.text), line(result.reason.text))
    if findings:
        outcome = worst(finding.outcome for finding in counted(findings))
        if outcome == "pass" and any(finding.waived for finding in findings):
            outcome = WAIVED
    elif result.state == "done":
        outcome = NOT_JUDGED if not_judged else "recorded"
    else:
        outcome = "inconclusive"
    decisive = [finding.reason.text for finding in findings if _shown_outcome(finding) == outcome]
    if outcome == WAIVED:
        decisive += [f"waived: {finding.waived}" for finding in findings if finding.waived]
    if outcome == "inconclusive":
        decisive.append(result.reason.text)
    if outcome == NOT_JUDGED:
        decisive += not_judged.values()
    return CheckView(
        check=name,
        outcome=outcome,
        reason=_joined([result.reason.text, *(finding.reason.text for finding in findings)]),
        why=_joined(decisive),
        findings=findings,
        samples=() if result.legs else result.samples,  # legs have a table of their own
        legs=result.legs,
        duration_s=result.duration_s,
        not_judged=not_judged,
    )


def _joined(reasons: Iterable[str]) -> str:
    return "; ".join(list(dict.fromkeys(line(text) for text in reasons if text))[:3])


def _finding_rows(findings: Iterable[Finding]) -> Iterator[SampleRow]:
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        if finding.metric:
            shown = _shown_outcome(finding)
            held = (finding.limit, finding.waived, finding.source)
            key = (shown, finding.metric, *held, finding.unit)
            groups.setdefault(key, []).append(finding)
    for name in (*OUTCOMES[:-1], WAIVED, OUTCOMES[-1]):
        for (outcome, metric, limit, why, source, unit), members in groups.items():
            if outcome != name:
                continue
            confidence = members[0].confidence
            origin = f"{source} ({confidence})" if confidence else source
            for value, subjects in _merge(members, unit, ranges=outcome == "pass"):
                text = f"{line(limit)}; waived: {line(why)}" if why else line(limit)
                yield SampleRow(line(metric, 80), subjects, value, outcome, text, line(origin))


def _shown_outcome(finding: Finding) -> str:
    return WAIVED if finding.waived else finding.outcome


def _unjudged_rows(
    samples: Iterable[Sample], findings: Iterable[Finding], not_judged: Mapping[str, str]
) -> Iterator[SampleRow]:
    judged = {(finding.metric, finding.subject) for finding in findings}
    groups: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        if (sample.metric, sample.subject) not in judged:
            groups.setdefault((sample.metric, sample.unit), []).append(sample)
    for (metric, unit), members in groups.items():
        for value, subjects in _merge(members, unit, ranges=True):
            left_out = f"{NOT_JUDGED}: {not_judged[metric]}" if metric in not_judged else ""
            outcome = NOT_JUDGED if left_out else "recorded"
            yield SampleRow(line(metric, 80), subjects, value, outcome, left_out)


def _merge(
    members: Sequence[Sample | Finding], unit: str, *, ranges: bool
) -> Iterator[tuple[str, str]]:
    """Yield (value, folded subjects); what is not a pass keeps every value."""
    by_value: dict[str, list[str]] = {}
    for member in members:
        shown = measured(member) if isinstance(member, Finding) else quantity(member.value, unit)
        by_value.setdefault(shown, []).append(line(member.subject, 80))
    values = [m.value for m in members if type(m.value) in (int, float)]
    if ranges and len(by_value) >= MERGE_FROM and len(values) == len(members):
        numbers = [value for value in values if isinstance(value, int | float)]
        low, high = number(min(numbers)), number(max(numbers))
        subjects = _subjects(line(member.subject, 80) for member in members)
        yield f"{low} to {high} {line(unit, 40)}".rstrip(), subjects
        return
    for value, names in by_value.items():
        yield value, _subjects(names)


def _of(subjects: str) -> str:
    return "" if subjects == "node" else f" ({subjects})"


def _subjects(names: Iterable[str]) -> str:
    """Fold ``gpu0 ... gpu7``; names of several words (``leg default``) are listed."""
    listed = list(dict.fromkeys(names))
    if not any(" " in name for name in listed):
        return fold_subjects(listed)
    more = f" and {len(listed) - MOST_SUBJECTS} more" if len(listed) > MOST_SUBJECTS else ""
    return ", ".join(listed[:MOST_SUBJECTS]) + more


def busbw(record: HostRecord) -> str:
    """Return the default leg's busbw at its largest size, or why there is none.

    Of several collectives those that decide about P2P; the others stand in the host's own section.
    """
    legs = _default_legs(record)
    parts = []
    for leg in legs:
        name = f"{line(leg.collective, 60)} " if len(legs) > 1 else ""
        mark = EXERCISE_MARK if leg.exercise else ""
        parts.append(f"{name}{leg_figure(leg)}{mark}")
    return ", ".join(parts)


def _default_legs(record: HostRecord) -> list[Leg]:
    legs = [leg for leg in legs_of(record) if leg.leg == "default"]
    legs.sort(key=lambda leg: collective_order(leg.collective))
    return legs[:SHOWN_COLLECTIVES]


def collective_order(collective: str) -> int:
    """Return the place of a collective among others: first those that decide about P2P."""
    return COLLECTIVES.index(collective) if collective in COLLECTIVES else len(COLLECTIVES)


def peaks(record: HostRecord) -> tuple[tuple[str, SizeTiming], ...]:
    """Return the default legs' largest sizes by collective; none where one has no figure."""
    legs = _default_legs(record)
    sizes = [(line(leg.collective, 60), largest(leg)) for leg in legs if is_clean(leg)]
    timed = tuple((name, size) for name, size in sizes if size is not None)
    return timed if len(timed) == len(legs) else ()


def leg_figure(leg: Leg) -> str:
    """Return a leg in a few words: its busbw at the largest size, or what became of it."""
    wrong = wrong_elements(leg)
    if wrong:
        return f"wrong data ({number(wrong)} elements)"
    size = largest(leg)
    if leg.state == "done" and size is not None:
        return f"{number(size.busbw_gbps)} GB/s at {binary_size(size.size_bytes)}"
    if leg.state == "done" and leg.ranks < 2:
        return "one rank, no busbw"
    return LEG_WORDS[leg.state]


def transport(leg: Leg) -> str:
    """Return what NCCL said of the way of a leg's data: ``P2P/CUMEM 96, channels 16``."""
    facts = [(name, value) for name, value in leg.transport.items() if value]
    return ", ".join(f"{line(name, 40)} {quantity(value)}" for name, value in facts[:12])
