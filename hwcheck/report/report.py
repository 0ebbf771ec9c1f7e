"""What ``report.html`` and ``report.md`` share: where templates come from, what they are given.

Both are made of the same views by the same kind of template, so that they cannot disagree. All text
is escaped for its format unless it was made by a filter of this module; no template asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup, escape

from hwcheck.advise.assessment import Assessment
from hwcheck.advise.catalogue import Template
from hwcheck.advise.nccl_files import nccl_env
from hwcheck.fold import fold
from hwcheck.judge.coverage import gaps
from hwcheck.judge.legs import wrong_elements
from hwcheck.judge.records import Finding
from hwcheck.report import pair_matrix, words
from hwcheck.report.decision import decide, decision
from hwcheck.report.gates import gate_line, gate_views
from hwcheck.report.multi_host import multi_host_view
from hwcheck.report.topology import topologies
from hwcheck.report.training import training_view
from hwcheck.report.view import QUIET, HostView, leg_figure
from hwcheck.report.waivers import STATES as WAIVER_STATES
from hwcheck.report.waivers import waiver_views
from hwcheck.text import binary_size, block, duration, line, number, quantity

CLASSES = {
    "fail": "fail",
    "inconclusive": "inconclusive",
    "warn": "warn",
    "pass": "pass",
    "not applicable": "quiet",
    "recorded": "quiet",
    "not judged": "quiet",
    "waived": "quiet",
}
SIGNS = {"fail": "\u2715", "inconclusive": "?", "warn": "!", "pass": "\u2713"}

_SPECIAL = re.compile(
    r"([\\`*|~$@#&<>])"  # means something wherever it stands
    r"|((?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))"  # within a word it is no emphasis
    r"|(?<=\])([(\[])|(?<=\[)\^"  # a link, its definition, a footnote
    r"|:(?=//)|(?<=www)\."  # what becomes a link by itself
    r"|(?<![A-Za-z0-9]):(?=[\w+-]+:)"
    r"|^([-+](?=[-\s]|$)|[=\[:])|(?<=^\d)[.)](?=\s|$)",
    re.IGNORECASE,
)
"""What means something to GitHub's Markdown, where it does: the rest is left as it reads."""
_COMMA = re.compile(r",(?=\S)")
ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def render(
    kind: str,
    assessment: Assessment,
    hosts: Sequence[HostView],
    **layout: Any,
) -> str:
    """Render ``report.html.j2`` or ``report.md.j2``; ``kind`` is ``html`` or ``md``.

    ``layout`` is what only this kind of report is given: what there is room for.
    """
    run, judgement, advice = assessment.run, assessment.judgement, assessment.advice
    catalogue = assessment.catalogue
    multi_host, groups = assessment.multi_host, decide(run, judgement, catalogue.checks)
    template = environment(kind, catalogue.templates).get_template(f"report.{kind}.j2")
    return template.render(
        run=run,
        judgement=judgement,
        advice=advice,
        verdict=words.verdict(judgement),
        decision=decision(groups, judgement.fabric),
        groups=groups,
        coverage=words.coverage(judgement),
        gaps=gaps(judgement),
        notes=words.notes(run),
        explained=words.explained_actions(advice),
        gates=gate_views(run),
        topology=topologies(run),
        multi_host=multi_host_view(multi_host, judgement.findings) if multi_host else None,
        training=training_view(assessment.training, catalogue.models)
        if assessment.training
        else None,
        waivers=waiver_views(judgement),
        hosts=hosts,
        **layout,
    )


def _figure(finding: Finding) -> str:
    return quantity(finding.value, finding.unit)


def _wrappable(names: str) -> Markup:
    """Let a line end after a comma of folded names, and not within a number."""
    return Markup(_COMMA.sub(",<wbr>", escape(names)))  # noqa: S704 (escaped)


def environment(kind: str, templates: Mapping[str, Template]) -> jinja2.Environment:
    """Return Jinja's environment for ``html`` or ``md``: these templates come before ours."""
    return _environment(kind, tuple(templates.items()))


@cache
def _environment(kind: str, templates: tuple[tuple[str, Template], ...]) -> jinja2.Environment:
    """Return the environment, which is made here and nowhere else."""
    by_name = dict(templates)

    def of_site(name: str) -> tuple[str, str | None, None] | None:
        return (*by_name[name], None) if name in by_name else None

    of_hwcheck = jinja2.PackageLoader("hwcheck.report")
    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.FunctionLoader(of_site), of_hwcheck]),
        autoescape=kind == "html",  # noqa: S701 (Markdown is escaped by finalize)
        finalize=_markdown_text if kind == "md" else None,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "binary_size": binary_size,
        "code": _code,
        "duration": duration,
        "explains": words.explains,
        "figure": _figure,
        "fold": fold,
        "gate_line": gate_line,
        "leg_figure": leg_figure,
        "line": _line,
        "nccl_env": nccl_env,
        "number": number,
        "why_not": words.why_not,
        "wrappable": _wrappable,
        "with_waived": words.with_waived,
        "wrong_elements": wrong_elements,
    }
    made.globals |= {
        "classes": CLASSES,
        "confidence_words": words.CONFIDENCE_WORDS,
        "exercise": words.EXERCISE,
        "nccl_groups": words.NCCL_GROUPS,
        "pair_legend": pair_matrix.LEGEND,
        "outcome_words": words.OUTCOME_WORDS,
        "quiet": QUIET,
        "signs": SIGNS,
        "waiver_states": WAIVER_STATES,
    }
    return made


class _PlainLine(str):
    """One line of bounded length without controls. It still has to be escaped."""


class _Markdown(str):
    """Text in which nothing has to be escaped for Markdown any more.

    Jinja's own mark for text that is safe in HTML does not count: what a macro returns, or the
    filter ``safe``, is escaped like any text.
    """


def _line(text: str, limit: int = 300) -> str:
    return _PlainLine(line(text, limit))


def _markdown_text(value: object) -> str:
    """Return one line in which no character means anything to Markdown or HTML.

    It has 300 characters at most, where the filter ``line`` did not allow for another number.
    """
    if isinstance(value, _Markdown):
        return value
    plain = value if isinstance(value, _PlainLine) else line(str(value))
    return _SPECIAL.sub(lambda match: ENTITIES.get(match.group(), f"\\{match.group()}"), plain)


def _code(text: str, limit: int = 4000) -> str:
    """Fence a text for Markdown: its last ``limit`` characters, whatever is in them.

    The fence is longer than any run of backticks in it.
    """
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return _Markdown(f"{fence}text\n{block(text, limit).rstrip()}\n{fence}")
