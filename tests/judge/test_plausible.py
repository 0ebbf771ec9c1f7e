"""Values that a metric of a unit can and cannot have."""

import pytest

from hwcheck import checks
from hwcheck.contract.check import Metric
from hwcheck.contract.limits import Equal
from hwcheck.contract.reasons import IMPLAUSIBLE, NONE, UNKNOWN_METRIC, Reason
from hwcheck.contract.wire import Sample, Value
from hwcheck.judge.readings import implausible
from hwcheck.judge.units import UNITS


@pytest.mark.parametrize(
    ("unit", "value", "fits"),
    [
        ("C", 31, True),
        ("C", -300, False),
        ("C", 1e9, False),
        ("lanes", 16, True),
        ("lanes", 0, False),
        ("lanes", -1, False),
        ("W", 700.0, True),
        ("W", -5, False),
        ("errors", 0, True),
        ("errors", False, False),
        ("errors", "none", False),
        ("", "ok", True),
        ("", True, True),
        ("", -1, True),
    ],
)
def test_what_fits_a_unit(unit: str, value: Value, fits: bool) -> None:
    metric = Metric("m", unit, "")
    assert (implausible(metric, Sample("m", value, unit)) == NONE) == fits


def test_an_empty_text_is_no_reading_of_what_is_judged() -> None:
    judged = Metric("m", "", "", (Equal("ok", "s"),))
    assert implausible(judged, Sample("m", "")) == Reason(IMPLAUSIBLE, "m is empty")
    assert implausible(judged, Sample("m", "x")) == NONE
    assert implausible(Metric("m", "", ""), Sample("m", "")) == NONE


def test_another_unit_is_another_metric() -> None:
    assert implausible(Metric("m", "W", ""), Sample("m", 1, "kW")) == Reason(
        UNKNOWN_METRIC, "m in kW is not a metric of this check"
    )


def test_every_unit_of_every_check_has_a_range() -> None:
    units = {metric.unit for check in checks.load().values() for metric in check.metrics}
    assert units - {""} <= set(UNITS)
