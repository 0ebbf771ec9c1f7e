from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest

from hwcheck.advise.assessment import Assessment
from hwcheck.report import html as module
from hwcheck.report.html import html
from hwcheck.report.words import EXERCISE
from tests import factories
from tests.factories import gpu_host, hung, leg
from tests.report.example import fleet, judged, troubled_fleet

VOID = {"meta", "path", "use", "br", "wbr", "input"}
WBR = "\u200b"
"""Stands for a tag that lets a line end within a word."""
PLAIN = {
    *("html", "head", "title", "style", "body", "section", "div", "strong", "span", "ul", "li"),
    *("h1", "h2", "h3", "h4", "p", "dl", "dt", "dd", "pre", "code", "table", "thead", "tbody"),
    *("tr", "th", "td", "details", "summary", "figure", "figcaption"),
    *("svg", "g", "defs", "text", "clippath", "rect", "header", "nav", "main", "a", "caption"),
    *("label", "select", "option", "output", "script"),
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
        if tag == "wbr":
            self.words.append(WBR)
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
        return " ".join(" ".join(self.words).replace(f" {WBR} ", "").split())


def _order(text: str, *parts: str) -> bool:
    places = [text.index(part) for part in parts]
    return places == sorted(places)


def test_the_most_important_comes_first(shown: Assessment) -> None:
    page = Page(html(shown))
    assert page.tags <= PLAIN | VOID
    assert _order(
        page.text,
        "Drain node[03,05-06]; 2 passed what was asked; 1 unreachable.",
        "3 of 6 hosts failed; 1 could not be reached.",
        "Coverage: measured 35 of 42 applicable checks",
        "connect: no answer from 10.0.0.4:22 within 10 s: node04",
        "What to do besides",
        "leave unset",
        "busbw, default leg",
        "Limits and where they come from",
    )


def test_every_failure_is_there_with_its_remedy_and_source(shown: Assessment) -> None:
    page = Page(html(shown))
    for words in (
        "power_limit_percent 400 of 700 W, 57 %",
        "nvml_gpus 7 of 8 GPUs",
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
    assert "link" not in page.tags
    loading = [value for name, value in page.attributes if name in ("src", "href", "xlink:href")]
    assert all(value.startswith("#") for value in loading)
    assert not re.search(r"url\((?!#)|@import", text)


def test_no_script_runs_but_the_one_that_the_policy_names(shown: Assessment) -> None:
    text = html(shown)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', text)
    named = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{named}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    assert text.count("<script") == 1
    assert not re.search(r"innerHTML|insertAdjacentHTML|eval|document\.write", script)


def test_links_lead_to_something_that_is_there(shown: Assessment) -> None:
    page = Page(html(shown))
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    links = [unquote(value[1:]) for name, value in page.attributes if name == "href"]
    assert set(links) <= set(ids)
    for wanted in ("causes", "hosts", "host-node03", "cause-power_limit_lowered"):
        assert wanted in links, wanted


def test_names_of_hosts_can_be_copied_and_the_controls_wait_for_the_script(
    shown: Assessment,
) -> None:
    text = html(shown)
    assert 'data-what="the names of hosts: drain">node[03,<wbr>05-06]</span>' in text
    assert '<div class="controls no-print" data-table="hosts-table" hidden>' in text


def test_long_lists_of_hosts_break_after_a_comma_and_not_within_a_number() -> None:
    text = html(troubled_fleet(64))
    text = re.sub(r"<(script|style|title)>.*?</\1>|<[^>]* [^>]*>", "", text, flags=re.DOTALL)
    assert text.count(",<wbr>") > 20
    assert re.findall(r".*node\[[\d,-]*\d,\d.*", text) == []


def test_a_long_list_of_hosts_is_scrolled_and_a_short_one_is_not() -> None:
    scrolled = re.compile('tabindex="0" data-what="the names of hosts: ([a-z ]+)"')
    assert scrolled.findall(html(troubled_fleet(640))) == ["not proven"]
    assert scrolled.findall(html(troubled_fleet(64))) == []


def test_racks_are_in_the_map_and_in_the_table() -> None:
    hosts = [gpu_host(f"n{i}", power_limit_w=(0, 300.0) if i == 3 else 700.0) for i in range(6)]
    run = factories.run(*hosts)
    plans = tuple(replace(plan, rack=f"R{1 + at // 3}") for at, plan in enumerate(run.meta.hosts))
    text = html(judged(replace(run, meta=replace(run.meta, hosts=plans))))
    page = Page(text)
    assert "R1, 3: \u2713 3" in page.text
    assert "R2, 3: \u2713 2" in page.text
    assert text.count('data-name="Rack"') == 6
    assert 'data-name="Rack"' not in html(judged(run)), "the control"


def test_light_dark_phone_and_paper(shown: Assessment) -> None:
    text = html(shown)
    assert 'name="viewport"' in text
    for rule in ("prefers-color-scheme: dark", "@media print", "@media (max-width"):
        assert rule in text


def test_each_picture_says_what_it_shows(shown: Assessment) -> None:
    pictures = re.findall(r"<svg [^>]*>", html(shown) + html(fleet(40)))
    assert len(pictures) > 5, "plots of legs, timelines, histograms"
    labels = [re.search(r'role="img".* aria-label="([^"]{15,})"', each) for each in pictures]
    assert all(labels), [each[:200] for each in pictures]


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
    assert text.count("The end of its log:") == module.LOGS
    assert "n000" in text
    assert "More than 16 hosts" in text


def test_a_huge_run_says_what_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SECTIONS", 4)
    monkeypatch.setattr(module, "MOST_ROWS", 6)
    hosts = [gpu_host(f"n{i:03d}", [hung()] if i < 8 else None) for i in range(80)]
    text = html(judged(factories.run(*hosts)))
    table = text.partition('<section id="hosts">')[2]
    assert [
        f'">n{i:03d}</a></td>' in table or f">n{i:03d}</span></td>" in table for i in (0, 5, 6, 40)
    ] == [1, 1, 0, 0]
    assert '74 more hosts are not in this table: <span class="names">n[006-079]' in table
    assert [f'<summary><span class="names">n{i:03d}</span>' in table for i in (0, 3, 4)] == [
        1,
        1,
        0,
    ]
    assert "4 more hosts that did not pass have no section" in table
    assert 'class="names">n[004-007]</span>' in table


def test_a_small_run_shows_every_host_in_full() -> None:
    text = html(judged(factories.run(gpu_host("a"), gpu_host("b"))))
    assert text.count("512 MiB</td>") == 6
    assert "More than 16 hosts" not in text


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
