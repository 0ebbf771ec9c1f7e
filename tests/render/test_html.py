from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from hwcheck.advise.assessment import Assessment
from hwcheck.render import html as module
from hwcheck.render.html import html
from hwcheck.render.words import EXERCISE
from tests import factories
from tests.factories import gpu_host, hung, leg
from tests.render.example import judged

VOID = {"meta", "path", "use", "br"}
PLAIN = {
    *("html", "head", "title", "style", "body", "section", "div", "strong", "span", "ul", "li"),
    *("h1", "h2", "h3", "h4", "p", "dl", "dt", "dd", "pre", "code", "table", "thead", "tbody"),
    *("tr", "th", "td", "details", "summary", "figure", "figcaption"),
    *("svg", "g", "defs", "text", "clippath", "rect"),
}


class Page(HTMLParser):
    """Checks that tags nest, and keeps what is needed to judge the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def _order(text: str, *parts: str) -> bool:
    places = [text.index(part) for part in parts]
    return places == sorted(places)


def test_the_most_important_comes_first(shown: Assessment) -> None:
    page = Page(html(shown))
    assert page.tags <= PLAIN | VOID
    assert _order(
        page.text,
        "3 of 6 hosts failed; 1 could not be judged in full.",
        "Coverage: measured 35 of 42 applicable checks",
        "node[03,05-06]",
        "What to do",
        "NCCL settings",
        "busbw, default leg",
        "What was asked",
    )


def test_every_failure_is_there_with_its_remedy_and_source(shown: Assessment) -> None:
    page = Page(html(shown))
    for words in (
        "power_limit_percent 57.1 %",
        "nvml_gpus 7 GPUs",
        "leg default on node05: leg_state hang",
        "no answer from 10.0.0.4:22",
        "no sign of life for 20 s, killed",
        "target_power_min_ratio",
        "(vendor)",
        "nvidia-smi -q -d POWER",
    ):
        assert words in page.text


def test_nothing_is_loaded_from_anywhere(shown: Assessment) -> None:
    text = html(shown)
    page = Page(text)
    assert "script" not in page.tags
    assert "link" not in page.tags
    loading = [value for name, value in page.attributes if name in ("src", "href", "xlink:href")]
    assert all(value.startswith("#") for value in loading)
    assert not re.search(r"url\((?!#)|@import", text)


def test_light_dark_phone_and_paper(shown: Assessment) -> None:
    text = html(shown)
    assert 'name="viewport"' in text
    for rule in ("prefers-color-scheme: dark", "@media print", "@media (max-width"):
        assert rule in text


def test_an_exercise_is_marked(cpu_only: Assessment) -> None:
    page = Page(html(cpu_only))
    assert EXERCISE in page.text
    assert "No GPU was measured in this run." in page.text
    assert "6 not applicable" in page.text
    assert "Not applicable: driver, gpu_count" in page.text
    assert EXERCISE not in Page(html(judged(factories.run(gpu_host("a"))))).text


def test_an_interrupted_run_says_so() -> None:
    text = html(judged(factories.run(gpu_host("a"), interrupted=True)))
    assert "The run was stopped before its end" in text


def test_hostile_text_stays_text(hostile: Assessment) -> None:
    text = html(hostile)
    page = Page(text)
    assert page.tags <= PLAIN | VOID
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert not any(value.startswith("javascript:") for _, value in page.attributes)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", text)
    assert "x" * 5000 not in text
    if "7 * 7" in text:
        assert "{{ 7 * 7 }}" in page.text
    text.encode("utf-8")


def test_the_same_run_gives_the_same_page(shown: Assessment) -> None:
    assert html(shown) == html(shown)


def test_a_large_run_stays_small_and_keeps_what_failed() -> None:
    log = "rank 0: line\n" * 1500
    bad = [hung(log_tail=log), leg("p2p_off", 38.0), leg("net", 9.0)]
    hosts = [gpu_host(f"n{i:03d}", bad if i % 2 else None) for i in range(150)]
    text = html(judged(factories.run(*hosts)))
    assert len(text) / len(hosts) < 10_000  # 1,000 hosts stay under 10 MB
    assert text.count("<details") == 75 * 3 + 1  # one for what the causes explain
    assert text.count("The end of its log:") == module.LOGS
    assert "n000" in text
    assert "More than 64 hosts" in text


def test_a_huge_run_says_what_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SECTIONS", 4)
    monkeypatch.setattr(module, "MOST_ROWS", 6)
    hosts = [gpu_host(f"n{i:03d}", [hung()] if i < 8 else None) for i in range(80)]
    text = html(judged(factories.run(*hosts)))
    table = text.partition('<section id="hosts">')[2]
    assert [f'<td class="names">n{i:03d}</td>' in table for i in (0, 5, 6, 40)] == [1, 1, 0, 0]
    assert '74 more hosts are not in this table: <span class="names">n[006-079]' in table
    assert [f'<span class="names">n{i:03d}</span>' in table for i in (0, 3, 4)] == [1, 1, 0]
    assert "4 more hosts that did not pass have no section" in table
    assert 'class="names">n[004-007]</span>' in table


def test_a_small_run_shows_every_host_in_full() -> None:
    text = html(judged(factories.run(gpu_host("a"), gpu_host("b"))))
    assert text.count("512 MiB</td>") == 6
    assert "More than 64 hosts" not in text


def test_both_halves_of_a_size_and_the_way_of_the_data_are_shown() -> None:
    made = leg(collective="all_gather")
    last = made.sizes[-1]
    half = replace(last, wrong=3, passes=3, pass_spread=0.07)
    shown = replace(
        made, sizes=(replace(last, in_place=half),), transport={"P2P/CUMEM": 96, "<b>": "<i>"}
    )
    text = html(judged(factories.run(gpu_host("a", [shown]))))
    assert "1 GiB in place" in text
    assert "20 in 3 turns" in text
    assert "turns 7 %" in text
    assert "NCCL went by P2P/CUMEM 96, &lt;b&gt; &lt;i&gt;." in text
