"""What a run of a former version lacks is there once it is read."""

from __future__ import annotations

import json

import pytest

from hwcheck.contract.wire import CheckResult, Report, Sample, to_json
from hwcheck.results.run_folder import HostRecord


def codes(*samples: Sample) -> list[object]:
    """Return the codes of NVML's status in a host's record with these samples, as it is read."""
    record = HostRecord(
        "n1", "reported", report=Report({}, (CheckResult("driver", "done", samples=samples),))
    )
    report = HostRecord.from_dict(json.loads(to_json(record))).report
    assert report
    return [
        sample.value
        for result in report.results
        for sample in result.samples
        if sample.metric == "nvml_status_code"
    ]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("GPU is lost", "gpu_lost"),
        ("Driver Not Loaded", "driver_broken"),
        ("NVML did not answer within 50 s", "no_answer"),
        ("Timeout", "no_answer"),
        ("Unknown Error", "not_measured"),
    ],
)
def test_the_words_of_nvml_are_a_code(status: str, code: str) -> None:
    assert codes(Sample("nvml_status", status)) == [code]


def test_a_code_that_is_there_and_a_driver_that_works_stay() -> None:
    told = Sample("nvml_status_code", "gpu_lost")
    assert codes(Sample("nvml_status", "Driver Not Loaded"), told) == ["gpu_lost"]
    assert codes(Sample("nvml_status", "ok")) == []
