from __future__ import annotations

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.judge.figures import measured, of_wanted
from hwcheck.judge.judge import judge
from hwcheck.judge.records import Finding
from tests.factories import gpu_host, run


@pytest.mark.parametrize(
    ("value", "wanted", "unit", "text"),
    [
        (8, 16, "lanes", "8 of 16 lanes"),
        (41.0, 470.0, "GB/s", "41 of 470 GB/s, 9 %"),
        (500.0, 700.0, "W", "500 of 700 W, 71 %"),
        (0.5, 700.0, "W", "0.5 of 700 W, 0.07143 %"),
        (0, 8, "GPUs", "0 of 8 GPUs"),
        (16, 16, "lanes", ""),
        (17, 16, "lanes", ""),
        (False, True, "", ""),
        ("570.1", "570.2", "", ""),
        (8, None, "lanes", ""),
    ],
)
def test_of_wanted(value, wanted, unit: str, text: str) -> None:
    assert of_wanted(value, wanted, unit) == text


@pytest.mark.parametrize(
    ("finding", "text"),
    [
        ({"value": 71.4, "fail_at": 75.0, "warn_at": 99.0}, "71.4 %, at least 99 % wanted"),
        ({"value": 80.0, "fail_at": 75.0, "warn_at": 99.0}, "80 %, at least 99 % wanted"),
        ({"value": 92.0, "fail_at": 95.0, "warn_at": 90.0}, "92 %, at most 90 % wanted"),
        ({"value": 97.0, "fail_at": 95.0, "warn_at": 90.0}, "97 %, at most 90 % wanted"),
        ({"value": 3, "fail_at": 0}, "3 %, none wanted"),
        ({"value": 60, "warn_at": 70}, "60 %, at least 70 % wanted"),
        ({"value": "570.1", "wanted": "570.2", "unit": ""}, "570.1, wanted 570.2"),
        ({"value": True, "wanted": False, "unit": ""}, "yes, wanted no"),
        ({"value": False, "wanted": True, "unit": ""}, "no, wanted yes"),
        ({"value": 2, "wanted": 0, "unit": "pages"}, "2 pages, none wanted"),
        ({"value": 7, "wanted": 8, "unit": "GPUs"}, "7 of 8 GPUs"),
        ({"value": 9, "wanted": 8, "unit": "GPUs"}, "9 GPUs, wanted 8 GPUs"),
        ({"value": 8, "figures": "8 of 16 lanes"}, "8 of 16 lanes"),
        ({"value": 97.0, "fail_at": 95.0, "outcome": "pass"}, "97 %"),
        ({"value": "?", "fail_at": 95.0}, "? %"),
    ],
)
def test_measured(finding, text: str) -> None:
    shown = Finding("a", "c", **{"outcome": "fail", "metric": "m", "unit": "%", **finding})
    assert measured(shown) == text


def test_a_percentage_is_shown_by_what_it_is_made_of() -> None:
    judgement = judge(
        run(gpu_host("a", power_limit_w=(3, 400.0), pcie_link_width=(2, 8))), shipped()
    )
    shown = {f.metric: measured(f) for f in judgement.findings if f.outcome == "fail"}
    assert shown == {
        "power_limit_percent": "400 of 700 W, 57 %",
        "pcie_link_width": "8 of 16 lanes",
    }
