"""What a judged run shows of each requirement: never a pass without a measurement."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hwcheck.advise.assessment import assess
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import CheckResult, Sample
from hwcheck.fleet.accept.criteria import Criteria, Figure, Requirement
from hwcheck.fleet.accept.evidence import (
    OTHER,
    HostResult,
    InstalledPart,
    stage_result,
    state_result,
)
from hwcheck.results.multi_host import (
    MultiHostRecord,
    MultiHostRun,
    MultiHostTiming,
    Suspect,
    Transport,
    fabric_between,
)
from hwcheck.results.run_folder import HostRecord
from hwcheck.results.waivers import Waiver
from tests import factories

RMA = Waiver("pcie_link", "2026-12-31", "RMA 4711", "gpu3")


def criteria(*requirements: Requirement, **changes: Any) -> Criteria:
    made = Criteria("order", "any", 100, 60, 1, (), requirements, "c.yml", "")
    return replace(made, **changes)


def required(*checks: str, stage: str = "idle", **changes: Any) -> Requirement:
    return Requirement("R", "it is right", "order", stage, checks, **changes)


def shown(
    wanted: Criteria,
    *records: HostRecord,
    waivers: tuple[Waiver, ...] = (),
    multi_host: MultiHostRecord | None = None,
) -> HostResult:
    """Return what a run of these hosts shows of the first."""
    (stage,) = wanted.stages
    run = factories.run(*records, acceptance={"id": "x", "stage": stage})
    hosts = tuple(replace(host, waivers=waivers) for host in run.meta.hosts)
    run = replace(run, meta=replace(run.meta, hosts=hosts))
    return stage_result(wanted, assess(run, shipped(), multi_host)).hosts[records[0].host]


def state_of(result: HostResult, requirement: str = "R") -> tuple[str, str]:
    (each,) = [each for each in result.evidence if each.requirement == requirement]
    return each.state, each.text


def test_what_passes_is_met_with_its_figure_and_limit() -> None:
    state, text = state_of(shown(criteria(required("pcie_link")), factories.gpu_host("n1")))
    assert state == "met"
    assert "pcie_link: pcie_link_width of gpu0: 16 lanes (fail unless" in text


def test_what_fails_is_not_met_and_named() -> None:
    host = factories.gpu_host("n1", pcie_link_width=(3, 8))
    state, text = state_of(shown(criteria(required("pcie_link", "xid")), host))
    assert state == "not met"
    assert "gpu3: 8 lanes" in text
    assert "xid" not in text


def test_what_a_failure_means_is_said_in_its_own_words() -> None:
    host = factories.gpu_host("n1")
    assert host.report is not None
    more = CheckResult("parts", "done", samples=(Sample("part_serial", "C2", "", "chassis"),))
    host = replace(host, report=replace(host.report, results=(*host.report.results, more)))
    run = factories.run(
        host, checks=(*factories.CHECKS, "parts"), acceptance={"id": "x", "stage": "inventory"}
    )
    ordered = {"parts": [{"part": "chassis", "serial": "C1"}]}
    hosts = tuple(replace(each, expect=ordered) for each in run.meta.hosts)
    run = replace(run, meta=replace(run.meta, hosts=hosts))
    wanted = criteria(required("parts", stage="inventory"))
    state, text = state_of(stage_result(wanted, assess(run, shipped())).hosts["n1"])
    assert state == "not met"
    assert "as_ordered of chassis: 0: chassis has serial C2 (fail unless 1 part with" in text


def test_a_waiver_counts_where_the_criteria_allow_it() -> None:
    host = factories.gpu_host("n1", pcie_link_width=(3, 8))
    wanted = criteria(required("pcie_link"))
    state, text = state_of(shown(wanted, host, waivers=(RMA,)))
    assert state == "not met"
    assert "allow no waiver" in text
    state, text = state_of(shown(replace(wanted, waivers=("pcie_link",)), host, waivers=(RMA,)))
    assert state == "waived"
    assert "RMA 4711 (until 2026-12-31)" in text


def test_a_host_that_did_not_answer_has_met_nothing() -> None:
    result = shown(criteria(required("pcie_link")), factories.record("n1", None))
    assert result.state == "not measured"
    assert {each.state for each in result.evidence} == {"not measured"}


def test_a_repaired_host_that_is_alone_in_a_run_has_nobody_to_be_compared_with() -> None:
    compared = CheckResult(
        "software_versions", "done", samples=(Sample("torch_version", "2.8.0", "", "node"),)
    )

    def of(
        *hosts: str, answer: CheckResult = compared, named: str = "pcie_link"
    ) -> tuple[tuple[str, str], tuple[str, str]]:
        """Return what shows the requirement, and all that is not named in it."""
        records = []
        for host in map(factories.gpu_host, hosts):
            assert host.report is not None
            answers = (*host.report.results, answer)
            records.append(replace(host, report=replace(host.report, results=answers)))
        checks = (*factories.CHECKS, answer.check)
        run = factories.run(*records, checks=checks, acceptance={"id": "x", "stage": "idle"})
        result = stage_result(criteria(required(named)), assess(run, shipped())).hosts["n1"]
        return state_of(result), state_of(result, OTHER)

    for hosts in (("n1", "n2"), ("n1",)):
        assert [state for state, _ in of(*hosts)] == ["met", "met"], hosts
    _, (state, text) = of("n1", answer=replace(compared, samples=()))
    assert (state, "software_versions" in text) == ("not measured", True)
    (state, text), _ = of("n1", named="software_versions")
    assert state == "not measured", "what one host alone cannot show"
    assert "no other host is in the run to hold it against" in text


def test_a_host_that_somebody_else_loads_is_not_measured() -> None:
    busy = CheckResult(
        "gate_proof", "busy", Reason("at_work", "another visit loads this node (pid 4711)")
    )
    host = factories.record("n1", (busy,), gpus=factories.gpu_facts(8))
    wanted = criteria(required("gate_proof", stage="prove"))
    run = factories.run(host, checks=("gate_proof",), acceptance={"id": "x", "stage": "prove"})
    state, text = state_of(stage_result(wanted, assess(run, shipped())).hosts["n1"])
    assert (state, "another visit loads this node" in text) == ("not measured", True)


def test_a_check_that_the_run_did_not_ask_for_is_not_measured() -> None:
    wanted = criteria(required("imex"))
    assert state_of(shown(wanted, factories.gpu_host("n1")))[0] == "not measured"


def test_what_a_host_lacks_is_not_applicable_only_where_the_criteria_say_so() -> None:
    host = factories.record("n1", factories.cpu_results())
    state, text = state_of(shown(criteria(required("pcie_link")), host))
    assert (state, text.split(":")[0]) == ("not measured", "nothing on this host shows it")
    state, text = state_of(shown(criteria(required("pcie_link", may_lack="no GPU")), host))
    assert (state, text.split(":")[0]) == ("not applicable", "no GPU")


def test_what_no_requirement_names_must_pass_as_well() -> None:
    host = factories.gpu_host("n1", pcie_link_width=(3, 8))
    state, text = state_of(shown(criteria(required("xid")), host), OTHER)
    assert state == "not met"
    assert "pcie_link" in text


def asserted(*outcomes: str, role: str = "nccl") -> dict[str, Any]:
    """Return a ``state.json`` of one host with an assertion for each outcome."""
    assertions = [
        {
            "role": role,
            "variable": "nccl_conf",
            "outcome": each,
            "reason": f"{each}: /etc/nccl.conf",
        }
        for each in outcomes
    ]
    return {"started": "s", "finished": "f", "hosts": [{"host": "n1", "assertions": assertions}]}


@pytest.mark.parametrize(
    ("record", "changes", "state", "words"),
    [
        (asserted("pass", "pass"), {}, "met", "2 assertions of nccl"),
        (asserted("pass", "fail"), {}, "not met", "fail: /etc/nccl.conf (role nccl, nccl_conf)"),
        (asserted("pass", "inconclusive"), {}, "not measured", "inconclusive: /etc"),
        (asserted("inconclusive", "fail"), {}, "not met", "fail: "),
        (asserted("not applicable"), {}, "not measured", "no assertion applies"),
        (asserted(), {"may_lack": "nothing is wanted"}, "not applicable", "nothing is wanted: no"),
        (asserted("fail"), {"roles": ("rdma",)}, "not measured", "no assertion applies"),
        (asserted("fail", role="rdma"), {"roles": ("rdma",)}, "not met", "role rdma"),
    ],
)
def test_assertions_show_the_stage_state(
    record: dict[str, Any], changes: dict[str, Any], state: str, words: str
) -> None:
    result = state_result(criteria(required(stage="state", **changes)), "r1", record).hosts["n1"]
    found, text = state_of(result)
    assert found == state
    assert words in text


def test_parts_and_software_of_a_host_are_kept() -> None:
    host = factories.gpu_host("n1")
    assert host.report is not None
    said = [("part_model", "Xeon", "cpu0"), ("part_serial", "F4D1", "cpu0")]
    said += [("part_firmware", "0x2b", "cpu0"), ("part_number", "692-2G520", "gpu10")]
    samples = tuple(Sample(metric, value, "", part) for metric, value, part in said)
    more = CheckResult("parts", "done", samples=samples)
    report = replace(host.report, results=(*host.report.results, more))
    result = shown(criteria(required("pcie_link")), replace(host, report=report))
    assert result.parts["cpu0"] == InstalledPart("F4D1", "Xeon", "", "F4D1", "0x2b")
    assert result.parts["gpu0"].identity == "GPU-n1-0"
    assert [*result.parts][-2:] == ["gpu7", "gpu10"]


def test_criteria_for_another_model_are_not_met() -> None:
    wanted = criteria(required("xid"), gpu="h200_sxm")
    state, text = state_of(shown(wanted, factories.gpu_host("n1")), "gpu")
    assert (state, text) == ("not met", "h100_sxm; the criteria are for h200_sxm")
    wanted = replace(wanted, gpu="h100_sxm")
    assert state_of(shown(wanted, factories.gpu_host("n1")), "gpu") == ("met", "h100_sxm")


@pytest.mark.parametrize(
    ("border", "state"),
    [
        ({"at_least": 16}, "met"),
        ({"at_least": 17}, "not met"),
        ({"at_least": 16.5, "tolerance_percent": 5}, "met"),
        ({"at_most": 15}, "not met"),
    ],
)
def test_figures_of_the_criteria_are_held_against_every_subject(
    border: dict[str, float], state: str
) -> None:
    figure = Figure("pcie_link", "pcie_link_width", "annex B", **border)
    wanted = criteria(required(figures=(figure,)))
    found, text = state_of(shown(wanted, factories.gpu_host("n1")))
    assert found == state
    assert "16 lanes" in text
    assert "annex B" in text


def test_a_bandwidth_is_asked_of_the_legs_that_are_meant_to_reach_it() -> None:
    figure = Figure("all_reduce", "busbw_gbps", "annex C", at_least=400)
    legs = (factories.leg(), factories.leg("p2p_off", 40.0))
    wanted = criteria(required(figures=(figure,), stage="collectives"))
    state, text = state_of(shown(wanted, factories.gpu_host("n1", legs)))
    assert state == "met", text
    slow = (factories.leg("default", 300.0), factories.leg("p2p_off", 40.0))
    state, text = state_of(shown(wanted, factories.gpu_host("n1", slow)))
    assert (state, "of leg default: " in text) == ("not met", True)


def test_a_figure_that_was_not_measured_is_not_met_by_silence() -> None:
    figure = Figure("pcie_link", "no_such_metric", "annex B", at_least=1)
    wanted = criteria(required(figures=(figure,)))
    assert state_of(shown(wanted, factories.gpu_host("n1")))[0] == "not measured"


def over_hosts(backend: str = "nccl", **changes: Any) -> MultiHostRecord:
    timing = MultiHostTiming(16 << 20, 20, 100.0, 0.01, 100.0, 190.0, 195.0, 0)
    hosts = ("n1", "n2")
    way = (Transport(hosts, {"NET/IB": 16}),)
    run = MultiHostRun("all", 0, hosts, "all_reduce", 16, "done", sizes=(timing,))
    run = replace(run, transport=way, library="NCCL 2.27.5")
    made = MultiHostRecord(("all",), hosts, backend, (run,), finished=True)
    return replace(made, **changes)


def unproven() -> tuple[MultiHostRun, ...]:
    return tuple(replace(run, transport=()) for run in over_hosts().runs)


@pytest.mark.parametrize(
    ("record", "state", "words"),
    [
        (over_hosts(), "met", "1 run, the slowest all_reduce with n2: 190 GB/s at 16 MiB"),
        (replace(over_hosts(), runs=unproven()), "not measured", "which way the data"),
        (over_hosts(runs=()), "not measured", "took part in no run"),
        (None, "not measured", "took part in no run"),
        (over_hosts("gloo"), "not measured", "over gloo, which says nothing about GPUs"),
        (
            over_hosts(absent={"n1": Reason("no_torch", "no torch")}),
            "not measured",
            "took no part: no torch",
        ),
        (over_hosts(finished=False), "not measured", "cut short"),
        (
            over_hosts(suspects=(Suspect(("n1",), "slow", ("41 of 190 GB/s",)),)),
            "not met",
            "slow: 41 of 190 GB/s",
        ),
        (
            over_hosts(unresolved=(fabric_between((("n1",), ("n2",)), "slow"),)),
            "not met",
            "all: the fabric between n1 and n2: slow",
        ),
        (
            over_hosts(
                absent={"n1": Reason("no_torch", "no torch")},
                unresolved=(fabric_between((("n2",), ("n3",)), "slow"),),
            ),
            "not measured",
            "took no part: no torch",
        ),
    ],
)
def test_runs_over_hosts_show_their_stage(
    record: MultiHostRecord | None, state: str, words: str
) -> None:
    wanted = criteria(required(stage="all"))
    hosts = factories.gpu_host("n1"), factories.gpu_host("n2")
    found, text = state_of(shown(wanted, *hosts, multi_host=record))
    assert found == state
    assert words in text


def test_an_exercise_counts_only_where_the_criteria_say_so() -> None:
    wanted = criteria(required(stage="all"), exercise=True)
    hosts = factories.gpu_host("n1"), factories.gpu_host("n2")
    assert state_of(shown(wanted, *hosts, multi_host=over_hosts("gloo")))[0] == "met"
