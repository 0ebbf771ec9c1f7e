"""busbw over message size for each leg, as SVG to put into the page.

One axis from zero, with what the links should carry, the band of the hosts that are alike and those
that fall out of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from hwcheck.advise.assessment import Assessment
from hwcheck.checks.shared.leg_checks import ALGBW_GBPS, BUSBW_GBPS
from hwcheck.contract.wire import Leg
from hwcheck.fold import fold
from hwcheck.judge.interconnect import links_of
from hwcheck.judge.legs import PLAUSIBLE_BUSBW_GBPS, legs_of
from hwcheck.judge.prediction import COLLECTIVES, predict
from hwcheck.judge.records import Judgement
from hwcheck.report.svg import INK, Plot, drawing, inline_svg
from hwcheck.report.view import collective_order
from hwcheck.report.words import EXERCISE, gpu_names
from hwcheck.results.run_folder import HostRecord
from hwcheck.text import binary_size, count, line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEG_LOOKS = {
    "default": ("#000011", "o", "default"),
    "p2p_off": ("#000012", "s", "P2P off"),
    "net": ("#000013", "^", "network only"),
    "site": ("#000014", "D", "as the node is set"),
    "nvlink_only": ("#000015", "v", "NVLink only"),
    "p2p_sys": ("#000016", "P", "P2P everywhere"),
}
"""Color, marker and name of each known leg. The colors are stand-ins for the page's own."""

MOST_PLOTS = 4
BANDWIDTHS = (BUSBW_GBPS.name, ALGBW_GBPS.name)
LARGEST_SIZE = 2**50

MOST_OUTLIERS = 4
BAND_FROM = 10
"""From so many hosts on the band is the middle eight tenths: one alone does not widen it."""
EXPECTED = "expected of the links"
OUT = "#000017"

Points = list[tuple[int, float]]
"""Message sizes in bytes with their busbw, in 1e9 bytes/s."""
Curves = dict[str, Points]
"""By host."""


@dataclass(frozen=True)
class _Key:
    collective: str
    backend: str
    exercise: bool
    ranks: int
    gpu: str


def leg_plots(assessment: Assessment) -> tuple[Plot, ...]:
    """Return a plot for each kind of host that measured: same collective, ranks and GPU.

    At most four, those with the most hosts. Legs without a plausible figure are left out.
    """
    records = {record.host: record for record in assessment.run.records}
    missing: dict[_Key, dict[str, list[str]]] = {}
    curves: dict[_Key, dict[str, Curves]] = {}
    for record in records.values():
        for leg in legs_of(record):
            points = _points(leg)
            key = _key(record, leg)
            if leg.leg not in LEG_LOOKS:
                continue
            if not points:
                missing.setdefault(key, {}).setdefault(leg.leg, []).append(record.host)
                continue
            curves.setdefault(key, {}).setdefault(leg.leg, {})[record.host] = points
    order = sorted(
        curves,
        key=lambda key: (
            key.exercise,
            -len(_hosts(curves[key])),
            collective_order(key.collective),
            str(key),
        ),
    )
    return tuple(
        _plot(key, curves[key], missing.get(key, {}), records, assessment.judgement)
        for key in order[:MOST_PLOTS]
    )


def _plot(
    key: _Key,
    curves: Mapping[str, Curves],
    missing: Mapping[str, Sequence[str]],
    records: Mapping[str, HostRecord],
    judgement: Judgement,
) -> Plot:
    out = _outliers(key, curves, judgement)
    hosts = _hosts(curves)
    expected = [] if key.exercise else _expected(key, curves, (records[host] for host in hosts))
    return Plot(_caption(key, hosts, missing, out), _svg(curves, out, expected))


def _hosts(curves: Mapping[str, Curves]) -> list[str]:
    return list(dict.fromkeys(host for of_leg in curves.values() for host in of_leg))


def _outliers(
    key: _Key, curves: Mapping[str, Curves], judgement: Judgement
) -> list[tuple[str, str]]:
    """Return the legs whose busbw is complained of, with their hosts: the slowest first."""
    if len(_hosts(curves)) < 2:
        return []
    bad = {
        (finding.subject.removeprefix("leg "), finding.host)
        for finding in judgement.findings
        if finding.check == key.collective
        and finding.outcome in ("warn", "fail")
        and finding.metric in BANDWIDTHS
        and not finding.waived
    }
    drawn = [each for each in bad if each[1] in curves.get(each[0], {})]
    return sorted(drawn, key=lambda each: (curves[each[0]][each[1]][-1][1], each))[:MOST_OUTLIERS]


def _expected(key: _Key, curves: Mapping[str, Curves], records: Iterable[HostRecord]) -> Points:
    """Return what the links of the first host that knows them should carry, at each size."""
    sizes = sorted({size for points in curves.get("default", {}).values() for size, _ in points})
    for record in records if sizes else ():
        links = links_of(record)
        if links is None or links.gpus != key.ranks or key.collective not in COLLECTIVES:
            continue
        leg = next((leg for leg in legs_of(record) if leg.collective == key.collective), None)
        expected = predict(links, key.collective, leg.library if leg else "")
        if not isinstance(expected, str):
            return [(size, expected.at(size)) for size in sizes]
    return []


def _points(leg: Leg) -> Points:
    low, high = PLAUSIBLE_BUSBW_GBPS
    return [
        (size.size_bytes, float(size.busbw_gbps))
        for size in leg.sizes
        if low <= size.busbw_gbps <= high and 0 < size.size_bytes <= LARGEST_SIZE
    ]


def _key(record: HostRecord, leg: Leg) -> _Key:
    names = sorted(set(gpu_names(record)))
    gpu = "" if leg.exercise else line(", ".join(names), 80)
    return _Key(line(leg.collective, 60), leg.backend, leg.exercise, leg.ranks, gpu)


def _caption(
    key: _Key,
    hosts: Sequence[str],
    missing: Mapping[str, Iterable[str]],
    out: Sequence[tuple[str, str]],
) -> str:
    what = f"{key.collective}, {count(key.ranks, 'rank')} per node"
    gpu = f", {key.gpu}" if key.gpu else ""
    band = "the middle eight tenths of them" if len(hosts) >= BAND_FROM else "their range"
    over = "" if len(hosts) == 1 else f": median of {len(hosts)} hosts, the band is {band}"
    mark = f". E{EXERCISE[1:]}." if key.exercise else ""
    holes = [f"{LEG_LOOKS[leg][2]} on {fold(where)}" for leg, where in missing.items()]
    lost = f". No figure: {', '.join(holes)}" if holes else ""
    slow = ", ".join(f"{host} ({LEG_LOOKS[leg][2]})" for leg, host in out)
    below = f". Dotted, with crosses, those that are complained of: {slow}" if out else ""
    return f"{what}{gpu}, {fold(hosts)}{over}{below}{lost}{mark}"


def _svg(curves: Mapping[str, Curves], out: Sequence[tuple[str, str]], expected: Points) -> str:
    with drawing(7.6, 3.8) as figure:
        axes = figure.add_subplot()
        if expected:
            axes.plot(*zip(*expected, strict=True), color=INK, linestyle="--", label=EXPECTED)
        for name in LEG_LOOKS:
            if name in curves:
                _draw(axes, name, curves[name])
        for leg, host in out:
            axes.plot(*zip(*curves[leg][host], strict=True), color=OUT, linestyle=":", marker="x")
        sizes = (size for of_leg in curves.values() for host in of_leg for size, _ in of_leg[host])
        _label(axes, set(sizes))
        colors = {c: f"leg-{name.replace('_', '-')}" for name, (c, _, _) in LEG_LOOKS.items()}
        return inline_svg(figure, {**colors, OUT: "fail"})


def _draw(axes: Axes, name: str, curves: Curves) -> None:
    color, marker, label = LEG_LOOKS[name]
    figures: dict[int, list[float]] = {}
    for points in curves.values():
        for size, busbw in points:
            figures.setdefault(size, []).append(busbw)
    sizes = sorted(figures)
    middle = [median(figures[size]) for size in sizes]
    axes.plot(sizes, middle, color=color, marker=marker, markersize=5, label=label)
    if len(curves) > 1:
        low, high = zip(*(_band(figures[size]) for size in sizes), strict=True)
        axes.fill_between(sizes, low, high, color=color, alpha=0.2, linewidth=0)


def _band(figures: Iterable[float]) -> tuple[float, float]:
    ordered = sorted(figures)
    left_out = len(ordered) // 10 if len(ordered) >= BAND_FROM else 0
    return ordered[left_out], ordered[-1 - left_out]


def _label(axes: Axes, sizes: Iterable[int]) -> None:
    ticks = sorted(sizes)
    step = -(-len(ticks) // 11)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks[::-step], [binary_size(size) for size in ticks[::-step]])
    axes.tick_params(axis="x", labelsize=10)
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("message size")
    axes.set_ylabel("busbw, GB/s (1e9 bytes/s)")
    axes.grid(visible=True, axis="y", color=INK, alpha=0.15, linewidth=0.8)
    # Above the axes: figures of any height leave no corner that is always free.
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, fontsize=10)
