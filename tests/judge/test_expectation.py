"""A leg's bandwidth against what the node's links allow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import CheckResult, Leg
from hwcheck.judge.expectation import band
from hwcheck.judge.judge import judge
from hwcheck.judge.records import Finding
from tests import factories
from tests.factories import MIB, gloo_legs, hung, leg, wrong
from tests.judge.nodes import node, pcie, topology


def judged(
    *legs: Leg, others: tuple[CheckResult, ...] | None = None, **options: Any
) -> list[Finding]:
    """Return what is said of the legs' bandwidth."""
    answers = (topology(), pcie()) if others is None else others
    host = node("n1", legs, *answers, **options)
    checks = ("all_reduce", *(answer.check for answer in answers))
    findings = judge(factories.run(host, checks=checks), shipped()).findings
    return [finding for finding in findings if finding.metric == "busbw_gbps"]  # fmt: skip


@pytest.mark.parametrize(
    ("gbps", "outcome"), [(470.0, "pass"), (367.0, "warn"), (120.0, "fail"), (700.0, "pass")]
)
def test_bands(gbps: float, outcome: str) -> None:
    (finding,) = judged(leg(peak_gbps=gbps))
    assert (finding.outcome, finding.subject) == (outcome, "leg default")
    assert "18 NVLinks of 20.6 GB/s to switches that add up" in finding.limit
    assert "2% off in the median of published figures" in finding.limit


def test_a_warning_says_how_much_is_there_of_what() -> None:
    (finding,) = judged(leg(peak_gbps=367.0))
    assert finding.reason.text.startswith("0.77")
    assert "GB/s expected from 18 NVLinks" in finding.reason.text


def test_what_is_faster_than_the_links_can_be_is_no_figure() -> None:
    (finding,) = judged(leg(peak_gbps=1700.0))
    assert finding.outcome == "inconclusive"
    assert "no data can have gone that fast" in finding.reason.text


@pytest.mark.parametrize(("gbps", "borders"), [(405.0, "warn and pass"), (286.0, "fail and warn")])
def test_a_spread_that_straddles_a_border_is_inconclusive(gbps: float, borders: str) -> None:
    (wide,) = judged(leg(peak_gbps=gbps, spread=0.08))
    assert wide.outcome == "inconclusive"
    assert f"straddles the border of {borders}: measure again" in wide.reason.text
    (narrow,) = judged(leg(peak_gbps=gbps * 0.98, spread=0.002))
    assert narrow.outcome == borders.split()[0]


NO_FIGURE = "warn and pass; a second visit was tried and gave no figure: "
FEWER_RANKS = leg(peak_gbps=430.0, ranks=4)


def measured_again(first: Leg, *second: Leg) -> Finding:
    """Return what is said of a leg that was measured a second time."""
    others = (topology(), pcie())
    host, again = (node("n1", legs, *own) for legs, own in (([first], others), (second, ())))
    run = factories.run(host, checks=("all_reduce", "topology", "pcie_link"))
    (finding,) = (
        finding
        for finding in judge(replace(run, second_visits={"n1": again}), shipped()).findings
        if finding.metric == "busbw_gbps"
    )
    return finding


def on_border(gbps: float = 405.0) -> Leg:
    return leg(peak_gbps=gbps, spread=0.08)


@pytest.mark.parametrize(
    ("again", "outcome", "reason"),
    [
        (leg(peak_gbps=430.0), "pass", ""),
        (
            leg(peak_gbps=380.0),
            "warn",
            "0.8022 of the 470 GB/s expected when measured again; at first 0.855 of",
        ),
        (
            on_border(),
            "inconclusive",
            "; measured again: 0.855 of the 470 GB/s expected, spread 8%",
        ),
        (leg(peak_gbps=120.0), "inconclusive", "; measured again: 0.2533 of the 470 GB/s expected"),
        (leg(peak_gbps=430.0, largest=512 * MIB), "inconclusive", "again it got to 512 MiB only"),
        (leg("net", peak_gbps=430.0), "inconclusive", f"{NO_FIGURE}it did not report leg default"),
        (hung(), "inconclusive", f"{NO_FIGURE}leg default: hang: no progress for 20 s"),
        (wrong(peak_gbps=430.0), "inconclusive", f"{NO_FIGURE}leg default gave wrong data"),
        (FEWER_RANKS, "inconclusive", f"{NO_FIGURE}leg default cannot be compared with the first"),
    ],
    ids=["pass", "warn", "border", "far", "smaller", "other leg", "hang", "wrong", "ranks"],
)
def test_the_second_figure_decides_where_it_is_clear(again: Leg, outcome: str, reason: str) -> None:
    finding = measured_again(on_border(), again)
    assert finding.outcome == outcome
    assert reason in finding.reason.text
    assert bool(finding.reason) == bool(reason)


def test_a_figure_that_is_clear_stays_what_it_is() -> None:
    assert measured_again(leg(peak_gbps=367.0), leg(peak_gbps=470.0)).outcome == "warn"


def test_a_spread_without_bounds_is_no_pass() -> None:
    size = replace(leg().sizes[-1], spread=3.0)
    assert band(size, 480.0) == ("fail", "pass")


@pytest.mark.parametrize(
    "others",
    [
        (topology(link_gbps=0.0),),
        (topology(path="PIX", switched=False),),
        (
            CheckResult(
                "topology", "could_not_measure", Reason("not_measured", "NVML does not answer")
            ),
        ),
        (topology(gpus=4),),
    ],
    ids=["unknown link", "no PCIe", "no topology", "fewer GPUs"],
)
def test_without_a_prediction_it_is_inconclusive(others: tuple[CheckResult, ...]) -> None:
    (finding,) = judged(leg(), others=others)
    assert finding.outcome == "inconclusive"
    assert finding.reason.code == "no_reference"


def test_an_unknown_model_is_judged_by_its_links() -> None:
    (finding,) = judged(leg(peak_gbps=120.0), gpu_name="NVIDIA Z999")
    assert finding.outcome == "fail"


def test_a_small_message_proves_no_bandwidth() -> None:
    (finding,) = judged(leg(largest=16 * MIB))
    assert finding.outcome == "inconclusive"
    assert "too small" in finding.reason.text


@pytest.mark.parametrize(
    "legs",
    [
        gloo_legs(),
        (hung(),),
        (wrong(),),
        (leg("p2p_off", 40.0), leg("net", 9.0)),
        (leg(ranks=4),),
        (leg(state="not_engaged"),),
    ],
    ids=["exercise", "hang", "wrong data", "other legs", "fewer ranks", "unknown state"],
)
def test_what_says_nothing_about_bandwidth_is_not_judged(legs: tuple[Leg, ...]) -> None:
    assert judged(*legs) == []


def test_where_nobody_asked_for_the_topology_nothing_is_said() -> None:
    assert judged(leg(peak_gbps=3.0), others=()) == []


@pytest.mark.parametrize(("gbps", "outcome"), [(10.0, "pass"), (4.0, "warn"), (2.0, "fail")])
def test_shared_memory_has_a_border_of_its_own(gbps: float, outcome: str) -> None:
    (finding,) = judged(leg(peak_gbps=gbps), others=(topology(path="SYS"), pcie(generation=4)))
    assert finding.outcome == outcome
    assert "fail unless >= 0.3 x expectation" in finding.limit


def test_pcie_link_that_came_down_is_held_against_what_it_could_be() -> None:
    others = (topology(path="PIX", switched=False), pcie(reached=4))
    (finding,) = judged(leg(peak_gbps=11.0), others=others)
    assert finding.outcome == "fail"
    assert "PCIe 5 x16" in finding.limit
