from __future__ import annotations

import io

import pytest
from rich.console import Console

from hwcheck.report.wrap import Wrapped


def lines(width: int, *parts: str | tuple[str, str], indent: int = 0) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system="standard")
    console.print(Wrapped(*parts, indent=indent), crop=False)
    return out.getvalue().splitlines()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one two three", ["one two", "three"]),
        ("n[1,3,5,7]", ["n[1,3,5,", "7]"]),
        ("a, b, c, d, e", ["a, b, c,", "d, e"]),
        ("longer-than-it-is x", ["longer-than-it-is", "x"]),
        ("12345678 1", ["12345678", "1"]),
        ("\u4e2d\u4e2d\u4e2d \u4e2d", ["\u4e2d\u4e2d\u4e2d", "\u4e2d"]),
        ("", [""]),
    ],
)
def test_lines_end_between_words(text: str, shown: list[str]) -> None:
    assert lines(8, text) == shown


def test_an_indent_is_part_of_the_width() -> None:
    assert lines(8, "one two three", indent=3) == ["   one", "   two", "   three"]


def test_styles_stay_on_their_words() -> None:
    assert lines(8, ("failed", "red"), " node01") == ["\x1b[31mfailed\x1b[0m", "node01"]


def test_markup_stays_text() -> None:
    assert lines(40, "[bold]x[/bold]") == ["[bold]x[/bold]"]
