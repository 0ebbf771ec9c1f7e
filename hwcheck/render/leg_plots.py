"""busbw over message size for each leg, as SVG to put into the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from hwcheck.fold import fold
from hwcheck.judge.legs import PLAUSIBLE_BUSBW_GBPS, legs_of
from hwcheck.node.wire import Leg
from hwcheck.render.svg import INK, Plot, drawing, inline_svg
from hwcheck.render.view import collective_order
from hwcheck.render.words import EXERCISE, gpu_names
from hwcheck.results.run_folder import HostRecord, Run
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
LARGEST_SIZE = 2**50

Curve = dict[int, list[float]]
"""busbw figures (1e9 bytes/s) of all hosts by message size in bytes."""


@dataclass(frozen=True)
class _Key:
    collective: str
    backend: str
    exercise: bool
    ranks: int
    gpu: str


def leg_plots(run: Run) -> tuple[Plot, ...]:
    """Return a plot for each kind of host that measured: same collective, ranks and GPU.

    At most four, those with the most hosts. Legs without a plausible figure are left out.
    """
    hosts: dict[_Key, list[str]] = {}
    missing: dict[_Key, dict[str, list[str]]] = {}
    curves: dict[_Key, dict[str, Curve]] = {}
    for record in run.records:
        for leg in legs_of(record):
            points = _points(leg)
            key = _key(record, leg)
            if leg.leg not in LEG_LOOKS:
                continue
            if not points:
                missing.setdefault(key, {}).setdefault(leg.leg, []).append(record.host)
                continue
            hosts.setdefault(key, []).append(record.host)
            curve = curves.setdefault(key, {}).setdefault(leg.leg, {})
            for size, figure in points:
                curve.setdefault(size, []).append(figure)
    order = sorted(
        curves,
        key=lambda key: (
            key.exercise,
            -len(set(hosts[key])),
            collective_order(key.collective),
            str(key),
        ),
    )
    return tuple(
        Plot(_caption(key, dict.fromkeys(hosts[key]), missing.get(key, {})), _svg(curves[key]))
        for key in order[:MOST_PLOTS]
    )


def _points(leg: Leg) -> list[tuple[int, float]]:
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


def _caption(key: _Key, names: Iterable[str], missing: Mapping[str, Iterable[str]]) -> str:
    listed = list(names)
    what = f"{key.collective}, {count(key.ranks, 'rank')} per node"
    gpu = f", {key.gpu}" if key.gpu else ""
    where = fold(listed)
    over = "" if len(listed) == 1 else f": median of {len(listed)} hosts, the band is their range"
    mark = f". E{EXERCISE[1:]}." if key.exercise else ""
    holes = [f"{LEG_LOOKS[leg][2]} on {fold(where)}" for leg, where in missing.items()]
    lost = f". No figure: {', '.join(holes)}" if holes else ""
    return f"{what}{gpu}, {where}{over}{lost}{mark}"


def _svg(curves: Mapping[str, Curve]) -> str:
    with drawing(7.6, 3.8) as figure:
        axes = figure.add_subplot()
        for name in LEG_LOOKS:
            if name in curves:
                _draw(axes, name, curves[name])
        _label(axes, {size for curve in curves.values() for size in curve})
        colors = {c: f"leg-{name.replace('_', '-')}" for name, (c, _, _) in LEG_LOOKS.items()}
        return inline_svg(figure, colors)


def _draw(axes: Axes, name: str, curve: Curve) -> None:
    color, marker, label = LEG_LOOKS[name]
    sizes = sorted(curve)
    middle = [median(curve[size]) for size in sizes]
    axes.plot(sizes, middle, color=color, marker=marker, markersize=5, label=label)
    if any(len(curve[size]) > 1 for size in sizes):
        low, high = ([pick(curve[size]) for size in sizes] for pick in (min, max))
        axes.fill_between(sizes, low, high, color=color, alpha=0.2, linewidth=0)


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
