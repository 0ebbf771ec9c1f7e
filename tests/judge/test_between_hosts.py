"""What runs over several hosts say of one host against the others, and what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwcheck.judge.records import MULTI_HOST
from tests.lab.multi_host_mutations import CHANGED, HOSTS, FleetChange, SeenFleet, of_fleet, see
from tests.lab.mutation import Mutation

CHANGES = {change.mutation.name: change for change in of_fleet()}


def came(tmp_path: Path, name: str) -> SeenFleet:
    (change,) = (
        change for title, change in CHANGES.items() if title.startswith(f"multi_host.{name}")
    )
    return see(change, tmp_path)


def metrics(seen: SeenFleet) -> dict[str, set[str]]:
    """Return the hosts that are warned of, by metric."""
    found: dict[str, set[str]] = {}
    for finding in seen.findings:
        assert (finding.check, finding.outcome) == (MULTI_HOST, "warn")
        found.setdefault(finding.metric, set()).add(finding.host)
    return found


def test_healthy_hosts_raise_nothing(tmp_path: Path) -> None:
    seen = see(FleetChange(Mutation("", "", "")), tmp_path)
    assert (seen.findings, seen.action, seen.record.unresolved) == ((), "", ())
    assert {run.why for run in seen.record.runs} >= {"pairs", "all", "rail 0"}


@pytest.mark.parametrize(
    ("name", "metric", "action"),
    [
        ("transport = 1 channel, host", "leg_way", "a host among others: NCCL goes another way"),
        ("transport = one port, host", "leg_way", "a host among others: NCCL goes another way"),
        ("transport = without GPUDirect, host", "leg_way", "a host among others: NCCL goes"),
        ("time = 1.25 times, host", "pairs_gbps", "a host among others: somewhat slower"),
        ("ranks = one less, host", "ranks_missing", "runs over several hosts: GPUs had no rank"),
        ("host = seven GPUs", "ranks_missing", "runs over several hosts: GPUs had no rank"),
        ("left over = a process, once", "left_over", "runs over several hosts: a process cannot"),
    ],
)
def test_one_host_is_named_with_what_to_do(
    tmp_path: Path, name: str, metric: str, action: str
) -> None:
    seen = came(tmp_path, name)
    assert metrics(seen) == {metric: {CHANGED}}
    assert seen.action.startswith(action)


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("transport = without GPUDirect on every host", "gpudirect_used"),
        ("transport = one port on every host", "network_ports"),
        ("ranks = one less, whole set", "ranks_missing"),
    ],
)
def test_what_all_have_in_common_is_said_of_all(tmp_path: Path, name: str, metric: str) -> None:
    seen = came(tmp_path, name)
    assert metrics(seen)[metric] == set(HOSTS)
    assert seen.action.startswith("runs over several hosts: ")


@pytest.mark.parametrize("name", ["transport = not told, host", "library = none, host"])
def test_a_host_whose_way_or_library_nobody_knows_is_not_measured(
    tmp_path: Path, name: str
) -> None:
    (finding,) = came(tmp_path, name).findings
    assert (finding.host, finding.outcome) == (CHANGED, "inconclusive")


@pytest.mark.parametrize("name", ["transport = 1 channel, once", "time = 1.25 times, link"])
def test_once_or_on_one_link_is_within_what_is_healthy(tmp_path: Path, name: str) -> None:
    assert came(tmp_path, name).findings == ()


def test_who_is_accused_of_being_slow_is_told_it_once(tmp_path: Path) -> None:
    seen = came(tmp_path, "time = twice, host")
    assert {(each.host, each.outcome) for each in seen.findings} == {(CHANGED, "fail")}
