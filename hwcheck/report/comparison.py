"""A comparison of two runs as a page: a bar for each figure that changed, and all else."""

from __future__ import annotations

from hwcheck.history.compare import Comparison
from hwcheck.report.history import changes_by_kind, compared_with, unchanged_lines
from hwcheck.report.report import environment

MOST_BARS = 60
"""So many figures have a bar, those that changed most; all are in the list below them."""
LEAST_SCALE = 0.05
"""A bar of its whole length is at least this share: where little changed, bars are short."""


def comparison_html(comparison: Comparison) -> str:
    """Return a page of its own, which loads nothing from anywhere."""
    kinds = changes_by_kind(comparison)
    bars = [
        (hosts, change, change.share)
        for _, changes in kinds
        for hosts, change in changes
        if change.share is not None
    ]
    bars.sort(key=lambda bar: -abs(bar[2]))
    scale = max([LEAST_SCALE, *(abs(share) for _, _, share in bars)])
    page = environment("html", {}).get_template("comparison.html.j2")
    return page.render(
        title=compared_with(comparison),
        bars=[
            {"hosts": hosts, "change": change, "share": share, "width": 100 * abs(share) / scale}
            for hosts, change, share in bars[:MOST_BARS]
        ],
        more_bars=len(bars) - len(bars[:MOST_BARS]),
        scale=scale,
        kinds=[
            (title, [(hosts, change.text()) for hosts, change in changes])
            for title, changes in kinds
        ],
        unchanged=unchanged_lines(comparison),
    )
