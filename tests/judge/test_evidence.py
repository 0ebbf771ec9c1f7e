"""Answers that a node cannot give, and answers that lack something."""

from dataclasses import replace
from typing import Any

import pytest

from hwcheck.contract.check import WITHOUT_MIG, Check, Metric, Remedy
from hwcheck.contract.collective_spec import EVERY_NODE_LEGS
from hwcheck.contract.limits import AtMost, Equal, FromInventory
from hwcheck.contract.reasons import NOT_OFFERED, Reason
from hwcheck.contract.wire import CheckResult, Leg, Report, Sample, SizeTiming
from hwcheck.judge.evidence import contradictions, credible, gpus_without, miscounted, omissions
from hwcheck.judge.host_case import NodeFacts, node_facts
from hwcheck.results.run_folder import HostRecord

METRICS = (
    Metric("count", "", "", (Equal(FromInventory("gpus"), "s"),)),
    Metric("count_otherwise", "", "", (Equal(FromInventory("gpus"), "s"),)),
    Metric("hot", "C", "", (AtMost("s", fail=90),)),
)
CHECK = Check("demo", lambda node: iter(()), METRICS[2:], Remedy("c", "f"), True, False, "doc")
COUNTING = replace(CHECK, metrics=METRICS)
H200, A40 = "NVIDIA H200", "NVIDIA A40"
TWO = NodeFacts({}, {"gpu0": H200, "gpu1": H200})
ABSENT = CheckResult("demo", "not_applicable", Reason("not_applicable", "no such thing"))


@pytest.mark.parametrize(
    ("check", "known", "believed"),
    [
        (CHECK, NodeFacts(), True),
        (CHECK, NodeFacts({"gpus": 0}), True),
        (CHECK, NodeFacts({"gpus": 8}), False),
        (CHECK, TWO, False),
        (replace(CHECK, optional="ECC"), TWO, True),
        (replace(CHECK, optional=WITHOUT_MIG), TWO, False),
        (replace(CHECK, optional=WITHOUT_MIG), replace(TWO, mig=True), True),
        (replace(CHECK, optional=WITHOUT_MIG), NodeFacts(), True),
        (replace(CHECK, gpu=False), NodeFacts(), False),
        (replace(CHECK, gpu=False, optional="RDMA devices"), NodeFacts(), True),
        (replace(COUNTING, optional="ports"), NodeFacts({"gpus": 8}), False),
        (replace(COUNTING, optional="ports"), NodeFacts({"gpus": 0}), True),
    ],
)
def test_not_applicable_is_believed_where_it_can_be(
    check: Check, known: NodeFacts, believed: bool
) -> None:
    assert (credible(check, ABSENT, known).state == "not_applicable") == believed


def lacks(check: Check, known: NodeFacts, *samples: Sample) -> list[str]:
    return [subject for subject, _ in omissions(check, done(*samples), known)]


def done(*samples: Sample) -> CheckResult:
    return CheckResult("demo", "done", samples=samples)


HOT = tuple(Sample("hot", 40, "C", f"gpu{index}") for index in range(2))


def test_every_gpu_has_to_send_what_is_required() -> None:
    check = replace(CHECK, per_gpu=True, metrics=(replace(METRICS[2], required=True),))
    warm = Sample("warm", 1, "", "gpu0")
    assert lacks(check, TWO, *HOT) == []
    assert lacks(check, TWO, warm, HOT[1]) == ["gpu0"]


def test_what_is_required_of_a_node_has_to_be_there() -> None:
    check = replace(CHECK, metrics=(replace(METRICS[2], required=True),))
    assert lacks(check, NodeFacts(), Sample("hot", 40, "C")) == []
    assert lacks(check, NodeFacts(), Sample("warm", 1)) == ["node"]
    assert lacks(CHECK, NodeFacts(), Sample("warm", 1)) == []


def test_every_gpu_has_to_be_heard() -> None:
    check = replace(CHECK, per_gpu=True)
    assert lacks(check, TWO, *HOT) == []
    assert lacks(check, TWO, HOT[1]) == ["gpu0"]
    assert lacks(check, TWO, Sample("hot", 40, "C")) == ["gpu0", "gpu1"]
    assert lacks(check, NodeFacts(), *HOT) == ["node"]
    assert lacks(CHECK, TWO, HOT[1]) == []


def test_gpus_of_one_model_have_an_optional_thing_alike() -> None:
    check = replace(CHECK, per_gpu=True, optional="ECC")
    mixed = NodeFacts({}, {"gpu0": H200, "gpu1": A40})
    assert lacks(check, mixed, HOT[0]) == []
    assert list(gpus_without(check, done(HOT[0]), mixed)) == []
    assert lacks(check, TWO, HOT[0]) == [], "a difference between its GPUs, and no omission"
    assert list(gpus_without(check, done(HOT[0]), TWO)) == [("gpu1", "1 of 2")]
    every_board = replace(check, optional=WITHOUT_MIG)
    assert lacks(every_board, TWO, HOT[0]) == ["gpu1"]
    assert list(gpus_without(every_board, done(HOT[0]), TWO)) == []


def test_what_is_declared_is_no_matter_of_having_it() -> None:
    check = replace(COUNTING, per_gpu=True, optional="ECC")
    declared = NodeFacts({"gpus": 2}, TWO.models)
    count = Sample("count", 2, "", "gpu0")
    assert lacks(check, declared, count) == ["gpu1"]
    assert list(gpus_without(check, done(count), declared)) == []
    assert lacks(check, TWO, count) == []


def test_what_is_declared_has_to_be_held_against_something() -> None:
    declared = NodeFacts({"gpus": 2})
    assert lacks(COUNTING, declared, *HOT) == ["node"]
    assert lacks(COUNTING, declared, Sample("count_otherwise", 2)) == []
    assert lacks(COUNTING, NodeFacts(), *HOT) == []


@pytest.mark.parametrize(
    ("facts", "models"),
    [
        ({}, {}),
        ({"gpus": 8}, {}),
        ({"gpus": [{"name": H200}, {"index": True}, {"index": "0"}]}, {}),
        ({"gpus": [{"index": 3, "name": H200}, {"index": 4}]}, {"gpu3": H200, "gpu4": ""}),
    ],
)
def test_what_the_facts_name(facts: dict[str, Any], models: dict[str, str]) -> None:
    record = HostRecord("a", "reported", report=Report(facts, ()))
    assert node_facts({}, record).models == models


def test_a_visit_that_was_cut_off_names_no_gpu() -> None:
    known = node_facts({"gpus": 8}, HostRecord("a", "partial", report=Report({}, ())))
    assert known == NodeFacts({"gpus": 8}, whole=False)
    assert miscounted(known) == ""
    assert lacks(replace(CHECK, per_gpu=True), known, *HOT) == []


def test_another_number_of_gpus_than_declared() -> None:
    assert miscounted(TWO) == ""
    assert miscounted(replace(TWO, expect={"gpus": 2})) == ""
    assert miscounted(replace(TWO, expect={"gpus": 8})) == (
        "the node names 2 GPUs and hwcheck_gpus says 8"
    )


def named(*gpus: dict[str, Any], count: int | None = None) -> list[str]:
    """Return the contradictions of a report that names these GPUs."""
    samples = () if count is None else (Sample("nvml_gpus", count, "GPUs"),)
    answers = (CheckResult("gpu_count", "done", samples=samples),) if samples else ()
    record = HostRecord("a", "reported", report=Report({"gpus": list(gpus)}, answers))
    return [doubt.text for doubt in contradictions(record, node_facts({}, record))]


def counted(*samples: Sample) -> list[str]:
    """Return the contradictions of a gpu_count that is done with these samples."""
    answer = CheckResult("gpu_count", "done", samples=samples)
    report = Report({"gpus": [FIRST, SECOND]}, (answer,))
    record = HostRecord("a", "reported", report=report)
    return [doubt.text for doubt in contradictions(record, node_facts({}, record))]


def test_a_count_that_leaves_something_out() -> None:
    buses = tuple(Sample("seen_by_nvml", True, "", f"pci 0000:{n}8:00.0") for n in (1, 2))
    both = (Sample("pci_gpus", 2, "GPUs"), Sample("nvml_gpus", 2, "GPUs"))
    assert counted(*both, *buses) == []
    assert counted(Sample("container_gpus", 2, "GPUs")) == []
    assert counted(both[0], *buses) == ["gpu_count is done and holds no count of NVML"]
    assert counted(*both, buses[0]) == ["2 GPUs are on the bus and NVML was asked for 1"]


FIRST, SECOND = ({"index": i, "name": H200, "uuid": f"GPU-{i}"} for i in range(2))


@pytest.mark.parametrize(
    ("gpus", "count", "found"),
    [
        ((FIRST, SECOND), 2, []),
        ((FIRST, SECOND), None, []),
        ((FIRST,), 2, ["NVML counts 2 GPUs and the node names 1"]),
        ((), 8, ["NVML counts 8 GPUs and the node names 0"]),
        ((FIRST, SECOND | {"uuid": "GPU-0"}), 2, ["gpu0 and gpu1 have one identifier"]),
        ((FIRST, {"index": 1, "error": "lost"}), 2, ["gpu1 has no identifier: lost"]),
        ((FIRST, {"index": 1, "name": H200}), 2, ["gpu1 has no identifier: it tells none"]),
    ],
)
def test_gpus_that_cannot_be_those_that_a_report_speaks_of(
    gpus: tuple[dict[str, Any], ...], count: int | None, found: list[str]
) -> None:
    assert named(*gpus, count=count) == found


def test_the_device_of_each_gpu_is_known() -> None:
    gpus = [{"index": 0, "name": "A", "pci_device_id": "0x233510DE"}, {"index": 1, "name": "A"}]
    record = HostRecord("n", "reported", report=Report({"gpus": gpus}, ()))
    assert node_facts({}, record).devices == {"gpu0": "0x233510DE", "gpu1": ""}


def leg(name: str, ranks: int) -> Leg:
    timed = SizeTiming(1 << 30, 20, 9.5, 9.9, 0.02, 1 << 30, 1.0, 0)
    busbw = replace(timed, algbw_gbps=(1 << 30) / 9.5 / 1e3, busbw_gbps=0.0)
    env = dict(next(plan.env for plan in EVERY_NODE_LEGS if plan.name == name))
    return Leg("demo", name, "nccl", ranks, "done", "", False, "NCCL 2.28.9", env, (busbw,))


@pytest.mark.parametrize(
    ("known", "lacking"),
    [
        (NodeFacts({}, {"gpu0": H200}), []),
        (NodeFacts({"gpus": 2}, {"gpu0": H200}), ["leg default", "leg p2p_off", "leg net"]),
        (TWO, ["leg default", "leg p2p_off", "leg net"]),
    ],
)
def test_only_a_node_with_one_gpu_may_leave_out_what_one_gpu_cannot_show(
    known: NodeFacts, lacking: list[str]
) -> None:
    check = replace(CHECK, legs=("default", "p2p_off", "net"))
    absent = Reason(NOT_OFFERED, "there are no two GPUs to tell it by")
    given = (
        replace(leg("default", 1), collective="all_reduce"),
        Leg("all_reduce", "p2p_off", "nccl", 1, "not_run", absent),
    )
    check = replace(check, id="all_reduce")
    result = CheckResult("all_reduce", "done", legs=given)
    assert [about for about, _ in omissions(check, result, known)] == lacking


def test_a_leg_that_is_asked_for_of_one_gpu_is_missed() -> None:
    check = replace(CHECK, id="all_reduce", legs=("p2p_off",))
    given = Leg(
        "all_reduce",
        "p2p_off",
        "nccl",
        1,
        "not_run",
        Reason("not_measured", "there are no two GPUs"),
    )
    result = CheckResult("all_reduce", "done", legs=(given,))
    assert [about for about, _ in omissions(check, result, NodeFacts({}, {"gpu0": H200}))] == [
        "leg p2p_off"
    ]
