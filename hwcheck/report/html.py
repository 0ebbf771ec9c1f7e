"""``report.html``: one self-contained page; nothing is loaded from anywhere.

Its one script only sorts, filters and copies; the page says everything without it, and its policy
lets no other script run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from markupsafe import Markup, escape

from hwcheck.advise.assessment import Assessment
from hwcheck.advise.places import place
from hwcheck.contract.check import Check
from hwcheck.contract.wire import Leg, SizeTiming
from hwcheck.fold import fold
from hwcheck.judge.legs import is_clean, largest
from hwcheck.report.heat_map import heat_map
from hwcheck.report.histograms import Histogram, histograms
from hwcheck.report.last_runs import LastRunsView, last_runs_view
from hwcheck.report.leg_plots import leg_plots
from hwcheck.report.load_plots import load_plots
from hwcheck.report.pair_matrix import PairMatrix, gpu_pair_matrix
from hwcheck.report.report import environment, render
from hwcheck.report.svg import Plot
from hwcheck.report.timeline import timeline
from hwcheck.report.topology import drawn_host
from hwcheck.report.training import step_plot
from hwcheck.report.view import QUIET, CheckView, HostView, host_views, leg_figure, transport
from hwcheck.results.run_folder import HostRecord, Run
from hwcheck.results.site_limits import in_force
from hwcheck.text import block, line

DETAILED_HOSTS = 16
"""In a larger run, hosts that passed get one line, and a leg shows its largest size only."""

MOST_SECTIONS = 100
"""So many hosts have a section; a large run whose every host failed still makes a page to open."""
MOST_ROWS = 2000
"""In a run of more hosts, the table has no line for those that passed, and so many at most."""

OPEN_HOSTS = 6
DRAWN_HOSTS = 12
"""Hosts that are not well are drawn, so many at most."""
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
    """One host's section.

    ``gpus`` are those with a complaint and where they are; ``causes`` its causes with their titles.
    """

    view: HostView
    bad: tuple[CheckView, ...]
    good: tuple[CheckView, ...]
    legs: tuple[LegView, ...]
    not_applicable: tuple[tuple[str, str], ...]
    opened: bool
    last_runs: LastRunsView | None
    gpus: tuple[tuple[str, str], ...]
    causes: tuple[tuple[str, str], ...]
    drawn: tuple[str, Markup] | None
    pairs: PairMatrix | None


def html(assessment: Assessment) -> str:
    """Return the page as text, the same for the same assessment."""
    run, catalogue = assessment.run, assessment.catalogue
    hosts = list(host_views(assessment))
    brief = len(hosts) > DETAILED_HOSTS
    bad = [host for host in hosts if host.verdict.outcome != "pass"]
    shown = bad if brief else hosts
    rows = bad[:MOST_ROWS] if len(hosts) > MOST_ROWS else hosts
    in_table = {host.name for host in rows}
    plot = step_plot(assessment.training, catalogue.models) if assessment.training else None
    racks = {host.name: host.rack for host in run.meta.hosts}
    visits = timeline(run, assessment.judgement)
    script = environment("html", catalogue.templates).get_template("report.js.j2").render()
    return render(
        "html",
        assessment,
        hosts,
        plots=[_figure(plot) for plot in leg_plots(assessment)],
        step_plot=_figure(plot) if plot else None,
        loads=[_figure(plot) for plot in load_plots(assessment)],
        rows=rows,
        no_row=[host.name for host in hosts if host.name not in in_table],
        details=list(_details(shown[:MOST_SECTIONS], assessment, brief=brief)),
        sections={host.name for host in shown[:MOST_SECTIONS]},
        map=heat_map(hosts, racks, [host.name for host in run.meta.hosts], catalogue.checks),
        racks=racks if any(racks.values()) else {},
        histograms=[
            _marked(each) for each in histograms(run, assessment.judgement, catalogue.checks)
        ],
        timeline=visits,
        timeline_svg=Markup(visits.svg) if visits else "",  # noqa: S704 (its texts are escaped)
        script=Markup(script),  # noqa: S704 (our own file)
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        no_section=[host.name for host in shown[MOST_SECTIONS:]],
        limits=list(_limits(run, catalogue.checks)),
        has_busbw=any(host.busbw for host in rows),
        brief=brief,
        limit=DETAILED_HOSTS,
    )


def _figure(plot: Plot) -> tuple[str, Markup]:
    """Return a picture and what it shows, which those who hear the page are told too."""
    svg = plot.svg
    if "aria-label" not in svg:
        svg = svg.replace('role="img"', f'role="img" aria-label="{escape(plot.caption)}"', 1)
    return plot.caption, Markup(svg)  # noqa: S704 (what is in it from a node is escaped)


def _marked(histogram: Histogram) -> tuple[Histogram, Markup]:
    return histogram, Markup(histogram.svg)  # noqa: S704 (its texts are escaped)


def _limits(run: Run, checks: Mapping[str, Check]) -> Iterator[LimitView]:
    of_site = [(host.name, host.limits) for host in run.meta.hosts if host.limits]
    for name in run.meta.checks:
        if name not in checks:
            continue
        for metric in checks[name].metrics:
            for limit in metric.limits:
                yield LimitView(name, metric.name, limit.text(), limit.source, limit.confidence)
        for metric_name, text, source, hosts in in_force(of_site, checks[name]):
            on = f"{text} (on {fold(hosts)})"
            yield LimitView(name, metric_name, on, line(source), "inventory")


def _details(
    views: Iterable[HostView], assessment: Assessment, *, brief: bool
) -> Iterator[HostDetails]:
    logs_left, drawn_left = LOGS, DRAWN_HOSTS
    titles = {cause.cause: cause.title for cause in assessment.advice.causes.diagnoses}
    causes_of = assessment.advice.causes.by_host
    for index, view in enumerate(views):
        legs = []
        for leg in (leg for check in view.checks for leg in check.legs):
            item = _leg_view(leg, brief=brief, log=logs_left > 0)
            logs_left -= bool(item.log)
            legs.append(item)
        apply = [check for check in view.checks if check.outcome != "not applicable"]
        bad = {finding.subject for finding in view.findings if finding.outcome in ("warn", "fail")}
        unwell = view.verdict.outcome != "pass"
        drawn = drawn_host(view.record, bad) if unwell and drawn_left > 0 else None
        drawn_left -= drawn is not None
        last = last_runs_view(
            assessment.last_runs.get(view.name), view.verdict.outcome, view.findings
        )
        yield HostDetails(
            view,
            bad=tuple(check for check in apply if check.outcome not in QUIET),
            good=tuple(check for check in apply if check.outcome in QUIET),
            legs=tuple(legs),
            not_applicable=_not_applicable(view),
            opened=index < OPEN_HOSTS and unwell,
            last_runs=last,
            gpus=_gpus(view.record, bad),
            causes=tuple((name, titles[name]) for name in causes_of.get(view.name, ())),
            drawn=_figure(drawn) if drawn else None,
            pairs=gpu_pair_matrix(view.record) if unwell or not brief else None,
        )


def _gpus(record: HostRecord, bad: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Return where the GPUs are that something is the matter with."""
    gpus = record.report.gpus if record.report else ()
    about = {subject.lower() for subject in bad}
    return tuple(
        (f"gpu{gpu.index}", text)
        for gpu in gpus
        if (text := place(gpu))
        and (f"gpu{gpu.index}" in about or _is_named(gpu.pci_address.lower(), about))
    )


def _is_named(address: str, about: Collection[str]) -> bool:
    return bool(address) and any(f"{address} " in f"{subject} " for subject in about)


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
