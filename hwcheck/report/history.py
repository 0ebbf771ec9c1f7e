"""What the commands of the history print: tables of Rich. All text is made harmless here."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Group, RenderableType
from rich.segment import Segment, Segments
from rich.style import Style
from rich.table import Table
from rich.text import Text

from hwcheck.fold import fold
from hwcheck.history.compare import KINDS, Comparison, Difference
from hwcheck.history.overview import HostLine, RunLine
from hwcheck.history.trend import TrendMetric
from hwcheck.history.views import LeftOut, QueryResult
from hwcheck.report.words import OUTCOME_WORDS, STYLES
from hwcheck.report.wrap import Wrapped
from hwcheck.text import count, line, number, quantity

MOST_ROWS = 1000
"""So many rows of an answer are shown as a table; CSV and JSON have all."""
CELL = 200
FORMATS = ("table", "csv", "json")
MOST_LEFT_OUT = 3
BARS = "▁▂▃▄▅▆▇█"
SPARKS = 30
MOST_CHANGES = 40
TITLES = {
    "option": "Asked differently; figures that depend on it are not compared",
    "outcome": "Outcomes",
    "name": "Names",
    "GPU": "GPUs",
    "version": "Versions",
    "setting": "Settings",
    "count": "Counts",
    "figure": "Figures beyond their spread",
}


def runs_table(runs: Sequence[RunLine], shown: int) -> RenderableType:
    """Return the last runs, the newest at the end; ``shown`` is how many there is room for."""
    names = ("Run", "Began (UTC)", "Outcome", "Profile", "Hosts", "What came out")
    lines = table(*names, whole=("Run", "Outcome", "Profile"))
    for run in runs[-shown:]:
        amounts = {
            "failed": run.failed,
            "inconclusive": run.inconclusive,
            "warned": run.warned,
            "passed": run.passed,
        }
        lines.add_row(
            line(run.run, 80),
            time(run.started),
            outcome(run.outcome),
            line(run.profile, 20),
            str(run.hosts),
            ", ".join(f"{amount} {word}" for word, amount in amounts.items() if amount),
        )
    more = len(runs) - min(shown, len(runs))
    note = f"{count(more, 'earlier run')} not shown; --since 2026-01-31 or 90d shows from then on"
    return Group(lines, Text(note)) if more else lines


def hosts_table(
    hosts: Sequence[HostLine], values: Mapping[str, Sequence[float]], asked: TrendMetric | None
) -> RenderableType:
    """Return a line for each host, with what flaps, what became of its boards, and a metric.

    A line is never broken, so that ``grep`` finds all of a host. What Rich's table does beside,
    which is to measure and to wrap each cell, takes most of a second for 1,000 hosts.
    """
    names = ["Host", "Last run", "Outcome", "Green", "Last green", "Last red"]
    names += [line(asked.metric, 60)] if asked else []
    rows = []
    for host in hosts:
        figures = values.get(host.host, ())
        last = (
            f"{sparkline(figures[-SPARKS:])} {quantity(figures[-1], asked.unit)}"
            if (asked and figures)
            else "-"
        )
        cells = [line(host.host, 80), time(host.last_run), outcome(host.outcome).plain]
        cells += [f"{host.green} of {host.runs}", day(host.last_green), day(host.last_red)]
        rows.append([*cells, *[last] * bool(asked)])
    widths = [max(map(cell_len, column)) for column in zip(names, *rows, strict=True)]
    named = "  ".join(map(set_cell_size, [*names, "Flaps, events"], [*widths, CELL])).rstrip()
    lines = [Segment(f"{named}\n", Style(bold=True))]
    styles = {word: Style.parse(style) for word, style in STYLES.items()}
    for host, cells in zip(hosts, rows, strict=True):
        at = names.index("Outcome")
        padded = list(map(set_cell_size, cells, widths))
        marks = "; ".join([*host.flaps, *(event.text() for event in host.events)])
        lines.append(Segment("  ".join(padded[:at]) + "  "))
        lines.append(Segment(padded[at], styles.get(host.outcome)))
        lines.append(Segment("  ".join(["", *padded[at + 1 :], marks]).rstrip() + "\n"))
    return Segments(lines)


def answer_text(answer: QueryResult, form: str) -> str | RenderableType:
    """Return the answer to a query: a table for Rich, or CSV or JSON as text."""
    if form == "table":
        lines = table(*(line(name, 60) for name in answer.columns))
        for row in answer.rows[:MOST_ROWS]:
            lines.add_row(*map(_cell, row))
        more = len(answer.rows) - MOST_ROWS
        note = Text(f"{count(more, 'more row')}; --format csv has all")
        return Group(lines, note) if more > 0 else lines
    names = list(answer.columns)
    if form == "json":
        rows = [dict(zip(names, map(_plain, row), strict=True)) for row in answer.rows]
        return json.dumps(rows, indent=1, default=str, allow_nan=False) + "\n"
    paper = io.StringIO()
    writer = csv.writer(paper, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_csv(value) for value in row] for row in answer.rows)
    return paper.getvalue()


def left_out_lines(left_out: Iterable[LeftOut]) -> list[str]:
    """Return a line for each reason why folders are not in the history."""
    by_reason: dict[str, list[str]] = {}
    for each in left_out:
        by_reason.setdefault(each.reason, []).append(each.folder)
    lines = []
    for reason, folders in by_reason.items():
        shown = ", ".join(folders[:MOST_LEFT_OUT])
        more = f" and {len(folders) - MOST_LEFT_OUT} more" if len(folders) > MOST_LEFT_OUT else ""
        lines.append(f"not in the history: {shown}{more}: {reason}")
    return lines


def sparkline(values: Sequence[float]) -> str:
    """Return values as bars of a line of text, the lowest and the highest as low and high."""
    low, high = min(values), max(values)
    if high == low:
        return BARS[3] * len(values)
    return "".join(BARS[round((value - low) / (high - low) * 7)] for value in values)


def time(when: datetime | None) -> str:
    """Return a time in UTC to the minute; a hyphen for none."""
    return f"{when:%Y-%m-%d %H:%M}" if when else "-"


def day(when: datetime | None) -> str:
    """Return a day in UTC; a hyphen for none."""
    return f"{when:%Y-%m-%d}" if when else "-"


def outcome(word: str) -> Text:
    """Return an outcome in its word and color."""
    return Text(OUTCOME_WORDS.get(word, line(word, 20)), style=STYLES.get(word, ""))


def table(*names: str, whole: Collection[str] = ()) -> Table:
    """Return an empty table with these columns; those of ``whole`` stay on one line."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in names:
        made.add_column(Text(name), overflow="fold", no_wrap=name in whole)
    return made


def _cell(value: Any) -> Text:
    if value is None:
        return Text("-")
    if isinstance(value, float):
        return Text(number(value))
    return Text(line(str(value), CELL))


def _plain(value: Any) -> Any:
    if (isinstance(value, float) and value != value) or value in (float("inf"), -float("inf")):
        return None
    return f"{value:%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else value


def _csv(value: Any) -> Any:
    value = _plain(value)
    return line(value, 10_000) if isinstance(value, str) else value


def comparison_text(comparison: Comparison) -> RenderableType:
    """Return what changed, equal changes with their hosts folded; then hosts that stayed."""
    parts: list[RenderableType] = [Text(compared_with(comparison), style="bold")]
    for title, changes in changes_by_kind(comparison):
        parts.append(Text(f"\n{title}", style="bold"))
        shown = changes[:MOST_CHANGES]
        parts += [Wrapped(f"{hosts}: {change.text()}", indent=3) for hosts, change in shown]
        if len(changes) > len(shown):
            more = count(len(changes) - len(shown), "more line")
            parts.append(Text(f"{more}; --format csv has all"))
    parts.append(Text())
    parts += [Wrapped(text, indent=3) for text in unchanged_lines(comparison)]
    return Group(*parts)


def compared_with(comparison: Comparison) -> str:
    """Say which run is held against which."""
    runs = sorted(set(comparison.before.values()))
    against = line(runs[0], 80) if len(runs) == 1 else f"{len(runs)} runs, each host's last green"
    return f"{line(comparison.after, 80)} against {against}"


def changes_by_kind(comparison: Comparison) -> list[tuple[str, list[tuple[str, Difference]]]]:
    """Return by the title of each kind its changes, equal ones once with their hosts folded."""
    sections = []
    for kind in KINDS:
        by_text: dict[str, list[Difference]] = {}
        for change in comparison.changes:
            if change.kind == kind:
                by_text.setdefault(change.text(), []).append(change)
        if by_text:
            folded = [(fold([each.host for each in same]), same[0]) for same in by_text.values()]
            sections.append((TITLES[kind], folded))
    return sections


def unchanged_lines(comparison: Comparison) -> list[str]:
    """Return a line for the hosts on which nothing changed, and for those that are not in both."""
    return [
        f"{count(len(hosts), 'host')}, {what}: {fold(hosts)}"
        for what, hosts in {
            "nothing changed": comparison.same,
            "only in the former run": comparison.only_before,
            "no former run to compare with": comparison.only_after,
        }.items()
        if hosts
    ]


def comparison_answer(comparison: Comparison) -> QueryResult:
    """Return a row for each change."""
    names = ("host", "kind", "what", "subject", "before", "after", "share")
    return QueryResult(
        ("host", "former_run", *names[1:]),
        [
            (each.host, comparison.before[each.host], *(getattr(each, n) for n in names[1:]))
            for each in comparison.changes
        ],
    )
