from __future__ import annotations

from typing import Any

import pytest

from hwcheck.node.wire import COLLECTIVES, LEG_STATES
from hwcheck.render.legs import LEG_WORDS, in_order, leg_figure, transport
from tests.factories import leg


def test_every_state_of_a_leg_has_words() -> None:
    assert set(LEG_WORDS) == set(LEG_STATES)


def test_those_that_decide_about_peer_access_come_first() -> None:
    assert sorted(["nosuch", *reversed(COLLECTIVES)], key=in_order) == [*COLLECTIVES, "nosuch"]


def test_a_leg_that_did_not_engage_has_no_figure() -> None:
    assert leg_figure(leg(state="not_engaged")) == "did not use what it is to measure"


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"P2P/CUMEM": 96, "gdrdma": 0, "nvls": True}, "P2P/CUMEM 96, nvls yes"),
        ({}, ""),
        ({f"NET/{i}": 1 for i in range(50)}, "NET/11 1"),
    ],
)
def test_the_way_of_the_data_in_words(facts: dict[str, Any], words: str) -> None:
    assert transport(leg(transport=facts)).endswith(words)
