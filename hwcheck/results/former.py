"""What runs of former versions lack, and what it follows from: told once, where a run is read."""

from __future__ import annotations

from dataclasses import replace

from hwcheck.checks.driver import NVML_STATUS, NVML_STATUS_CODE, driver
from hwcheck.contract.reasons import of_former_run
from hwcheck.contract.wire import CheckResult, Report, Sample


def completed(report: Report) -> Report:
    """Return a report with the code of why NVML cannot be used, which was told by words alone."""
    results = tuple(
        _with_code(result) if result.check == driver.id else result for result in report.results
    )
    return report if results == report.results else replace(report, results=results)


def _with_code(result: CheckResult) -> CheckResult:
    values = {sample.metric: str(sample.value) for sample in result.samples}
    status = values.get(NVML_STATUS.name, "ok")
    if status == "ok" or NVML_STATUS_CODE.name in values:
        return result
    code = Sample(NVML_STATUS_CODE.name, of_former_run(status).code)
    return replace(result, samples=(*result.samples, code))
