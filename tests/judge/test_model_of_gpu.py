"""What a GPU is held against follows from its name and its PCI ids."""

from __future__ import annotations

import pytest

from hwcheck import checks
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.wire import CheckResult, Report, Sample
from hwcheck.judge.host_case import node_facts
from hwcheck.judge.limits import judge_answer
from hwcheck.judge.models import Model
from hwcheck.results.run_folder import HostRecord

CHECKS = checks.load()
FIGURES = {"bf16_tflops": "TFLOP/s", "fp16_tflops": "TFLOP/s", "memory_gbps": "GB/s"}


def outcomes(figure: str, value: float, **facts: str) -> list[str]:
    """Return the outcomes of a figure of the load on a GPU with these facts."""
    check, metric = ("sustained_tflops", figure)
    if figure == "memory_gbps":
        check, metric = ("hbm_bandwidth", "copy_gbps")
    gpu = {"index": 0, "uuid": "GPU-0", **facts}
    known = node_facts({}, HostRecord("n", "reported", report=Report({"gpus": [gpu]}, ())))
    result = CheckResult(check, "done", samples=(Sample(metric, value, FIGURES[figure], "gpu0"),))
    findings = judge_answer("n", CHECKS[check], result, known, shipped().models)
    return [finding.outcome for finding in findings if finding.metric == metric]


@pytest.mark.parametrize("model", shipped().models.every, ids=lambda model: model.id)
def test_a_healthy_gpu_of_each_model_passes_and_a_slow_one_does_not(model: Model) -> None:
    device, _, subsystem = model.pci_ids[0].upper().partition(":")
    ids = {"pci_device_id": f"0x{device}10DE", "pci_subsystem_id": f"0x{subsystem or '0'}"}
    for name in (*model.names, "NVIDIA Graphics Device"):
        for figure in FIGURES.keys() & model.figures.keys():
            healthy = model.reached(figure)
            assert healthy is not None
            assert outcomes(figure, healthy, name=name, **ids) == ["pass"]
            # TFLOP/s are of one GPU, at its best: what all have steadily may be less.
            slow = "fail" if figure == "memory_gbps" else "warn"
            assert outcomes(figure, 0.7 * healthy, name=name, **ids) == [slow]


@pytest.mark.parametrize(
    ("subsystem", "outcome"), [("0x146310DE", "pass"), ("0x162510DE", "inconclusive"), ("", None)]
)
def test_the_subsystem_tells_boards_of_one_device_id_apart(
    subsystem: str, outcome: str | None
) -> None:
    ids = {"pci_device_id": "0x20B210DE", "pci_subsystem_id": subsystem}
    found = outcomes("memory_gbps", 1700.0, name="NVIDIA Graphics Device", **ids)
    assert found == [outcome or "inconclusive"]
