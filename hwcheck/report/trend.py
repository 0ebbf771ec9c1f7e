"""A trend as a picture: the values, the band of all hosts, the limit, and what changed when."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from markupsafe import Markup
from rich.console import Group, RenderableType
from rich.text import Text

from hwcheck.history.trend import Mark, Point, Trend
from hwcheck.report.history import sparkline, table, time
from hwcheck.report.svg import INK, drawing, inline_svg
from hwcheck.text import binary_size, line, number, quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = {
    "#000031": "leg-default",
    "#000032": "leg-p2p-off",
    "#000033": "leg-net",
    "#000034": "leg-site",
    "#000035": "leg-nvlink-only",
    "#000036": "leg-p2p-sys",
    "#000037": "fail",
    "#000038": "warn",
}
"""Stand-ins for the colors of the page."""
ON_PAPER = dict(
    zip(
        COLORS,
        ("#0b62b4", "#b65a00", "#16794a", "#7b3fb0", "#a3174f", "#5b6169", "#a8201a", "#7d5200"),
        strict=True,
    )
)
LINES = tuple(COLORS)[:6]
MARKERS = "osD^vP"
FAIL, WARN = "#000037", "#000038"
MOST_MARKS = 26
MOST_ROWS = 60
FORMATS = (".png", ".html")


def title(trend: Trend) -> str:
    """Say what the picture shows."""
    asked = trend.asked
    of = f" of {line(asked.subject, 60)}" if asked.subject else ""
    at = f" at {binary_size(asked.size_bytes)}" if asked.size_bytes else ""
    return f"{line(asked.name, 120)}{of}{at}: {trend.about}"


def mark_lines(trend: Trend) -> list[str]:
    """Return what the letters in the picture stand for."""
    lines = [f"{chr(ord('A') + i)}: {mark.text()}" for i, mark in enumerate(_shown(trend))]
    more = len(trend.marks) - len(lines)
    return [*lines, f"{more} more changes are not marked"] if more > 0 else lines


def _shown(trend: Trend) -> Sequence[Mark]:
    return trend.marks[:MOST_MARKS]


def trend_text(trend: Trend) -> RenderableType:
    """Return the trend for the terminal: a line for each subject, then of the median of all."""
    parts: list[RenderableType] = [Text(title(trend), style="bold")]
    unit = trend.asked.unit
    lines = table("Subject", "First", "Last", "Lowest", "Highest", "Runs", "Over time")
    for name, points in _series(trend):
        values = [point.value for point in points]
        shown = [
            quantity(value, unit) for value in (values[0], values[-1], min(values), max(values))
        ]
        lines.add_row(name, *shown, str(len(values)), sparkline(values[-MOST_ROWS:]))
    middle = [band.middle for band in trend.bands]
    shown = [quantity(value, unit) for value in (middle[0], middle[-1], min(middle), max(middle))]
    lines.add_row("median of all", *shown, str(len(middle)), sparkline(middle[-MOST_ROWS:]))
    parts.append(lines)
    first, last = trend.bands[0].started, trend.bands[-1].started
    parts.append(Text(f"from {time(first)} to {time(last)} UTC"))
    if trend.limit:
        parts.append(Text(f"limit today: {line(trend.limit, 300)}"))
    parts += [Text(mark.text()) for mark in trend.marks[-MOST_MARKS:]]
    return Group(*parts)


def trend_html(trend: Trend) -> str:
    """Return a page of its own, which loads nothing from anywhere."""
    with drawing(9.0, 4.4) as figure:
        _draw(figure, trend)
        svg = inline_svg(figure, COLORS)
    from hwcheck.report.report import environment  # not above: Jinja is for pages

    page = environment("html", {}).get_template("trend.html.j2")
    return page.render(
        title=title(trend),
        svg=Markup(svg),  # noqa: S704 (what is in it has lost what means anything to HTML)
        marks=mark_lines(trend),
        limit=trend.limit,
        rows=[
            (name, quantity(points[-1].value, trend.asked.unit), time(points[-1].started))
            for name, points in _series(trend)
        ],
    )


def trend_png(trend: Trend) -> bytes:
    """Return the picture as PNG, dark on white, with what the marks stand for below."""
    notes = mark_lines(trend) + ([f"limit today: {line(trend.limit, 200)}"] if trend.limit else [])
    out = io.BytesIO()
    with drawing(11.0, 5.6 + 0.18 * len(notes)) as figure:
        _draw(figure, trend, ON_PAPER)
        figure.suptitle(title(trend), fontsize=12)
        if notes:
            figure.supxlabel("\n".join(notes), fontsize=8, ha="left", x=0.02)
        figure.savefig(out, format="png", dpi=110, facecolor="white")
    return out.getvalue()


def _series(trend: Trend) -> list[tuple[str, list[Point]]]:
    """Return the points by what they are of, in words."""
    hosts = {point.host for point in trend.points}
    by_name: dict[str, list[Point]] = {}
    for point in trend.points:
        parts = [line(point.host, 60)] if len(hosts) > 1 else []
        parts += [line(point.subject, 60)] if point.subject != "node" else []
        by_name.setdefault(" ".join(parts) or line(point.host, 60), []).append(point)
    return list(by_name.items())


def _draw(figure: Figure, trend: Trend, colors: dict[str, str] | None = None) -> None:
    """Draw into a figure. Without ``colors`` the stand-ins stay, for a page to fill in."""
    from matplotlib.dates import date2num

    def day(when: datetime) -> float:
        return float(date2num(when))  # type: ignore[no-untyped-call]

    paint = colors or {name: name for name in COLORS}
    axes = figure.add_subplot()
    when = [day(band.started) for band in trend.bands]
    low, high = [band.low for band in trend.bands], [band.high for band in trend.bands]
    axes.fill_between(when, low, high, color=INK, alpha=0.12, linewidth=0, label="80 % of all")
    middle = [band.middle for band in trend.bands]
    axes.plot(when, middle, color=INK, alpha=0.45, linewidth=1, label="median of all")
    for place, (name, points) in enumerate(_series(trend)):
        color = paint[LINES[place % len(LINES)]]
        marker = MARKERS[place // len(LINES) % len(MARKERS)]
        xs, ys = [day(point.started) for point in points], [point.value for point in points]
        axes.plot(xs, ys, color=color, marker=marker, markersize=3, linewidth=1.2, label=name)
    for border, color, word in ((trend.fail_at, FAIL, "fails"), (trend.warn_at, WARN, "warns")):
        if border is not None:
            label = f"{word} beyond {number(border)}"
            axes.axhline(border, color=paint[color], linestyle="--", linewidth=1.2, label=label)
    axes.xaxis_date()
    top = axes.get_xaxis_transform()
    for place, mark in enumerate(_shown(trend)):
        axes.axvline(day(mark.started), color=INK, alpha=0.5, linestyle=":", linewidth=1)
        letter = chr(ord("A") + place)
        axes.text(
            day(mark.started), 1.01, letter, transform=top, ha="center", va="bottom", fontsize=9
        )
    axes.set_ylabel(line(trend.asked.unit, 40) or "value")
    axes.grid(visible=True, axis="y", color=INK, alpha=0.15, linewidth=0.8)
    axes.tick_params(axis="x", labelrotation=20)
    handles, _ = axes.get_legend_handles_labels()
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=9, ncols=1 + len(handles) // 20
    )
