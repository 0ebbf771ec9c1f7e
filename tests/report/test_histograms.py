from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

from hwcheck.advise.catalogue import shipped
from hwcheck.judge.records import Finding
from hwcheck.report.histograms import BINS, Histogram, histograms
from tests import factories
from tests.factories import HOSTILE, gpu_host, leg
from tests.report.example import judged


def _made(gbps: list[float], *slow: str) -> tuple[Histogram, ...]:
    hosts = [gpu_host(f"n{n}", [leg(peak_gbps=peak)]) for n, peak in enumerate(gbps)]
    run = factories.run(*hosts)
    findings = tuple(Finding(h, "all_reduce", "fail", "m", "leg default") for h in slow)
    return histograms(run, replace(judged(run).judgement, findings=findings), shipped().checks)


def test_the_outliers_are_named_and_drawn_apart() -> None:
    busbw, heat = _made([450.0, 451, 452, 453, 454, 455, 456, 45], "n7")
    assert busbw.name == "busbw, all_reduce at 1 GiB"
    assert busbw.in_words.startswith("8 hosts: from 44.65 to 452.5 GB/s, ")
    assert busbw.in_words.endswith("; standing out: n7 44.65")
    assert 'class="bar bad"' in busbw.svg
    assert "standing out" not in heat.in_words
    assert heat.in_words.startswith("8 hosts with 64 GPUs: from 31 to 34 C")
    assert 'class="bar bad"' not in heat.svg


def test_every_host_is_in_a_bar() -> None:
    busbw, _ = _made([400.0 + n for n in range(BINS)])
    root = ET.fromstring(busbw.svg)
    (bars,) = [each for each in root if each.get("class") == "bar"]
    assert (bars.get("d") or "").count("M") == BINS


def test_few_hosts_and_one_value_have_none() -> None:
    assert [each.name for each in _made([450.0, 451, 452])] == []
    assert "busbw" not in {each.name.partition(",")[0] for each in _made([450.0] * 9)}


def test_hostile_names_are_escaped() -> None:
    for text in HOSTILE:
        hosts = [gpu_host(f"n{n}", [leg(peak_gbps=450.0 + n, collective=text)]) for n in range(8)]
        run = factories.run(*hosts)
        for made in histograms(run, judged(run).judgement, shipped().checks):
            ET.fromstring(made.svg)
            assert "<script" not in made.svg
