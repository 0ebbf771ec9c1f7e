"""Lines for a terminal of any width, in which no name is broken."""

from __future__ import annotations

import re

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

_PIECE = re.compile(r"[^\s,]*(?:,\s*|\s+|\Z)")
"""A line may end after white space and after a comma, as in ``node[01-03,07]``."""


class Wrapped:
    """A text that breaks between words only. A longer word runs on (print with ``crop=False``)."""

    def __init__(self, *parts: str | tuple[str, str], indent: int = 0) -> None:
        self._text = Text.assemble(*parts)
        self._indent = indent

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        width = options.max_width - self._indent
        for part in self._text.divide(_cuts(self._text.plain, width)):
            part.rstrip()
            yield Text(" " * self._indent, no_wrap=True, overflow="ignore").append_text(part)


def _cuts(text: str, width: int) -> list[int]:
    """Return where the lines after the first begin."""
    cuts: list[int] = []
    start = 0
    for piece in _PIECE.finditer(text):
        if piece.start() > start and cell_len(text[start : piece.end()].rstrip()) > width:
            start = piece.start()
            cuts.append(start)
    return cuts
