"""What an answer that claims to be done must hold: nothing too much, and nothing forgotten."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.contract.check import Check
from hwcheck.contract.wire import CheckResult
from hwcheck.judge.host_case import NodeFacts
from hwcheck.judge.limits import judge_answer
from hwcheck.node.main import run_check
from hwcheck.testing.cases import gpu_models
from hwcheck.testing.fake_node import FakeNode
from tests.checks.test_cases import FILES, REGISTRY, read

NOT_EVERYWHERE = {
    "infiniband_ports": {"linked_state", "rate_told"},  # of a port with a link
    # Runs from before these were read are judged too.
    "pcie_uplinks": {"uplink_generation", "uplink_generation_max"},
    "host_memory": {"memory_held_percent"},
    "power_idle": {"power_told_as_nothing"},
    "disk_free": {"tmp_read_only"},
    "shm_size": {"shm_read_only"},
    "inforom": {"inforom_image"},  # a board may tell of its checksums only
    "software_versions": {"nccl_version", "torch_version"},  # either may be missing
    "clocks_under_load": {"sm_clock_percent_of_peers"},  # a GPU may be the only one of its kind
    "thermal_slope": {"slope_over_peers"},
    "errors_under_load": {"new_pcie_replays"},  # which counters there are depends on the board
}
"""Judged metrics that every case has and an honest answer may lack."""

Answer = tuple[CheckResult, NodeFacts]


@cache
def done(name: str) -> tuple[Answer, ...]:
    """Return the answers of all cases of a check that are done, with what is known of the node."""
    check, answers = REGISTRY[name], []
    for file in FILES:
        if file.parent.name != name:
            continue
        case = read(file)
        node = FakeNode(case["node"], case["expect_inventory"])
        result = run_check(check, node)
        if result.state == "done":
            answers.append((result, NodeFacts(case["expect_inventory"], gpu_models(case["node"]))))
    return tuple(answers)


def given(check: Check, result: CheckResult, known: NodeFacts) -> set[str]:
    """Return the metrics that an answer has, of a check of GPUs those that each GPU in it has."""
    if not check.per_gpu:
        return {sample.metric for sample in result.samples}
    of_gpu: dict[str, set[str]] = {}
    for sample in result.samples:
        if sample.subject in known.models:
            of_gpu.setdefault(sample.subject, set()).add(sample.metric)
    return set.intersection(*of_gpu.values()) if of_gpu else set()


def missed(check: Check, result: CheckResult, known: NodeFacts) -> str:
    """Return what is missed in an answer, in the judge's words."""
    findings = judge_answer("node1", check, result, known, shipped().models)
    said = [finding.reason.text for finding in findings if finding.outcome == "inconclusive"]
    return "; ".join(reason for reason in said if "the node sent no" in reason)


REQUIRED = [
    (check, metric.name)
    for check in REGISTRY.values()
    for metric in check.metrics
    if metric.required
]


@pytest.mark.parametrize(
    ("check", "metric"), REQUIRED, ids=[f"{check.id}-{metric}" for check, metric in REQUIRED]
)
def test_an_answer_without_a_required_metric_is_inconclusive(check: Check, metric: str) -> None:
    assert done(check.id), "a case that is done"
    for result, known in done(check.id):
        assert missed(check, result, known) == ""
        subjects = [sample.subject for sample in result.samples if sample.metric == metric]
        # One GPU of several that leaves it out is enough.
        gpus = [subject for subject in subjects if subject in known.models]
        without = set(gpus[-1:]) if check.per_gpu else set(subjects)
        kept = [s for s in result.samples if s.metric != metric or s.subject not in without]
        cut = replace(result, samples=tuple(kept))
        said = missed(check, cut, known)
        assert metric in said or "sent no sample" in said


@pytest.mark.parametrize("name", sorted(name for name in REGISTRY if not REGISTRY[name].legs))
def test_a_judged_metric_that_every_answer_has_is_required(name: str) -> None:
    check = REGISTRY[name]
    always = [given(check, result, known) for result, known in done(name)]
    judged = {metric.name for metric in check.metrics if metric.limits}
    required = {metric.name for metric in check.metrics if metric.required}
    assert judged & set.intersection(*always) - required == NOT_EVERYWHERE.get(name, set())
