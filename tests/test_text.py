from __future__ import annotations

import pytest

from hwcheck.text import binary_size, block, count, duration, line, number, quantity


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (700.0, "700"),
        (468.63, "468.6"),
        (0.0123456, "0.01235"),
        (99.999, "100"),
        (1.5e12, "1.500e+12"),
        (10**400, "more than 1e308"),
        (float("nan"), "nan"),
        (float("-inf"), "more than 1e308"),
    ],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


def test_quantities() -> None:
    assert quantity(500.0, "W") == "500 W"
    assert quantity(True) == "yes"
    assert quantity(None, "W") == "no value"
    assert quantity("a\x1b[31mb\n") == "ab"
    assert binary_size(64 * 1024 * 1024) == "64 MiB"
    assert binary_size(10**400).endswith("PiB")
    assert duration(1920.0) == "1.92 ms"
    assert (count(1, "host"), count(2, "host")) == ("1 host", "2 hosts")


@pytest.mark.parametrize(
    ("hostile", "harmless"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link", "link"),
        ("a\nb\r\nc\u2028d", "a b c d"),
        ("nul\x00bel\x07csi\x9b", "nulbelcsi"),
        ("bidi\u202eend\u200b", "bidiend"),
        ("lone\ud800", "lone"),
        ("tag\U000e0141", "tag"),
        (" a  b ", "a b"),
    ],
)
def test_line_is_one_line_without_controls(hostile: str, harmless: str) -> None:
    assert line(hostile) == harmless


def test_long_text_is_cut() -> None:
    assert len(line("x" * 1_000_000)) == 300
    assert line("x" * 300) == "x" * 300
    tail = block("first\n" + "y" * 10_000 + "\nlast", 100)
    assert tail.endswith("\nlast")
    assert tail.startswith("[...] ")
    assert len(tail) <= 110


def test_block_keeps_its_lines() -> None:
    assert block("a\r\nb\tc\x00\n") == "a\nb\tc\n"
