from __future__ import annotations

from collections.abc import Iterator

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.pairs_run import PairCopy, PairsRun
from hwcheck.contract.wire import Leg
from hwcheck.node.together.launch import Collectives


def leg(collective: str, name: str = "default", state: str = "done") -> Leg:
    return Leg(collective, name, "nccl", 8, state)


def test_each_collective_is_answered_with_its_own_legs_as_often_as_asked() -> None:
    found = Collectives()
    legs = [leg("all_reduce"), leg("alltoall"), leg("all_reduce", "net")]
    found.take(iter(legs))
    for _ in range(2):
        assert list(found.legs("all_reduce")) == [legs[0], legs[2]]
        assert list(found.legs("alltoall")) == [legs[1]]
    assert list(found.legs("broadcast")) == []
    assert found.started


def test_what_breaks_is_said_to_each_after_what_there_was() -> None:
    def run() -> Iterator[Leg]:
        yield leg("all_reduce")
        raise CouldNotMeasure("the launcher died")

    found = Collectives()
    found.take(run())
    for name, there in (("all_reduce", 1), ("alltoall", 0)):
        legs = found.legs(name)
        assert [next(legs) for _ in range(there)] == [leg("all_reduce")] * there
        with pytest.raises(CouldNotMeasure, match="the launcher died"):
            next(legs)


def test_the_copies_between_gpus_are_answered_beside_the_legs() -> None:
    run = PairsRun((PairCopy(0, 1, True, 20.0),))
    found = Collectives()
    found.take(iter([run, leg("all_reduce")]))
    assert (found.pairs(), found.started) == (run, True)
    assert list(found.legs("all_reduce")) == [leg("all_reduce")]


def test_copies_that_were_not_made_say_why() -> None:
    def run() -> Iterator[Leg]:
        yield from ()
        raise CouldNotMeasure("no torch")

    for answer, reason in ((run(), "no torch"), (iter(()), "no pair of GPUs was asked to copy")):
        found = Collectives()
        found.take(answer)
        with pytest.raises(CouldNotMeasure, match=reason):
            found.pairs()


def test_legs_that_were_not_run_load_nothing() -> None:
    found = Collectives()
    found.take(iter([leg("sendrecv", state="not_run")]))
    assert not found.started
