from __future__ import annotations

import pytest

from hwcheck import checks
from hwcheck.checks.shared.leg_checks import METRICS, NEEDED, leg_samples
from hwcheck.contract.wire import COLLECTIVES
from tests.factories import hung, leg, wrong

REGISTRY = checks.load()


def test_every_collective_is_a_check() -> None:
    assert {name for name, check in REGISTRY.items() if check.legs} == set(COLLECTIVES)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_they_load_the_node_and_need_the_usual_legs(name: str) -> None:
    check = REGISTRY[name]
    assert (check.load, check.gpu, list(check.legs)) == (True, False, NEEDED)
    assert check.metrics == METRICS


def test_every_sample_of_a_leg_is_a_metric() -> None:
    samples = [sample.metric for sample in leg_samples(leg())]
    assert {metric.name for metric in METRICS} == {*samples, "pass_spread", "driver_answers"}


def test_the_words_of_no_two_are_the_same() -> None:
    assert len({REGISTRY[name].doc for name in COLLECTIVES}) == len(COLLECTIVES)


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
