from __future__ import annotations

from xml.etree import ElementTree as ET

from hwcheck.report.timeline import NAMED_ROWS, timeline
from hwcheck.results.run_folder import HostRecord
from tests import factories
from tests.factories import gpu_host, record
from tests.report.example import judged


def _host(number: int, seconds: float) -> HostRecord:
    made = record(f"n{number:02}", None, started=f"2026-01-31T12:00:{number % 60:02}Z")
    return HostRecord(**{**vars(made), "duration_s": seconds})


def test_when_each_host_was_visited_and_which_took_longest() -> None:
    run = factories.run(_host(0, 10.0), _host(5, 40.0), _host(9, 10.0))
    made = timeline(run, judged(run).judgement)
    assert made is not None
    assert made.in_words == (
        "3 visits in 45 s; half of them took 10 s or less; longest: n01 40 s, n00 10 s, n02 10 s"
    ).replace("n01", "n05").replace("n02", "n09")
    root = ET.fromstring(made.svg)
    (bars,) = [each.get("d") or "" for each in root if each.get("class", "").startswith("bar")]
    assert bars.count("M") == 3
    assert "? n05" in ["".join(each.itertext()) for each in root]


def test_many_hosts_are_one_picture_without_names() -> None:
    run = factories.run(*(_host(n, 10.0) for n in range(NAMED_ROWS + 1)))
    made = timeline(run, judged(run).judgement)
    assert made is not None
    assert "n05</text>" not in made.svg
    assert made.svg.count("<path") == 2


def test_without_times_there_is_none() -> None:
    odd = record("a", None, started="yesterday")
    run = factories.run(odd, record("b", None, started=""), gpu_host("c"))
    assert timeline(run, judged(run).judgement) is None
