"""``report.html``: one self-contained page. No script, nothing is loaded from anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from hwcheck.advise.assessment import Assessment, LastRuns
from hwcheck.fold import fold
from hwcheck.judge.legs import is_clean, largest
from hwcheck.node import checks
from hwcheck.node.wire import Leg, SizeTiming
from hwcheck.render.last_runs import LastRunsView, last_runs_view
from hwcheck.render.leg_plots import leg_plots
from hwcheck.render.load_plots import load_plots
from hwcheck.render.report import render
from hwcheck.render.svg import Plot
from hwcheck.render.training import step_plot
from hwcheck.render.view import QUIET, CheckView, HostView, host_views, leg_figure, transport
from hwcheck.results.run_folder import Run
from hwcheck.site_limits import in_force
from hwcheck.text import block, line

DETAILED_HOSTS = 64
"""In a larger run, hosts that passed get one line, and a leg shows its largest size only."""

MOST_SECTIONS = 100
"""So many hosts have a section; a large run whose every host failed still makes a page to open."""
MOST_ROWS = 2000
"""In a run of more hosts, the table has no line for those that passed, and so many at most."""

OPEN_HOSTS = 6
LOGS = 20
LOG_CHARACTERS = 4000


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
    last_runs: LastRunsView | None


def html(assessment: Assessment) -> str:
    """Return the page as text, the same for the same assessment."""
    run = assessment.run
    hosts = list(host_views(assessment))
    brief = len(hosts) > DETAILED_HOSTS
    bad = [host for host in hosts if host.verdict.outcome != "pass"]
    shown = bad if brief else hosts
    rows = bad[:MOST_ROWS] if len(hosts) > MOST_ROWS else hosts
    in_table = {host.name for host in rows}
    plot = step_plot(assessment.training) if assessment.training else None
    return render(
        "html",
        assessment,
        hosts,
        plots=[_figure(plot) for plot in leg_plots(run)],
        step_plot=_figure(plot) if plot else None,
        loads=[_figure(plot) for plot in load_plots(assessment)],
        rows=rows,
        no_row=[host.name for host in hosts if host.name not in in_table],
        details=_details(shown[:MOST_SECTIONS], assessment.last_runs, brief=brief),
        no_section=[host.name for host in shown[MOST_SECTIONS:]],
        limits=list(_limits(run)),
        brief=brief,
        limit=DETAILED_HOSTS,
    )


def _figure(plot: Plot) -> tuple[str, Markup]:
    return plot.caption, Markup(plot.svg)  # noqa: S704 (an SVG holds no text from a node)


def _limits(run: Run) -> Iterator[LimitView]:
    registry = checks.load()
    of_site = [(host.name, host.limits) for host in run.meta.hosts if host.limits]
    for name in run.meta.checks:
        if name not in registry:
            continue
        for metric in registry[name].metrics:
            for limit in metric.limits:
                yield LimitView(name, metric.name, limit.text(), limit.source, limit.confidence)
        for metric_name, text, source, hosts in in_force(of_site, registry[name]):
            on = f"{text} (on {fold(hosts)})"
            yield LimitView(name, metric_name, on, line(source), "inventory")


def _details(
    views: Iterable[HostView], last_runs: Mapping[str, LastRuns], *, brief: bool
) -> Iterator[HostDetails]:
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
            last_runs=last_runs_view(last_runs.get(view.name), view.verdict.outcome, view.findings),
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
