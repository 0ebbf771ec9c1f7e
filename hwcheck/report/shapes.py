"""Small drawings for the page, of boxes, paths and words: what the page's own styles color.

For axes there is matplotlib (``svg``); these have none, and a large run has dozens of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import escape


def drawing(width: float, height: float, label: str, parts: Iterable[str]) -> str:
    """Return the element; ``label`` says in words what there is to see."""
    bounds = f"max-width: {width / 16:g}rem; min-width: {width / 26:.3g}rem"
    return (
        f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {width:g} {height:g}" '
        f'style="{bounds}">{"".join(parts)}</svg>'
    )


def box(x: float, y: float, width: float, height: float, kind: str) -> str:
    """Return a box; ``kind`` is its class."""
    return (
        f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3"/>'
    )


def words(x: float, y: float, text: str, kind: str = "", anchor: str = "middle") -> str:
    """Return a text whose baseline is at ``y``; it is escaped."""
    of_kind = f' class="{kind}"' if kind else ""
    return f'<text{of_kind} x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def path(steps: str, kind: str) -> str:
    """Return a path of SVG's own steps."""
    return f'<path class="{kind}" d="{steps}"/>'
