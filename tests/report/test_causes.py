"""Causes come first in every output, with what they explain and what to do."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import pytest

from hwcheck.advise.assessment import Assessment
from hwcheck.cli.output import rendered
from hwcheck.report.html import html
from hwcheck.report.markdown import markdown
from hwcheck.report.summary import summary
from hwcheck.report.terminal import terminal
from hwcheck.report.words import explained_actions, explains
from tests import factories
from tests.factories import gpu_host
from tests.report.example import judged

TITLE = "A power limit is set below what the board is made for"


@pytest.fixture(scope="module")
def capped() -> Assessment:
    """One cause that explains one check on one host, and a host that was not reached."""
    lost = factories.record("node03", None, phase="connect", reason="no answer")
    return judged(
        factories.run(gpu_host("node01", power_limit_w=(3, 400.0)), gpu_host("node02"), lost)
    )


def test_an_explained_action_is_not_said_twice(capped: Assessment) -> None:
    advice = capped.advice
    assert [cause.cause for cause in advice.causes.diagnoses] == ["power_limit_lowered"]
    assert explained_actions(advice) == "power_cap"
    assert [action.title for action in advice.open_actions] == ["no whole answer"]
    (explained,) = (action for action in advice.actions if action.explained_by)
    assert explained.explained_by == (TITLE,)


def test_of_several_checks_in_one_action_their_number_is_told(capped: Assessment) -> None:
    (explained,) = (action for action in capped.advice.actions if action.explained_by)
    title = f"30 checks could not be measured: {', '.join(['application_clocks'] * 3)} and 27 more"
    several = replace(explained, title=title, checks=("application_clocks", "bar1_size"))
    advice = replace(capped.advice, actions=(several,))
    assert explained_actions(advice) == "30 checks could not be measured"


def test_the_page_has_causes_before_the_rest(capped: Assessment) -> None:
    page = html(capped)
    causes, besides = page.index("<h2>Causes</h2>"), page.index("<h2>What to do besides</h2>")
    assert (
        causes
        < page.index(TITLE)
        < besides
        < page.index("What the causes above explain: power_cap")
    )
    assert "(certain) on 1 of 3" in page


def test_markdown_and_json(capped: Assessment) -> None:
    text = markdown(capped)
    assert f"### 1. failed: {TITLE}" in text
    assert "The causes above explain: power_cap." in text
    (cause,) = summary(capped)["causes"]
    assert (cause["cause"], cause["confidence"], cause["hosts"]) == (
        "power_limit_lowered",
        "certain",
        ("node01",),
    )


def test_a_healthy_run_has_no_such_part() -> None:
    healthy = judged(factories.run(gpu_host("node01")))
    assert "Causes" not in html(healthy) + markdown(healthy)
    assert "besides" not in html(healthy)


def test_all_parts_of_a_cause_are_in_every_report(capped: Assessment) -> None:
    (cause,) = capped.advice.causes.diagnoses
    causes = replace(capped.advice.causes, diagnoses=(replace(cause, role="some-role"),))
    with_role = replace(capped, advice=replace(capped.advice, causes=causes))
    for render in (_page, _plain_markdown, _printed):
        text = render(with_role)
        for part in (*cause.observed, cause.fix, cause.command, "some-role"):
            assert part in text
        assert "some-role" not in render(capped), "the control"
    for render in (_page, _printed):
        assert cause.effect in render(capped)
        assert explains(cause) in render(capped)
    assert cause.source in _page(capped)


def _page(assessment: Assessment) -> str:
    return unescape(html(assessment))


def _plain_markdown(assessment: Assessment) -> str:
    return re.sub(r"\\(.)", r"\1", markdown(assessment))


def _printed(assessment: Assessment) -> str:
    return " ".join(rendered(terminal(assessment)).split())


def test_what_a_cause_explains_is_folded(capped: Assessment) -> None:
    (cause,) = capped.advice.causes.diagnoses
    many = replace(cause, explains=(*(f"check{n}" for n in range(9)), ""))
    assert re.search(r"check5 and 4 more$", explains(many))
    assert explains(replace(cause, explains=("",))) == "the host as a whole"
