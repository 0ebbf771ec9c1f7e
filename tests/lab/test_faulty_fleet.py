"""Five hosts with two and three faults each, read as their operator."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwcheck.advise.assessment import Assessment
from tests.lab import faulty_fleet

PAGE = Path(__file__).parents[2] / "docs/example-report.md"

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def assessed() -> Assessment:
    return faulty_fleet.assessment()


@pytest.mark.parametrize("host", faulty_fleet.hosts())
def test_the_causes_of_a_host_are_those_and_in_that_order(host: str, assessed: Assessment) -> None:
    """In the order in which the report lists them."""
    diagnoses = assessed.advice.causes.diagnoses
    named = [diagnosis.cause for diagnosis in diagnoses if host in diagnosis.hosts]
    assert named == faulty_fleet.hosts()[host]["causes"]


def test_a_healthy_host_among_them_passes(assessed: Assessment) -> None:
    outcomes = {verdict.host: verdict.outcome for verdict in assessed.judgement.hosts}
    assert outcomes == {"node01": "pass", **dict.fromkeys(list(outcomes)[1:], "fail")}


def test_nothing_is_left_without_a_cause(assessed: Assessment) -> None:
    assert assessed.advice.open_actions == ()


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("memory_repair_pending", "gpu2 is at 0000:3a:00.0, serial 1650000002103"),
        ("power_limit_lowered", "gpu4 is at 0000:9a:00.0, serial 1650000002105"),
        ("pcie_link_degraded", "gpu6 is at 0000:ba:00.0, serial 1650000003107"),
        ("nvlink_failing", "gpu1 link17"),
        ("gpu_lost", "pci 0000:3a:00.0"),
        (
            "rdma_port_down",
            "port_link Polling; PIX to the GPU at 0000:9a:00.0, wanted LinkUp (port mlx5_4/1)",
        ),
        ("fabric_not_joined", "gpu7 is at 0000:db:00.0, serial 1650000005108"),
        ("memory_errors_corrected", "gpu0 is at 0000:18:00.0, serial 1650000005101"),
    ],
)
def test_the_part_is_named(cause: str, words: str, assessed: Assessment) -> None:
    (diagnosis,) = (each for each in assessed.advice.causes.diagnoses if each.cause == cause)
    assert any(words in text for text in diagnosis.observed), diagnosis.observed


def test_what_stops_a_host_comes_before_what_slows_it(assessed: Assessment) -> None:
    order = [diagnosis.cause for diagnosis in assessed.advice.causes.diagnoses]
    assert order[0] == "gpu_lost"
    assert order.index("memory_repair_pending") < order.index("power_limit_lowered")
    outcomes = [diagnosis.outcome for diagnosis in assessed.advice.causes.diagnoses]
    assert outcomes == sorted(outcomes, key=["fail", "warn"].index)
    assert {"memory_errors_corrected", "memlock_limited"} == set(order[outcomes.index("warn") :])


def test_the_page_of_the_documentation_is_current() -> None:
    assert PAGE.read_text("utf-8") == faulty_fleet.page(), (
        "python -m tests.lab.faulty_fleet > docs/example-report.md"
    )
