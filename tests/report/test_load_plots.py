from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from hwcheck.advise.assessment import Assessment
from hwcheck.advise.catalogue import shipped
from hwcheck.advise.records import Advice, NcclAdvice
from hwcheck.contract.load_run import LoadRun, Series
from hwcheck.contract.wire import CheckResult, Sample
from hwcheck.judge.records import Judgement
from hwcheck.report.html import html
from hwcheck.report.load_plots import (
    FEW_HOSTS,
    MOST_GPUS,
    MOST_HOSTS,
    MOST_POINTS,
    STRIPS,
    Bounds,
    bounds_of,
    drawn_hosts,
    load_plots,
    load_svg,
    stretches,
)
from hwcheck.report.svg import Plot
from hwcheck.results.run_folder import Run
from hwcheck.results.series import VisitSeries
from hwcheck.testing.fake_load import fake_collectives, fake_load
from tests.factories import HOSTILE, gpu_host, hosts, judgement
from tests.report.example import judged

POWER = {"line": [[-3, 90], [0, 90], [1, 690], [20, 690], [21, 95], [30, 95]]}
BAND = "opacity: 0.08"
EACH = {"power_w": POWER, "temperature_c": 61, "sm_clock_mhz": 1500}


def load(gpus: int = 2, **changes: Any) -> LoadRun:
    made = fake_load(
        {
            "time_s": {"from": -3, "to": 30, "every": 0.2},
            "each": {"series": EACH},
            "gpus": [{}] * gpus,
        }
    )
    return replace(made, **changes)


def worked(gpus: int = 2, **changes: Any) -> VisitSeries:
    return VisitSeries(load(gpus, **changes))


def drawn(made: LoadRun, bounds: Bounds, outcomes: Mapping[str, str]) -> str:
    return load_svg(stretches(VisitSeries(made)), bounds, outcomes)


def _load_plots(
    run: Run, judgement: Judgement, series: Mapping[str, VisitSeries]
) -> tuple[Plot, ...]:
    advice = Advice(actions=(), nccl=NcclAdvice((), "", ()))
    return load_plots(Assessment(run, judgement, advice, shipped(), series=series))


def texts(svg: str) -> list[str]:
    root = ET.fromstring(svg)
    return ["".join(node.itertext()).strip() for node in root.iter() if node.tag.endswith("}text")]


def test_a_strip_for_each_quantity_and_every_gpu_by_name() -> None:
    shown = texts(drawn(load(), {}, {}))
    assert {"power, W", "temperature, C", "SM clock, MHz", "gpu0", "gpu1"} <= set(shown)


def test_a_quantity_that_no_gpu_tells_has_no_strip() -> None:
    made = load()
    columns = {"gpu0": {"power_w": made.series.columns["gpu0"]["power_w"]}}
    shown = texts(drawn(replace(made, series=replace(made.series, columns=columns)), {}, {}))
    assert "power, W" in shown
    assert "SM clock, MHz" not in shown


def test_what_failed_is_marked_by_color_and_by_sign() -> None:
    plain = drawn(load(), {}, {})
    assert "var(--fail)" not in plain + drawn(load(), {}, {"gpu1": "pass"})
    marked = drawn(load(), {}, {"gpu1": "fail", "gpu0": "warn"})
    assert "var(--fail)" in marked
    assert "var(--warn)" in marked
    assert {"gpu0 !", "gpu1 \u2715"} <= set(texts(marked))


def test_bounds_are_lines() -> None:
    bound = {("power_limit_w", "gpu0"): 700.0}
    dashed = "stroke-dasharray"
    assert dashed not in drawn(load(), {}, {})
    assert drawn(load(), bound, {}).count(dashed) == 1


def test_bounds_come_from_the_hosts_own_samples() -> None:
    host = gpu_host("a")
    assert host.report is not None
    told = (
        Sample("power_limit_w", 500.0, "W", "gpu1"),
        Sample("temperature_slowdown_c", 1e300, "C", "gpu1"),
        Sample("application_sm_clock_mhz", "fast", "MHz", "gpu1"),
    )
    results = (CheckResult("power_under_load", "done", samples=told),)
    host = replace(host, report=replace(host.report, results=results))
    assert bounds_of(host) == {("power_limit_w", "gpu1"): 500.0}


def test_a_picture_is_bounded_in_size() -> None:
    series = load(8).series
    hours = replace(series, time_s=tuple(100.0 * time_s for time_s in series.time_s))
    noisy = {
        subject: {
            name: tuple(v + 10 * math.sin(9 * i) for i, v in enumerate(c) if v is not None)
            for name, c in own.items()
        }
        for subject, own in hours.columns.items()
    }
    svg = drawn(load(8, series=replace(hours, columns=noisy)), {}, {})
    longest = max(path.count("L ") for path in svg.split("<path"))
    assert MOST_POINTS / 2 < longest <= MOST_POINTS
    assert len(svg) < 120_000


def test_a_long_series_is_drawn_evenly_though_its_ends_have_more_samples() -> None:
    times = (
        *(i / 5 for i in range(300)),
        *range(100, 3600, 7),
        *(3600 + i / 5 for i in range(400)),
    )
    column = tuple(float(i % 3) for i in range(len(times)))
    series = Series(times, {"gpu0": {"power_w": column}})
    (stretch,) = stretches(VisitSeries(load(1, series=series, load_end_s=3600.0)))
    drawn_s = [at_s for at_s, _ in stretch.points(STRIPS[0], "gpu0")]
    assert MOST_POINTS / 2 < len(drawn_s) <= MOST_POINTS
    assert max(late - early for early, late in pairwise(drawn_s)) < 2 * 3680 / MOST_POINTS


def test_memory_has_a_strip_where_its_temperature_is_told() -> None:
    made = load()
    warm = {of: {**own, "memory_temperature_c": (70.0,) * 166} for of, own in columns_of(made)}
    told = replace(made, series=replace(made.series, columns=warm))
    assert "memory, C" in texts(drawn(told, {}, {}))
    assert "memory, C" not in texts(drawn(made, {}, {}))


def columns_of(made: LoadRun) -> list[tuple[str, Any]]:
    return list(made.series.columns.items())


def test_a_spike_and_a_dip_are_kept_where_points_become_fewer() -> None:
    made = load(1)
    columns = {name: list(column) for name, column in made.series.columns["gpu0"].items()}
    columns["temperature_c"][100], columns["sm_clock_mhz"][100] = 99.0, 300.0
    spiked = {"gpu0": {name: tuple(column) for name, column in columns.items()}}
    svg = drawn(replace(made, series=replace(made.series, columns=spiked)), {}, {})
    assert any(text in texts(svg) for text in ("90", "100"))
    assert svg != drawn(made, {}, {})


def test_more_gpus_than_fit_are_counted() -> None:
    run = hosts(1)
    (plot,) = _load_plots(run, judgement(), {"n00": worked(MOST_GPUS + 2)})
    assert "2 more GPUs not drawn" in plot.caption
    assert f"gpu{MOST_GPUS}" not in texts(plot.svg)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_node_is_in_the_svg(text: str) -> None:
    made = load(1)
    columns: Mapping[str, Any] = {**made.series.columns, text: {text: (1.0,), "power_w": (1.0,)}}
    bad = replace(made, stopped=text, library=text, series=replace(made.series, columns=columns))
    (plot,) = _load_plots(hosts(1), judgement(), {"n00": VisitSeries(bad)})
    assert text not in plot.svg + plot.caption
    assert "ended for safety" in plot.caption


@pytest.mark.parametrize("value", [1e300, -1e300, float("inf"), float("nan")])
def test_figures_that_cannot_be_are_left_out(value: float) -> None:
    made = load(1)
    count = len(made.series.time_s)
    columns = {"gpu0": dict.fromkeys(EACH, (value,) * count)}
    assert stretches(VisitSeries(replace(made, series=replace(made.series, columns=columns)))) == ()
    times = (value,) * count
    assert stretches(VisitSeries(replace(made, series=replace(made.series, time_s=times)))) == ()


@pytest.mark.parametrize("end_s", [1e300, -1e300, float("inf"), float("nan")])
def test_an_end_that_cannot_be_is_left_out(end_s: float) -> None:
    svg = drawn(load(1, load_end_s=end_s), {}, {})
    assert svg == drawn(load(1, load_end_s=-100.0), {}, {})
    assert svg != drawn(load(1), {}, {})


def test_an_exercise_is_not_drawn() -> None:
    assert _load_plots(hosts(1), judgement(), {"n00": worked(backend="cpu")}) == ()
    assert _load_plots(hosts(1), judgement(), {"other": worked()}) == ()


def test_the_page_shows_loads_where_there_are_any() -> None:
    result = judged(hosts(1))
    page = html(replace(result, series={"n00": worked()}))
    assert "<h2>Under load</h2>" in page
    assert "n00: the GPUs side by side, each over 33 s" in page
    assert "Under load" not in html(result)
    assert page == html(replace(result, series={"n00": worked()}))


def test_the_caption_names_what_is_wrong_and_says_no_more_than_fits() -> None:
    run = hosts(1)
    found = judgement(
        ("n00", "thermal_spread", "warn", "gpu1"),
        ("n00", "throttle_under_load", "warn", "gpu1"),
        ("n00", "throttle_under_load", "fail", "gpu1"),
        ("n00", "cool_down", "pass", "gpu0"),
        ("n00", "power_cap", "fail", "gpu0"),
        ("n00", "temperature_under_load", "fail", "node"),
    )
    (plot,) = _load_plots(run, found, {"n00": worked()})
    assert plot.caption.endswith(
        "the band is the load. gpu1: thermal_spread\u00a0!, throttle_under_load\u00a0\u2715"
    )
    everywhere = judgement(*(("n00", "cool_down", "fail", f"gpu{i}") for i in range(8)))
    (plot,) = _load_plots(run, everywhere, {"n00": worked(8)})
    assert plot.caption.endswith("gpu2: cool_down\u00a0\u2715; and 5 more GPUs")
    (plot,) = _load_plots(run, judgement(), {"n00": worked()})
    assert plot.caption.endswith("the band is the load")


def test_collectives_stand_before_the_load() -> None:
    together = fake_collectives({"each": {"series": EACH}, "gpus": [{}, {}, {}], "end_s": 10.0})
    both = VisitSeries(load(), together)
    (plot,) = _load_plots(hosts(1), judgement(), {"n00": both})
    assert "each over 45 s, the first band is the collectives, the second the load" in plot.caption
    assert "gpu2" in texts(plot.svg), "one that only the collectives saw"
    (alone,) = _load_plots(hosts(1), judgement(), {"n00": VisitSeries(collectives=together)})
    assert alone.caption.endswith("each over 12 s, the band is the collectives")
    assert plot.svg.count(BAND) == 2 * alone.svg.count(BAND) == 18
    exercise = VisitSeries(load(backend="cpu"), together)
    assert _load_plots(hosts(1), judgement(), {"n00": exercise}) == (alone,)


def test_a_small_run_is_drawn_whole_and_a_large_one_where_something_is_wrong() -> None:
    none = judgement()
    assert drawn_hosts(hosts(FEW_HOSTS), none, shipped().checks) == ("n00", "n01")
    assert drawn_hosts(hosts(FEW_HOSTS + 1), none, shipped().checks) == ()
    found = judgement(
        ("n01", "thermal_spread", "warn", "gpu3"),
        ("n02", "power_under_load", "fail", "gpu1"),
        ("n00", "power_under_load", "pass", "gpu1"),
        ("n03", "power_cap", "fail", "gpu1"),
        ("n04", "all_reduce", "fail", "leg net"),
        ("n05", "power_under_load", "inconclusive", "node"),
    )
    assert drawn_hosts(hosts(9), found, shipped().checks) == ("n02", "n04", "n01")


def test_a_fleet_that_fails_is_bounded() -> None:
    run = hosts(MOST_HOSTS + 3)
    all_fail = judgement(*((r.host, "cool_down", "fail", "gpu0") for r in run.records))
    assert len(drawn_hosts(run, all_fail, shipped().checks)) == MOST_HOSTS
