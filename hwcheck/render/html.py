"""``report.html``: one self-contained page. No script, nothing is loaded from anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import jinja2
from markupsafe import Markup

from hwcheck.advise.records import Advice
from hwcheck.fold import fold
from hwcheck.judge.coverage import gaps
from hwcheck.judge.legs import is_clean, largest
from hwcheck.judge.records import Judgement
from hwcheck.node import checks
from hwcheck.node.wire import Leg, SizeTiming
from hwcheck.render import words
from hwcheck.render.causes import explains
from hwcheck.render.gates import gate_views
from hwcheck.render.legs import leg_figure, transport
from hwcheck.render.multi_host import group_view
from hwcheck.render.topology import topologies
from hwcheck.render.view import CheckView, HostView, host_views
from hwcheck.results.multi_host import GroupRecord
from hwcheck.results.run_folder import Run
from hwcheck.results.series import Observed
from hwcheck.text import binary_size, block, duration, line, number

DETAILED_HOSTS = 64
"""In a larger run, hosts that passed get one line, and a leg shows its largest size only."""

MOST_SECTIONS = 100
"""So many hosts have a section; a large run whose every host failed still makes a page to open."""
MOST_ROWS = 2000
"""In a run of more hosts, the table has no line for those that passed, and so many at most."""

OPEN_HOSTS = 6
LOGS = 20
LOG_CHARACTERS = 4000

CLASSES = {
    "fail": "fail",
    "inconclusive": "inconclusive",
    "warn": "warn",
    "pass": "pass",
    "not applicable": "quiet",
    "recorded": "quiet",
}
SIGNS = {"fail": "\u2715", "inconclusive": "?", "warn": "!", "pass": "\u2713"}


QUIET = ("pass", "recorded")
"""Outcomes of a check that are no complaint."""


@dataclass(frozen=True)
class LimitView:
    """A limit that a check declares, in words."""

    check: str
    metric: str
    text: str
    source: str
    confidence: str


@dataclass(frozen=True)
class LegView:
    """One leg as the page shows it; ``log`` is empty where it is left out or there is none."""

    leg: Leg
    figure: str
    transport: str
    bad: bool
    sizes: tuple[SizeTiming, ...]
    log: str
    log_left_out: bool


@dataclass(frozen=True)
class HostDetails:
    """One host's section."""

    view: HostView
    bad: tuple[CheckView, ...]
    good: tuple[CheckView, ...]
    legs: tuple[LegView, ...]
    not_applicable: tuple[tuple[str, str], ...]
    opened: bool


def html(
    run: Run,
    judgement: Judgement,
    advice: Advice,
    observed: Mapping[str, Observed] = MappingProxyType({}),
    group: GroupRecord | None = None,
) -> str:
    """Return the page as text; deterministic for the same run.

    ``observed`` is what to draw of hosts at work (``marks.drawn_hosts`` says which are wanted);
    ``group`` is what was run over several hosts.
    """
    # Not above: matplotlib takes most of a second, and most commands draw nothing.
    from hwcheck.render import plot
    from hwcheck.render.series import series_plots

    views = list(host_views(run, judgement))
    brief = len(views) > DETAILED_HOSTS
    bad = [view for view in views if view.verdict.outcome != "pass"]
    shown = bad if brief else views
    rows = bad[:MOST_ROWS] if len(views) > MOST_ROWS else views
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            run=run,
            judgement=judgement,
            advice=advice,
            verdict=words.verdict(judgement),
            coverage=words.coverage(judgement),
            gaps=gaps(judgement),
            gates=gate_views(run),
            notes=words.notes(run),
            groups=words.outcome_groups(judgement),
            plots=[(item.caption, Markup(item.svg)) for item in plot.plots(run)],  # noqa: S704
            loads=[
                (item.caption, Markup(item.svg))  # noqa: S704
                for item in series_plots(run, judgement, observed)
            ],
            topology=topologies(run),
            group=group_view(group) if group else None,
            hosts=views,
            rows=rows,
            no_row=_without(views, rows),
            details=_details(shown[:MOST_SECTIONS], brief=brief),
            no_section=_names(shown[MOST_SECTIONS:]),
            limits=list(_limits(run)),
            brief=brief,
            limit=DETAILED_HOSTS,
        )
    )


def _names(views: Iterable[HostView]) -> list[str]:
    return [view.name for view in views]


def _without(views: Iterable[HostView], some: Iterable[HostView]) -> list[str]:
    """Return the names of the other hosts."""
    named = set(_names(some))
    return [name for name in _names(views) if name not in named]


def _limits(run: Run) -> Iterator[LimitView]:
    registry = checks.load()
    for name in run.meta.checks:
        for metric in registry[name].metrics if name in registry else ():
            for limit in metric.limits:
                yield LimitView(name, metric.name, limit.text(), limit.source, limit.confidence)


def _details(views: Iterable[HostView], *, brief: bool) -> Iterator[HostDetails]:
    logs_left = LOGS
    for index, view in enumerate(views):
        legs = []
        for leg in (leg for check in view.checks for leg in check.legs):
            item = _leg_view(leg, brief=brief, log=logs_left > 0)
            logs_left -= bool(item.log)
            legs.append(item)
        apply = [check for check in view.checks if check.outcome != "not applicable"]
        yield HostDetails(
            view,
            bad=tuple(check for check in apply if check.outcome not in QUIET),
            good=tuple(check for check in apply if check.outcome in QUIET),
            legs=tuple(legs),
            not_applicable=_not_applicable(view),
            opened=index < OPEN_HOSTS and view.verdict.outcome != "pass",
        )


def _leg_view(leg: Leg, *, brief: bool, log: bool) -> LegView:
    bad = not is_clean(leg)
    text = block(leg.log_tail, LOG_CHARACTERS) if bad and log else ""
    return LegView(
        leg=leg,
        figure=leg_figure(leg),
        transport=transport(leg),
        bad=bad,
        sizes=_sizes(leg, brief),
        log=text,
        log_left_out=bool(bad and leg.log_tail and not text),
    )


def _not_applicable(view: HostView) -> tuple[tuple[str, str], ...]:
    by_reason: dict[str, list[str]] = {}
    for check in view.checks:
        if check.outcome == "not applicable":
            by_reason.setdefault(check.reason, []).append(check.check)
    return tuple((", ".join(names), reason) for reason, names in by_reason.items())


def _sizes(leg: Leg, brief: bool) -> tuple[SizeTiming, ...]:
    size = largest(leg)
    if brief:
        return (size,) if size else leg.sizes[-1:]
    return leg.sizes


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hwcheck.render"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "fold": fold,
        "why_not": words.why_not,
        "explains": explains,
        "line": line,
        "number": number,
        "binary_size": binary_size,
        "duration": duration,
    }
    environment.globals |= {
        "classes": CLASSES,
        "signs": SIGNS,
        "outcome_words": words.OUTCOME_WORDS,
        "exercise": words.EXERCISE,
        "groups_words": words.GROUPS,
    }
    return environment
