"""Hosts of a run against each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hwcheck.judge.fleet import same_machine
from hwcheck.judge.judge import judge
from hwcheck.results import HostRecord, Run
from hwcheck.wire import CheckResult, Report, Sample
from tests.factories import gpu_facts, record, run

H200 = "NVIDIA H200"


def versioned(host: str, version: str, model: str = H200, **facts: Any) -> HostRecord:
    """A host whose only finding of interest is its driver."""
    samples = (
        Sample("driver_loaded", True),
        Sample("nvml_status", "ok"),
        Sample("driver_version", version),
        Sample("nvml_driver_version", version),
    )
    gpus = [
        {**gpu, "uuid": f"{host}-{index}", **facts} for index, gpu in enumerate(gpu_facts(2, model))
    ]
    return record(host, [CheckResult("driver", "done", samples=samples)], gpus=gpus)


def drifted(*hosts: HostRecord, **expect: Any) -> dict[str, tuple[str, str]]:
    """Return outcome and limit of the comparison over the fleet, by host."""
    a_run = run(*hosts, checks=["driver"])
    declared = tuple(replace(plan, expect=expect) for plan in a_run.meta.hosts)
    a_run = replace(a_run, meta=replace(a_run.meta, hosts=declared))
    return {
        finding.host: (finding.outcome, finding.limit)
        for finding in judge(a_run).findings
        if "most hosts" in finding.limit
    }


def test_one_of_three_that_differs_is_named() -> None:
    found = drifted(versioned("a", "570"), versioned("b", "570"), versioned("c", "575"))
    assert {host: outcome for host, (outcome, _) in found.items()} == {
        "a": "pass",
        "b": "pass",
        "c": "warn",
    }
    assert found["c"][1] == "= most hosts of this kind (570)"


def test_without_a_majority_all_are_warned() -> None:
    found = drifted(versioned("a", "570"), versioned("b", "575"))
    limit = "= most hosts of this kind (no majority: 570 on 1, 575 on 1)"
    assert found == {"a": ("warn", limit), "b": ("warn", limit)}


def test_a_host_alone_is_compared_with_nobody() -> None:
    assert drifted(versioned("a", "570")) == {}
    unlike = versioned("b", "575", "NVIDIA A40")
    assert drifted(versioned("a", "570"), unlike) == {}


def test_what_the_inventory_declares_comes_first() -> None:
    hosts = (versioned("a", "570"), versioned("b", "575"))
    assert drifted(*hosts, driver_version="575") == {}


def flashed(host: str, vbios: str, board: str, gpus: int = 2) -> HostRecord:
    """A host whose boards of one kind have this VBIOS."""
    samples = tuple(
        Sample(metric, vbios, "", f"gpu{index}")
        for index in range(gpus)
        for metric in ("vbios", "vbios_of_most")
    )
    facts = [{**gpu, "pci_subsystem_id": board} for gpu in gpu_facts(gpus)]
    return record(host, [CheckResult("vbios", "done", samples=samples)], gpus=facts)


def warned(*hosts: HostRecord) -> list[str]:
    """Return a host for each warning."""
    return [f.host for f in judge(run(*hosts, checks=["vbios"])).findings if f.outcome == "warn"]


def test_gpus_are_compared_with_their_own_boards() -> None:
    hosts = [flashed("a", "1", "x"), flashed("b", "1", "x"), flashed("c", "2", "x")]
    assert warned(*hosts, flashed("d", "2", "y")) == ["c", "c"]
    assert warned(*hosts, flashed("d", "2", "x")) == ["a", "a", "b", "b", "c", "c", "d", "d"]


def test_one_host_has_one_vote() -> None:
    hosts = [flashed("a", "1", "x", 1), flashed("b", "1", "x", 1), flashed("c", "2", "x", 8)]
    assert warned(*hosts) == ["c"] * 8


@pytest.mark.parametrize(("second", "alike"), [("GPU-1", True), ("GPU-2", False), ("", False)])
def test_one_machine_under_two_names(second: str, alike: bool) -> None:
    first, other = versioned("a", "570", uuid="GPU-1"), versioned("b", "570", uuid=second)
    a_run: Run = run(first, other, versioned("c", "570"), checks=["driver"])
    assert set(same_machine(a_run)) == ({"a", "b"} if alike else set())
    outcomes = {verdict.host: verdict.outcome for verdict in judge(a_run).hosts}
    assert outcomes == dict.fromkeys("abc", "pass") | (
        {"a": "inconclusive", "b": "inconclusive"} if alike else {}
    )


def test_a_host_without_an_answer_has_no_vote() -> None:
    empty = replace(record("b", []), report=Report({}, ()))
    assert drifted(versioned("a", "570"), empty) == {}
