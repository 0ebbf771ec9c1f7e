from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hwcheck.contract.reasons import CRASHED, Reason
from hwcheck.contract.wire import CheckResult
from hwcheck.judge.evidence import LegEvidence, counted
from hwcheck.judge.host_case import node_facts
from hwcheck.results.run_folder import HostRecord
from tests.factories import (
    cpu_results,
    gpu_facts,
    gpu_host,
    hung,
    leg,
    record,
    reduce_result,
    results,
)

LEGS = (leg(), leg("p2p_off", 40.0), leg("net", 9.0))


def _counted(host: HostRecord, double: str = "", **expect: Any) -> LegEvidence:
    (found,) = counted(host, node_facts(expect, host), double)
    return found


def _answer(**changes: Any) -> HostRecord:
    return record("a", [replace(reduce_result(LEGS), **changes)], gpus=gpu_facts())


@pytest.mark.parametrize("state", ["reported", "partial"])
def test_honest_legs_count(state: str) -> None:
    found = _counted(replace(gpu_host("a", LEGS), state=state), gpus=8)
    assert list(found.legs.values()) == list(LEGS)
    assert found.problems == {}


@pytest.mark.parametrize("host", [record("cpu", cpu_results()), record("down", None)])
def test_hosts_without_an_nccl_leg(host: HostRecord) -> None:
    assert counted(host, node_facts({}, host)) == []


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (replace(gpu_host("a"), state="invalid"), "the visit ended as invalid"),
        (replace(gpu_host("a"), state="lost"), "the visit ended as lost"),
        (
            _answer(state="could_not_measure", reason=Reason(CRASHED, "died")),
            "could not measure: died",
        ),
        (_answer(state="not_applicable"), "not applicable"),
        (_answer(state="busy"), "the answer is busy"),
        (_answer(check="driver"), "it came as an answer of driver"),
        (record("a", results(LEGS), gpus=gpu_facts(4)), "4"),
        (record("a", [reduce_result(LEGS)]), "8 ranks, and the node names 0 GPUs"),
        (record("a", [reduce_result(LEGS)], gpus=gpu_facts(1) * 8), "8 ranks"),
    ],
)
def test_legs_that_do_not_count(host: HostRecord, words: str) -> None:
    found = _counted(host)
    assert found.legs == {}
    assert list(found.problems) == ["default", "p2p_off", "net"]
    assert all(words in problem for problem in found.problems.values())


@pytest.mark.parametrize("state", ["reported", "partial"])
def test_a_miscounted_host_and_a_double_do_not_count(state: str) -> None:
    host = replace(gpu_host("a"), state=state)
    assert "hwcheck_gpus says 4" in _counted(host, gpus=4).problems["default"]
    assert _counted(host, "a twin").problems["default"] == "a twin"


def test_one_bad_leg_leaves_the_others() -> None:
    elsewhere = leg("p2p_sys", 40.0, state="not_engaged", reason="NCCL used SHM")
    legs = (hung(), leg("p2p_off", 40.0, env={}), leg("net", 9.0, ranks=2), elsewhere)
    found = _counted(gpu_host("a", legs))
    assert found.legs == {"default": legs[0]}
    assert found.problems["p2p_sys"] == "it did not use what it is to measure: NCCL used SHM"
    assert "it ran with no variable" in found.problems["p2p_off"]
    assert found.problems["net"] == "it ran on 2 ranks, and the node names 8 GPUs"


def test_of_two_legs_of_one_name_none_counts() -> None:
    found = _counted(gpu_host("a", (*LEGS, leg("p2p_off", 80.0))))
    assert list(found.legs) == ["default", "net"]
    assert found.problems == {"p2p_off": "it was sent twice"}
    twice = [reduce_result(LEGS), reduce_result(LEGS), CheckResult("other", "done")]
    assert _counted(record("a", twice, gpus=gpu_facts())).legs == {}
