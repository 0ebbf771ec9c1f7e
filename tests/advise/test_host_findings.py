"""What a rule may ask of a host."""

from __future__ import annotations

from typing import Any

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.advise.causes import findings_of
from hwcheck.advise.rule import HostFindings, Sign, sign
from hwcheck.contract.reasons import LOG_LOST, NO_PERMISSION, NOT_MEASURED
from hwcheck.judge.judge import judge
from hwcheck.judge.records import Finding
from tests.advise.nodes import run_of
from tests.judge.nodes import H100


def host(**keys: Any) -> HostFindings:
    run = run_of(("n1", keys))
    findings = [f for f in judge(run, shipped()).findings if f.outcome != "pass"]
    return findings_of(run.meta.hosts[0], run.records[0], findings)


def test_only_what_failed_or_was_warned_of_is_bad() -> None:
    node = host(samples={"power_cap": {"power_limit_percent": {"gpu0": 71.4, "gpu1": 100.0}}})
    assert [f.subject for f in node.bad("power_cap")] == ["gpu0"]
    assert node.bad("power_cap", "power_limit_w") == ()
    assert node.bad_on(["gpu1", "gpu0"], "power_cap") == node.bad("power_cap")
    assert any(f.outcome == "inconclusive" for f in node.findings)


def test_readings_are_by_subject() -> None:
    node = host(samples={"virtualization": {"hypervisor": "kvm", "container": True}})
    assert (node.value("virtualization", "hypervisor"), node.value("xid", "meaning")) == (
        "kvm",
        None,
    )
    assert (node.hypervisor, bool(node.container)) == ("kvm", True)
    assert node.models["gpu0"] == H100
    bare = host(samples={"virtualization": {"hypervisor": "none", "container": False}})
    assert (bare.hypervisor, bare.container) == ("", "")


HANG, CLEAN = {"leg": "default", "state": "hang"}, {"leg": "p2p_off", "gbps": 14.0}


@pytest.mark.parametrize(
    ("legs", "trouble"),
    [
        ([HANG, CLEAN], ["leg_state"]),
        ([{"leg": "default", "wrong": 3}, CLEAN], ["wrong_elements"]),
        ([HANG, {"leg": "p2p_off", "state": "hang"}], []),
        ([{"leg": "default", "gbps": 14.0}, {"leg": "p2p_off", "state": "hang"}], []),
        ([{"leg": "net", "state": "hang"}, CLEAN], []),
    ],
)
def test_trouble_with_p2p_is_what_goes_away_without_it(legs: list[Any], trouble: list[str]) -> None:
    assert [f.metric for f in host(path="NODE", legs=legs).p2p_trouble()] == trouble


def test_slow_legs_and_what_they_go_over() -> None:
    slow = host(path="NODE", legs=[{"leg": "default", "gbps": 3.0}])
    assert [f.metric for f in slow.slow_over_pcie()] == ["busbw_gbps"]
    linked = host(path="NV18", legs=[{"leg": "default", "gbps": 3.0}])
    assert len(linked.slow_legs()) == 1
    assert linked.slow_over_pcie() == ()
    assert linked.slow_legs("site") == ()


def test_words_of_logs_are_found_whatever_their_case() -> None:
    log = "one\nNCCL WARN No Space left on device\ntwo"
    node = host(path="NODE", legs=[{"leg": "default", "state": "failed", "log": log}])
    assert list(node.log_lines("no space LEFT")) == ["NCCL WARN No Space left on device"]


def test_a_sign_needs_something_to_explain() -> None:
    assert sign("certain", (), ["an observation"]) is None


def test_a_sign_has_each_finding_once_and_no_empty_observation() -> None:
    slow = Finding("n1", "check", "fail", "metric", "node")
    expected = Sign("likely", (slow,), ("an observation",))
    assert sign("likely", (slow, slow), ["", "an observation"]) == expected


def test_what_could_not_be_measured_goes_by_its_reason() -> None:
    node = host(
        unmeasured={
            "pcie_acs": {"code": NO_PERMISSION, "text": "x"},
            "xid": {"code": NOT_MEASURED, "text": "x"},
        }
    )
    assert [f.check for f in node.unmeasured(NO_PERMISSION, LOG_LOST)] == ["pcie_acs"]
    assert {f.check for f in node.unmeasured()} >= {"pcie_acs", "xid"}
    assert all(f.outcome == "inconclusive" for f in node.unmeasured())


def pairs(state: str = "done", wrong: int = 0, **access: bool) -> dict[str, Any]:
    states = {"p2p_state": {"gpu0-gpu1": state}, "p2p_wrong_elements": {"gpu0-gpu1": wrong}}
    return {
        "gpu_pairs": {**states, "p2p_access": {k.replace("_", "-"): v for k, v in access.items()}}
    }


@pytest.mark.parametrize(
    ("samples", "granted"),
    [
        (pairs(gpu0_gpu1=True), True),
        (pairs(gpu0_gpu1=False), False),
        (pairs(gpu1_gpu0=True), True),
        (pairs(gpu1_gpu0=False) | {"p2p_status": {"pcie_read": {"gpu0-gpu1": "OK"}}}, False),
        (pairs() | {"p2p_status": {"pcie_read": {"gpu0-gpu1": "OK"}}}, True),
        (pairs() | {"p2p_status": {"pcie_read": {"gpu0-gpu1": "CNS"}}}, False),
        (pairs(), False),
    ],
    ids=["yes", "no", "the way back", "the way back, no", "by NVML", "not by NVML", "not known"],
)
def test_whether_the_driver_grants_a_pair(samples: dict[str, Any], granted: bool) -> None:
    node = host(path="NODE", samples={**samples, "memlock": {"memlock_unlimited": False}})
    assert node.p2p_granted("gpu0-gpu1") is granted


def test_a_pair_in_trouble_is_trouble_with_p2p() -> None:
    hang = host(path="NODE", samples=pairs("hang", gpu0_gpu1=True))
    assert [f.metric for f in hang.p2p_trouble()] == ["p2p_state"]
    assert [f.metric for f in hang.p2p_trouble(over_pcie=True)] == ["p2p_state"]
    linked = host(path="NV4", samples=pairs("done", 5, gpu0_gpu1=True))
    assert [f.metric for f in linked.p2p_trouble()] == ["p2p_wrong_elements"]
    assert linked.p2p_trouble(over_pcie=True) == ()
    assert host(path="NODE", samples=pairs("done", 5, gpu0_gpu1=False)).p2p_trouble() == ()


def test_legs_over_nvlink_are_no_trouble_of_pcie() -> None:
    node = host(path="NV18", legs=[HANG, CLEAN])
    assert [f.metric for f in node.p2p_trouble()] == ["leg_state"]
    assert node.p2p_trouble(over_pcie=True) == ()
