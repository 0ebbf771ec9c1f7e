from __future__ import annotations

import re
from collections import Counter

import pytest
from markdown_it import MarkdownIt

from hwcheck.advise.assessment import Assessment
from hwcheck.report.markdown import MOST_ROWS, markdown
from hwcheck.report.report import environment
from tests import factories
from tests.factories import gpu_host
from tests.report.example import judged


def _outside_code(text: str) -> list[str]:
    """The lines that are not in a fenced block; fails when a fence stays open."""
    lines: list[str] = []
    fence = ""
    for row in text.splitlines():
        mark = re.match(r"(`{3,})", row)
        if fence:
            fence = "" if row == fence else fence
        elif mark:
            fence = mark.group(1)
        else:
            lines.append(row)
    assert fence == ""
    return lines


def test_the_report(shown: Assessment) -> None:
    text = markdown(shown)
    assert text.startswith("# hwcheck: Drain node[03,05-06]; 2 passed what was asked; 1 unreach")
    for part in ("node[03,05-06]", "400 of 700 W, 57 %", "nvidia-smi -q -d POWER"):
        assert part in text
    assert text.index("## What to do") < text.index("## NCCL settings") < text.index("## Hosts")
    assert len(text.splitlines()) < 160, "it is for a ticket"


def test_what_is_unreachable_is_folded_by_reason(shown: Assessment) -> None:
    assert "| connect: no answer from 10.0.0.4:22 within 10 s | | node04 |" in markdown(shown)


def test_settings_are_given_as_a_file() -> None:
    bad = [factories.hung(), factories.leg("p2p_off", 20.0)]
    text = markdown(judged(factories.run(gpu_host("a", bad, nvlink_links=0))))
    assert "export NCCL_P2P_DISABLE=1" in text


def test_an_exercise_is_marked(cpu_only: Assessment) -> None:
    assert "says nothing about GPUs" in markdown(cpu_only)


HARMLESS = {
    *("text", "softbreak", "inline", "fence", "hr", "html_entity", "text_special"),
    *("heading", "paragraph", "bullet_list", "list_item", "blockquote"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}


def _kinds(text: str) -> Counter[str]:
    """What the document consists of, by a parser of CommonMark with GitHub's tables."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    tokens = [inner for token in parser.parse(text) for inner in (token, *(token.children or ()))]
    return Counter(token.type.removesuffix("_open").removesuffix("_close") for token in tokens)


def test_hostile_text_does_not_break_the_document(hostile: Assessment) -> None:
    text = markdown(hostile)
    lines = _outside_code(text)
    assert set(_kinds(text)) <= HARMLESS
    assert "<" not in "\n".join(lines)
    assert not re.search(r"(?<!\\)://|(?<!\\)@", "\n".join(lines)), "what links by itself"
    assert "\x1b" not in text
    assert "x" * 5000 not in text
    tables = [row for row in lines if row.startswith("|")]
    widths = {len(re.findall(r"(?<!\\)\|", row)) for row in tables}
    assert widths <= {4, 5}


@pytest.mark.parametrize(
    "text",
    [
        *(
            "[x](http://a)",
            "![x](http://example.invalid/x.png)",
        ),
        *("*a*", "_a_", "a _b_ c", "**a**", "~~a~~", "`a`", "<b>", "# a", "- a", "+ a"),
        *("1. a", "1) a", "---", "> a"),
    ],
)
def test_text_means_nothing_to_markdown(text: str) -> None:
    template = environment("md", {}).from_string("{{ text }}\n\nafter\n")
    shown = template.render(text=text)
    assert set(_kinds(shown)) <= {"paragraph", "inline", "text", "text_special"}, shown
    assert set(_kinds(text)) - {"paragraph", "inline", "text"}, "the control"


def test_what_takes_two_lines_means_nothing_either() -> None:
    template = environment("md", {}).from_string(
        "a\n{{ one }}\n{{ two }}\n\n{{ definition }}\n\n[x]\n"
    )
    shown = template.render(one="===", two="| - |", definition="[x]: http://a")
    assert set(_kinds(shown)) <= {"paragraph", "inline", "text", "text_special", "softbreak"}


def test_names_and_figures_read_as_they_are() -> None:
    template = environment("md", {}).from_string("{{ text }}")
    for text in ("node[02-03,05-06]", "power_limit_percent 71.4 %", "0000:9a:00.0 (gpu4), 1.5!"):
        assert template.render(text=text) == text


def test_a_fence_is_longer_than_what_is_in_it() -> None:
    template = environment("md", {}).from_string("{{ text | code }}")
    shown = template.render(text="a\n```\n# not a heading\n````\n")
    assert shown.startswith("`````text")
    assert "# not a heading" not in _outside_code(shown)


def test_a_large_run_is_as_short_as_a_small_one() -> None:
    hosts = [
        gpu_host(f"n{i:03d}", power_limit_w=(0, 300.0) if i < 30 else 700.0) for i in range(100)
    ]
    text = markdown(judged(factories.run(*hosts)))
    assert text.count("\n| n0") == MOST_ROWS
    assert "and 10 more: n[020-029]" in text
    assert len(text.splitlines()) < 100
