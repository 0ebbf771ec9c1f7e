from __future__ import annotations

import pytest

from hwcheck.contract.limits import (
    AbovePeers,
    AtLeast,
    AtMost,
    Equal,
    FromInventory,
    FromModel,
    FromSample,
    Limit,
)
from hwcheck.contract.wire import Value

MAXIMUM = FromSample("width_max")
GPUS = FromInventory("gpus")
FIGURE = FromModel("bf16_tflops")
FLOOR = AtLeast("source", fail=75, warn=99)
SHARE = AtLeast("source", fail=0.5, warn=1.0, of=MAXIMUM)
CEILING = AtMost("source", fail=0.85, warn=0.7, of=MAXIMUM)


@pytest.mark.parametrize(
    ("limit", "value", "reference", "outcome"),
    [
        (Equal("ok", "source"), "ok", None, "pass"),
        (Equal("ok", "source"), "Driver Not Loaded", None, "fail"),
        (Equal(True, "source", otherwise="warn"), False, None, "warn"),
        (Equal(GPUS, "source"), 8, 8, "pass"),
        (Equal(GPUS, "source"), 7, 8, "fail"),
        (Equal(GPUS, "source"), 8, None, "fail"),
        (FLOOR, 99, None, "pass"),
        (FLOOR, 98.9, None, "warn"),
        (FLOOR, 75, None, "warn"),
        (FLOOR, 74.9, None, "fail"),
        (SHARE, 16, 16, "pass"),
        (SHARE, 8, 16, "warn"),
        (SHARE, 4, 16, "fail"),
        (CEILING, 69, 100, "pass"),
        (CEILING, 71, 100, "warn"),
        (CEILING, 86, 100, "fail"),
        (AtMost("source", warn=1), 1000, None, "warn"),
        (AtLeast("source"), -1, None, "pass"),
    ],
)
def test_outcomes(limit: Limit, value: Value, reference: Value | None, outcome: str) -> None:
    assert limit.judge(value, reference) == outcome


@pytest.mark.parametrize(("value", "reference"), [("<b>", 1), (1, "<b>")])
def test_a_number_is_not_held_against_text(value: Value, reference: Value) -> None:
    with pytest.raises(TypeError, match="was given '<b>'"):
        CEILING.judge(value, reference)


@pytest.mark.parametrize(
    ("limit", "reference", "text"),
    [
        (Equal(True, "source"), None, "= yes"),
        (Equal(0, "source"), None, "= 0"),
        (Equal(GPUS, "source"), None, "= hwcheck_gpus"),
        (Equal(GPUS, "source"), 8, "= hwcheck_gpus (8)"),
        (Equal(MAXIMUM, "source"), 2.5, "= width_max (2.5)"),
        (FLOOR, None, "fail unless >= 75, warn unless >= 99"),
        (AtLeast("source", fail=1.0, of=MAXIMUM), None, "fail unless >= 1 x width_max"),
        (AtMost("source", warn=0.7, of=MAXIMUM), 90, "warn unless <= 0.7 x width_max (63)"),
        (AtMost("source"), None, ""),
        (AtLeast("s", fail=0.8, of=FIGURE), None, "fail unless >= 0.8 x the model's bf16_tflops"),
        (
            AtLeast("s", fail=0.8, of=FIGURE),
            700.0,
            "fail unless >= 0.8 x the model's bf16_tflops (560)",
        ),
    ],
)
def test_text(limit: Limit, reference: Value | None, text: str) -> None:
    assert limit.text(reference) == text


def test_text_of_a_limit_over_hosts() -> None:
    text = "warn unless <= the same slot over the hosts + 10"
    assert AbovePeers("source", margin=10).text() == text


@pytest.mark.parametrize(
    ("limit", "operand"),
    [
        (Equal("ok", "source"), None),
        (Equal(GPUS, "source"), GPUS),
        (FLOOR, None),
        (SHARE, MAXIMUM),
        (CEILING, MAXIMUM),
        (Equal(FIGURE, "source"), FIGURE),
        (AtLeast("source", fail=0.8, of=FIGURE), FIGURE),
    ],
)
def test_operand(limit: Limit, operand: FromSample | FromInventory | FromModel | None) -> None:
    assert limit.operand == operand


def test_a_value_on_a_border_that_floats_cannot_hold_has_not_crossed_it() -> None:
    limit = AtMost("s", warn=0.7, fail=0.85, of=FromSample("slowdown"))
    assert limit.judge(63, 90) == "pass"
    assert limit.judge(63.001, 90) == "warn"
