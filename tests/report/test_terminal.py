from __future__ import annotations

import io

import pytest
from rich.console import Console

from hwcheck.advise.assessment import Assessment
from hwcheck.report.terminal import terminal
from tests import factories
from tests.factories import gpu_host
from tests.report.example import judged


def _print(result: Assessment, *, width: int = 120, color: bool = False) -> str:
    out = io.StringIO()
    Console(
        file=out, width=width, force_terminal=color, color_system="standard" if color else None
    ).print(terminal(result), crop=False)
    return out.getvalue()


def _words(text: str) -> str:
    return " ".join(text.split())


def test_verdict_hosts_and_what_to_do(shown: Assessment) -> None:
    text = _words(_print(shown))
    assert text.startswith(
        "Drain node[03,05-06]; 2 passed what was asked; 1 unreachable. "
        "3 of 6 hosts failed; 1 could not be reached."
    )
    for part in (
        "node[01-02]",
        "433.6 to 446.5 GB/s at 1 GiB",
        "2. failed (certain) A power limit is set below what the board is made for, on node03",
        "Confirm with: nvidia-smi -q -d POWER",
        "1. inconclusive no whole answer on node04",
        "NCCL: no setting for all of these hosts",
        "report.html",
    ):
        assert part in text


def test_it_fits_a_narrow_terminal(shown: Assessment) -> None:
    rows = _print(shown, width=60).splitlines()
    assert max(len(row.rstrip()) for row in rows) <= 60


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 120])
def test_no_name_and_no_outcome_is_broken(width: int) -> None:
    names = ["gpu-node-h100-0001.rack07", "gpu-node-h100-0002.rack07"]
    slow = gpu_host(names[0], power_limit_w=300.0)
    down = factories.record(names[1], None, reason="down")
    text = _print(judged(factories.run(slow, down)), width=width)
    printed = text.replace(",", " ").split()
    for word in ("failed", "inconclusive", *names):
        assert word in printed
    assert max(len(row.rstrip()) for row in text.splitlines()) <= max(width, 41)  # the path
    assert ("outcome  " in text) == (width > 110)


@pytest.mark.parametrize("width", [40, 120])
def test_folded_names_break_after_a_comma(width: int) -> None:
    bad = [gpu_host(f"node{i:03d}", power_limit_w=300.0) for i in range(1, 60, 2)]
    rows = _print(judged(factories.run(*bad)), width=width).splitlines()
    at = next(index for index, row in enumerate(rows) if row.startswith("failed node["))
    folded = ["failed node[001,", *[f"{i:03d}," for i in range(3, 59, 2)], "059]"]
    assert "".join(rows[at : rows.index("   measured 7 of 7")]) == "".join(folded)
    assert all(row.endswith((",", "]")) for row in rows[at : rows.index("   measured 7 of 7")])


def test_an_exercise_is_marked(cpu_only: Assessment) -> None:
    text = _words(_print(cpu_only))
    assert "exercise: gloo on the CPU" in text
    assert "No GPU was measured in this run." in text


def test_hostile_text_reaches_no_terminal(hostile: Assessment) -> None:
    text = _print(hostile)
    assert "\x1b" not in text
    assert not any(ord(char) < 32 and char != "\n" for char in text)
    assert len(text) < 40_000


def test_markup_from_a_node_stays_text() -> None:
    reason = "[bold red]x[/bold red] [/] [link=http://example.invalid]"
    dead = factories.record("a", None, phase="connect", reason=reason)
    assert "[bold red]x[/bold red]" in _words(_print(judged(factories.run(dead))))


def test_a_hundred_equal_hosts_are_one_row() -> None:
    text = _print(judged(factories.run(*(gpu_host(f"n{i:04d}") for i in range(100)))))
    assert "n[0000-0099]" in text
    assert len(text.splitlines()) < 15
