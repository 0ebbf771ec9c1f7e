"""gpu_lost where the driver tells what it wants before a GPU takes work."""

from __future__ import annotations

from typing import Any

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.testing.cases import check_case_problem
from tests.checks.test_cases import REGISTRY

CHECK = REGISTRY["gpu_lost"]


def case(gpu: dict[str, Any], outcomes: dict[str, str]) -> dict[str, Any]:
    bus = {"pci_gpus": ["0000:18:00.0"], "pci_answers": {"0000:18:00.0": {"error": "hidden"}}}
    return {
        "doc": "A GPU that answers or is lost.",
        "node": {**bus, "gpus": [{"loss": "", **gpu}]},
        "expect_inventory": {},
        "result": {"state": "done"},
        "outcomes": {f"{metric} gpu0": outcome for metric, outcome in outcomes.items()},
    }


@pytest.mark.parametrize(
    ("action", "outcome"),
    [(0, "pass"), (1, "fail"), (2, "fail"), (3, "fail"), (4, "fail"), (5, "fail"), (99, "fail")],
)
def test_a_gpu_that_answers_and_takes_no_work_fails(action: int, outcome: str) -> None:
    expected = {"gpu_answer": "pass", "recovery_action": outcome}
    assert (
        check_case_problem(CHECK, case({"recovery_action": action}, expected), shipped().models)
        == ""
    )


def test_a_driver_that_does_not_tell_is_no_fault() -> None:
    assert check_case_problem(CHECK, case({}, {"gpu_answer": "pass"}), shipped().models) == ""


def test_a_lost_gpu_is_not_asked() -> None:
    said = {"loss": "GPU is lost", "recovery_action": {"error": "GPU is lost"}}
    assert check_case_problem(CHECK, case(said, {"gpu_answer": "fail"}), shipped().models) == ""
