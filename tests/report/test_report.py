"""Templates: a site's take the place of ours, and no text gets out of its place in Markdown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck.advise.assessment import Assessment
from hwcheck.advise.catalogue import Template
from hwcheck.report.html import html
from hwcheck.report.markdown import markdown
from hwcheck.report.report import environment
from tests.factories import HOSTILE

LINK = "[x](javascript:alert(1)) <b> | `c`"
ESCAPED = r"\[x]\(javascript:alert(1)) &lt;b&gt; \| \`c\`"


def made(source: str, **variables: object) -> str:
    return environment("md", {}).from_string(source).render(**variables)


@pytest.mark.parametrize(
    "source",
    [
        "{{ text }}",
        "{{ text | line(400) }}",
        "{{ '' ~ text }}",
        "{{ [text] | join }}",
        "{{ text if text }}",
        "{% for each in [text] %}{{ each }}{% endfor %}",
    ],
)
def test_every_text_is_escaped_for_markdown(source: str) -> None:
    assert made(source, text=LINK) == ESCAPED


@pytest.mark.parametrize(
    "source",
    [
        "{{ text | safe }}",
        "{% macro m(each) %}{{ each }}{% endmacro %}{{ m(text) }}",
        "{% macro m(each) %}{{ each }}{% endmacro %}{{ m('') ~ text }}",
        "{% set each %}{{ text }}{% endset %}{{ each }}",
        "{{ text | code | line(400) }}",
    ],
)
def test_there_is_no_way_around_it(source: str) -> None:
    text = made(source, text=LINK)
    for character in "|`":
        assert text.count(character) == text.count(f"\\{character}")
    assert "](" not in text
    assert "<" not in text


def test_a_text_is_one_line_and_short_unless_a_template_allows_for_more() -> None:
    assert made("{{ text }}", text="one\n# two\r\nthree") == r"one \# two three"
    assert len(made("{{ text }}", text="x" * 1000).replace("\\", "")) == 300
    assert made("{{ text | line(1000) }}", text="x" * 1000) == "x" * 1000


@pytest.mark.parametrize("text", ["a", "a```b", "```\n# heading\n````", "\x1b[31mred", "x" * 9000])
def test_code_stays_in_its_fence(text: str) -> None:
    first, *lines, last = made("{{ text | code }}", text=text).split("\n")
    assert first == f"{last}text"
    assert set(last) == {"`"}
    assert all(last not in line for line in lines)
    assert "\x1b" not in "".join(lines)
    assert len("\n".join(lines)) <= 4000 + len("[...] ")


@pytest.mark.parametrize("text", HOSTILE)
def test_html_is_escaped(text: str) -> None:
    text = environment("html", {}).from_string("{{ text }}{{ '' ~ text }}").render(text=text)
    assert not set("<>\"'") & set(text)


def test_a_template_of_the_site_wins_and_escapes_like_ours(shown: Assessment) -> None:
    texts = {
        "causes.md.j2": "\nOur runbook: {{ '[a](b)' }} {{ hosts | length }}\n",
        "causes.html.j2": "<p>Our runbook: {{ '<i>' }}</p>",
    }
    templates = {name: Template(text, name) for name, text in texts.items()}
    of_site = replace(shown, catalogue=replace(shown.catalogue, templates=templates))
    text, page = markdown(of_site), html(of_site)
    assert r"Our runbook: \[a]\(b) 6" in text
    assert "<p>Our runbook: &lt;i&gt;</p>" in page
    for made, title in ((text, "What to do"), (page, "What to do")):
        assert title in made, "the other templates are ours"
    for made in (markdown(shown), html(shown)):
        assert "Our runbook" not in made, "the control"
