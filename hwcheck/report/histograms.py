"""The fleet's figures as histograms, with those that stand out named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hwcheck.contract.check import GROUPS, Check
from hwcheck.fold import fold
from hwcheck.judge.legs import is_clean, largest, legs_of
from hwcheck.judge.records import Finding, Judgement
from hwcheck.report.shapes import drawing, path, words
from hwcheck.results.run_folder import Run
from hwcheck.text import binary_size, line, number

LEAST_HOSTS = 8
"""Of fewer the hosts' own rows say it."""
BINS = 40
WIDTH, HEIGHT, FOOT = 440.0, 70.0, 22.0
MOST_NAMED = 6

Values = Mapping[tuple[str, str], float]
"""Figures by host and subject (``gpu3``, empty for the host's own)."""


@dataclass(frozen=True)
class Histogram:
    """One figure over the fleet: what it is, the drawing, and in words what it shows."""

    name: str
    svg: str
    in_words: str


def histograms(
    run: Run, judgement: Judgement, checks: Mapping[str, Check]
) -> tuple[Histogram, ...]:
    """Return a histogram of each figure that eight hosts have, and that is not the same on all."""
    bad: dict[tuple[str, str], list[Finding]] = {}
    for finding in judgement.findings:
        if finding.outcome in ("warn", "fail") and not finding.waived:
            bad.setdefault((finding.check, finding.host), []).append(finding)
    made = []
    for name, unit, check, values in (*_of_legs(run), *_of_gpus(run, checks)):
        if len({host for host, _ in values}) < LEAST_HOSTS or len(set(values.values())) < 2:
            continue
        out = [key for key in values if _stands_out(bad.get((check, key[0]), ()), key[1])]
        made.append(_histogram(name, unit, values, out))
    return tuple(made)


def _of_legs(run: Run) -> Iterator[tuple[str, str, str, Values]]:
    """Yield the busbw of the default legs by collective and size."""
    by_kind: dict[tuple[str, int], dict[tuple[str, str], float]] = {}
    for record in run.records:
        for leg in legs_of(record):
            size = largest(leg) if leg.leg == "default" and is_clean(leg) else None
            if size is not None and not leg.exercise:
                kind = (line(leg.collective, 60), size.size_bytes)
                by_kind.setdefault(kind, {})[record.host, ""] = float(size.busbw_gbps)
    for (collective, size_bytes), values in by_kind.items():
        yield f"busbw, {collective} at {binary_size(size_bytes)}", "GB/s", collective, values


def _of_gpus(run: Run, checks: Mapping[str, Check]) -> Iterator[tuple[str, str, str, Values]]:
    """Yield what is drawn of every GPU, in the order of the report's groups."""
    titles = {
        (check.id, metric.name): metric.drawn_as
        for check in sorted(checks.values(), key=lambda check: GROUPS.index(check.group))
        for metric in check.metrics
        if metric.drawn_as
    }
    by_figure: dict[tuple[str, str], dict[tuple[str, str], float]] = {key: {} for key in titles}
    units: dict[tuple[str, str], str] = {}
    for record in run.records:
        for result in record.report.results if record.report else ():
            for sample in result.samples:
                key = (result.check, sample.metric)
                if key in by_figure and type(sample.value) in (int, float):
                    by_figure[key][record.host, line(sample.subject, 40)] = float(sample.value)
                    units[key] = line(sample.unit, 20)
    for key, values in by_figure.items():
        if values:
            yield titles[key], units[key], key[0], values


def _stands_out(findings: Iterable[Finding], subject: str) -> bool:
    """Whether a finding is about a figure: that of a GPU by its name, that of a leg by its host."""
    return any(
        finding.subject == subject or (not subject and finding.subject == "leg default")
        for finding in findings
    )


def _histogram(name: str, unit: str, values: Values, out: Sequence[tuple[str, str]]) -> Histogram:
    figures = sorted(values.values())
    low, high = figures[0], figures[-1]
    middle = figures[len(figures) // 2]
    named = sorted(out, key=lambda key: abs(values[key] - middle), reverse=True)[:MOST_NAMED]
    texts = [f"{line(' '.join(key), 60).strip()} {number(values[key])}" for key in named]
    more = len(out) - len(named)
    rest = fold(host for host, _ in out if host not in {key[0] for key in named})
    tail = f" and {more} more ({rest})" if more and rest else f" and {more} more" if more else ""
    outliers = f"; standing out: {', '.join(texts)}{tail}" if out else ""
    hosts = len({host for host, _ in values})
    each = "" if len(values) == hosts else f" with {len(values)} GPUs"
    words = (
        f"{hosts} hosts{each}: from {number(low)} to {number(high)} {unit}, "
        f"{number(middle)} in the middle{outliers}"
    )
    return Histogram(name, _svg(values, set(out), f"{name}: {words}", unit), words)


def _svg(values: Values, out: set[tuple[str, str]], label: str, unit: str) -> str:
    low, high = min(values.values()), max(values.values())
    room = high - low
    bins, bad = [0] * BINS, [0] * BINS
    for key, value in values.items():
        at = min(int((value - low) / room * BINS), BINS - 1)
        bins[at] += 1
        bad[at] += key in out
    most, step = max(bins), WIDTH / BINS
    parts = [path(f"M0 {HEIGHT:g}H{WIDTH:g}", "axis")]
    for kind, amounts in (("bar", bins), ("bar bad", bad)):
        # One value among thousands would be no pixel high: what there is can be seen.
        steps = "".join(
            f"M{at * step:g} {HEIGHT:g}v-{height:.1f}h{step - 1:g}V{HEIGHT:g}z"
            for at, amount in enumerate(amounts)
            if (height := max(3.0, HEIGHT * amount / most) if amount else 0.0)
        )
        parts += [path(steps, kind)] if steps else []
    parts += [
        words(at * step + step / 2, HEIGHT - 8, "\u2715", "bad", "middle")
        for at, amount in enumerate(bad)
        if amount and bins[at] == amount
    ]
    foot = HEIGHT + FOOT - 6
    parts += [
        words(0, foot, number(low), "", "start"),
        words(WIDTH / 2, foot, unit),
        words(WIDTH, foot, number(high), "", "end"),
    ]
    return drawing(WIDTH, HEIGHT + FOOT, label, parts)
