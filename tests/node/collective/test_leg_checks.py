"""The checks of collectives are alike but for their words."""

from __future__ import annotations

import pytest

from hwcheck.node import checks
from hwcheck.node.collective.leg_checks import METRICS, NEEDED
from hwcheck.node.collective.leg_samples import leg_samples
from hwcheck.node.wire import COLLECTIVES
from tests.factories import leg

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
