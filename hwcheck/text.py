"""Text that people read: node text made harmless, figures made short.

What comes from a node is hostile. Here it loses what could act on a terminal or hide itself;
escaping for HTML, Markdown or XML is the renderer's own work.
"""

from __future__ import annotations

import math
import re
import sys

from hwcheck.contract.wire import Value

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colors, cursor
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\)"  # OSC, DCS: titles, links, clipboards
    r"|\x1b[ -/]*[0-~]",
    re.DOTALL,
)
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1 controls but tab and newline
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"  # zero width and writing direction
    "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"  # no characters, and not legal in XML
    "\U000e0000-\U000e0fff]"  # tags: unseen copies of ASCII
)

BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def block(text: str, limit: int = 4000) -> str:
    """Return lines of text without controls, cut to the last ``limit`` characters."""
    kept = text[-2 * limit :]  # bounds the work before the patterns run
    kept = _UNSEEN.sub("", _ESCAPES.sub("", kept.replace("\r\n", "\n").replace("\r", "\n")))
    return kept if len(kept) <= limit and len(text) <= 2 * limit else "[...] " + kept[-limit:]


def line(text: str, limit: int = 300) -> str:
    """Return one line without controls, cut to ``limit`` characters."""
    if len(text) <= limit and text.isascii() and text.isprintable() and _is_line(text):
        return text  # as most are, of which a node may send many
    kept = text[: 4 * limit + 200]
    kept = _UNSEEN.sub("", " ".join(_ESCAPES.sub("", kept).split()))
    if len(kept) <= limit and len(text) <= 4 * limit + 200:
        return kept
    return kept[: limit - 4] + " ..."


def _is_line(text: str) -> bool:
    return "  " not in text and text == text.strip()


def number(value: float) -> str:
    """Return four significant figures, without an exponent where that reads well."""
    if abs(value) > sys.float_info.max:  # JSON has whole numbers of any length
        return "more than 1e308"
    if not math.isfinite(value):
        return str(value)
    if float(value).is_integer() and abs(value) < 1e9:
        return str(int(value))
    if 1e-3 <= abs(value) < 1e9:
        digits = max(0, 3 - math.floor(math.log10(abs(value))))
        return f"{value:.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:.0f}"
    return f"{value:.3e}"


def quantity(value: Value | None, unit: str = "") -> str:
    """Return a value with its unit: ``500 W``, ``yes``, ``no value``."""
    if value is None:
        return "no value"
    if isinstance(value, bool):
        return "yes" if value else "no"
    shown = line(value) if isinstance(value, str) else number(value)
    return f"{shown} {line(unit, 40)}".rstrip()


def binary_size(count: int) -> str:
    """Return a number of bytes with a binary prefix: ``64 MiB``."""
    size, power = float(min(count, 10**18)), 0
    while size >= 1024 and power < len(BINARY_UNITS) - 1:
        size, power = size / 1024, power + 1
    return f"{number(size)} {BINARY_UNITS[power]}"


def duration(microseconds: float) -> str:
    """Return a time given in microseconds: ``86.3 us``, ``1.92 ms``, ``2.1 s``."""
    for scale, unit in ((1e6, "s"), (1e3, "ms")):
        if microseconds >= scale:
            return f"{microseconds / scale:.3g} {unit}"
    return f"{microseconds:.3g} us"


def length(seconds: float) -> str:
    """Return a time as people say it: ``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def count(amount: int, noun: str) -> str:
    """Return ``1 host``, ``2 hosts``."""
    return f"{amount} {noun}" if amount == 1 else f"{amount} {noun}s"
