from __future__ import annotations

import pytest

from hwcheck.node.collective.leg_samples import leg_samples
from tests.factories import hung, leg, wrong


def given(one: object) -> dict[str, object]:
    return {sample.metric: sample.value for sample in leg_samples(one)}  # type: ignore[arg-type]


def test_a_whole_leg_comes_down_to_its_largest_size() -> None:
    one = leg("p2p_off", 40.0)
    largest = one.sizes[-1]
    assert {sample.subject for sample in leg_samples(one)} == {"leg p2p_off"}
    assert given(one) == {
        "leg_state": "done",
        "wrong_elements": 0,
        "largest_size_bytes": largest.size_bytes,
        "busbw_gbps": largest.busbw_gbps,
        "algbw_gbps": largest.algbw_gbps,
        "busbw_spread": largest.spread,
    }


def test_wrong_elements_of_every_size_count() -> None:
    assert given(wrong(elements=7))["wrong_elements"] == 7


def test_a_leg_that_did_not_end_has_no_bandwidth() -> None:
    assert given(hung()) == {"leg_state": "hang"}
    assert "busbw_gbps" not in given(hung(sizes=leg().sizes))


@pytest.mark.parametrize(("driver", "answers"), [("answers", True), ("gpu1: GPU is lost", False)])
def test_what_the_driver_did_after_a_hang_is_judged(driver: str, answers: bool) -> None:
    assert given(hung(driver=driver)) == {"leg_state": "hang", "driver_answers": answers}


def test_a_leg_that_was_not_run_has_no_state_to_judge() -> None:
    assert given(leg(state="not_run", sizes=())) == {}
