from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from hwcheck.judge.records import Finding
from hwcheck.report.leg_plots import EXPECTED, MOST_PLOTS, _band, leg_plots
from hwcheck.report.svg import Plot
from hwcheck.results.run_folder import Run
from tests import factories
from tests.factories import HOSTILE, cpu_results, gpu_host, hung, leg, record, run
from tests.judge.nodes import topology
from tests.report.example import judged

BAND = "fill-opacity: 0.2"


def plots_of(a_run: Run) -> tuple[Plot, ...]:
    return leg_plots(judged(a_run))


def _texts(plot: Plot) -> list[str]:
    root = ET.fromstring(plot.svg)
    return ["".join(node.itertext()).strip() for node in root.iter() if node.tag.endswith("}text")]


def test_labels_units_and_binary_sizes() -> None:
    (plot,) = plots_of(run(gpu_host("node01"), gpu_host("node02")))
    texts = _texts(plot)
    for label in ("1 MiB", "1 GiB", "message size", "busbw, GB/s (1e9 bytes/s)"):
        assert label in texts
    assert [text for text in texts if text in ("default", "P2P off", "network only")] == [
        "default",
        "P2P off",
        "network only",
    ]
    assert "median of 2 hosts, the band is their range" in plot.caption
    assert BAND in plot.svg


def test_one_host_has_no_band() -> None:
    (plot,) = plots_of(run(gpu_host("node01")))
    assert BAND not in plot.svg
    assert "median" not in plot.caption


def test_only_what_was_measured_is_drawn() -> None:
    (plot,) = plots_of(run(gpu_host("a", [hung(), leg("p2p_off", 20.0)])))
    assert "default" not in _texts(plot)
    assert "No figure: default on a" in plot.caption
    assert plots_of(run(gpu_host("a", [hung()]), record("b", None))) == ()


def test_the_exercise_is_apart_and_marked() -> None:
    drawn = plots_of(run(gpu_host("a"), record("cpu", cpu_results())))
    assert len(drawn) == 2
    assert "says nothing about GPUs" not in drawn[0].caption
    assert "says nothing about GPUs" in drawn[1].caption


def test_unlike_hosts_are_not_averaged_and_plots_are_few() -> None:
    def host(name: str, gpu: str):
        item = gpu_host(name)
        facts = {"gpus": factories.gpu_facts(8, gpu)}
        return replace(item, report=replace(item.report, facts=facts))

    two = plots_of(run(host("a", "H100"), host("b", "A100"), host("c", "A100")))
    assert [plot.caption.partition(":")[0] for plot in two] == [
        "all_reduce, 8 ranks per node, A100, b,c",
        "all_reduce, 8 ranks per node, H100, a",
    ]
    assert len(plots_of(run(*(host(f"n{i}", f"GPU {i}") for i in range(9))))) == MOST_PLOTS


def test_the_same_run_gives_the_same_svg() -> None:
    a_run = run(gpu_host("a"), gpu_host("b", [leg(peak_gbps=400.0)]))
    first, second = plots_of(a_run), plots_of(a_run)
    assert first == second
    assert "<dc:date>" not in first[0].svg


def test_colors_are_the_pages() -> None:
    (plot,) = plots_of(run(gpu_host("a")))
    assert "var(--leg-p2p-off)" in plot.svg
    assert "currentColor" in plot.svg
    assert "#0000" not in plot.svg
    assert "<style" not in plot.svg
    assert "DOCTYPE" not in plot.svg


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_node_is_in_the_svg(text: str) -> None:
    legs = [leg(collective=text), leg(text, 30.0, collective=text), leg("p2p_off", 30.0)]
    clean = plots_of(run(gpu_host("a", [leg(), leg("p2p_off", 30.0)])))
    drawn = plots_of(run(gpu_host("a", legs)))
    assert {len(ET.fromstring(plot.svg)) for plot in drawn} == {len(ET.fromstring(clean[0].svg))}
    assert not any(text in plot.svg for plot in drawn)


def test_an_unknown_leg_is_not_drawn() -> None:
    assert plots_of(run(gpu_host("a", [leg("odd"), hung("odder")]))) == ()
    (plot,) = plots_of(run(gpu_host("a", [leg(), leg("odd"), hung("odder")])))
    assert "odd" not in plot.caption + plot.svg


def test_figures_that_cannot_be_are_left_out() -> None:
    lying = leg(sizes=tuple(replace(s, busbw_gbps=1e300, size_bytes=10**30) for s in leg().sizes))
    assert plots_of(run(gpu_host("a", [lying]))) == ()


def test_collectives_that_decide_about_p2p_are_drawn_first() -> None:
    names = ("broadcast", "all_gather", "sendrecv", "alltoall", "reduce_scatter", "all_reduce")
    drawn = plots_of(run(gpu_host("a", [leg(collective=name) for name in names])))
    captions = [plot.caption.partition(",")[0] for plot in drawn]
    assert captions == ["all_reduce", "alltoall", "all_gather", "reduce_scatter"]


def test_a_host_alone_does_not_widen_the_band_and_is_drawn_and_named() -> None:
    slow = gpu_host("slow", [leg(peak_gbps=45.0), leg("p2p_off", 40.0), leg("net", 9.0)])
    hosts = [gpu_host(f"n{number:02}") for number in range(11)]
    assessment = judged(run(*hosts))
    complaint = Finding(
        "slow", "all_reduce", "fail", "busbw_gbps", "leg default", 45.0, "GB/s", fail_at=300.0
    )
    worse = judged(run(*hosts, slow))
    findings = (*worse.judgement.findings, complaint)
    worse = replace(worse, judgement=replace(worse.judgement, findings=findings))
    (plot,) = leg_plots(worse)
    assert "the band is the middle eight tenths of them" in plot.caption
    assert "Dotted, with crosses, those that are complained of: slow (default)" in plot.caption
    assert "var(--fail)" in plot.svg
    (without,) = leg_plots(assessment)
    assert "var(--fail)" not in without.svg
    low, high = _band([450.0] * 10 + [45.0])
    assert (low, high) == (450.0, 450.0)
    assert _band([450.0] * 8 + [45.0]) == (45.0, 450.0), "few are shown as they are"


def test_what_the_links_should_carry_is_a_line_from_zero() -> None:
    host = gpu_host("a")
    assert host.report is not None
    results = (*host.report.results, topology())
    known = replace(host, report=replace(host.report, results=results))
    (plot,) = plots_of(run(known, checks=(*factories.CHECKS, "topology")))
    assert EXPECTED in _texts(plot)
    (without,) = plots_of(run(host))
    assert EXPECTED not in _texts(without), "the control"
    assert "0" in _texts(plot), "the axis begins there"
