"""A length of time has one grammar, in flags and in files."""

from __future__ import annotations

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.fleet.accept.criteria import parse_criteria
from hwcheck.times import length_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("90m", 5400),
        ("1.5h", 5400),
        ("8h", 28800),
        ("1d", 86400),
        ("4w", 2419200),
        ("0.001s", 0.001),
    ],
)
def test_what_it_takes(text: str, seconds: float) -> None:
    assert length_s(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "h", "8hh", "8 h", "-8h", "1h30m", "0", "0.0h", "inf", "1e3", "\u0661m", "9" * 40]
)
def test_what_it_refuses_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match="is no time; it takes seconds, or 45m, 8h, 7d, 4w") as it:
        length_s(text)
    assert len(str(it.value)) < 100


@pytest.mark.parametrize(("burn_in", "seconds"), [("90m", 5400), ("1d", 86400), ("3600", 3600)])
def test_criteria_take_the_same(burn_in: str, seconds: float) -> None:
    text = f"""\
format: 1
name: order
burn_in: {burn_in!r}
requirements:
  - {{id: R, text: right, source: order, stage: idle, checks: [xid]}}
"""
    assert parse_criteria(text, "order.yml", shipped()).burn_in_s == seconds
