"""Legs of like hosts: the way that NCCL took, and the time of small messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.contract.collective_spec import MIB, SITE
from hwcheck.contract.wire import Leg
from hwcheck.judge.judge import judge
from hwcheck.judge.leg_peers import LATENCY, WAY
from hwcheck.judge.records import Finding
from tests.factories import leg, record, reduce_result, run, slow_in_small

USUAL = {"P2P/CUMEM": 512, "nvls": True, "gdrdma": 0, "channels": 24}


def found(*legs: Leg, metric: str) -> list[Finding]:
    """Return what is said of a fleet with one leg each."""
    hosts = [record(f"n{place}", [reduce_result([each])]) for place, each in enumerate(legs)]
    findings = judge(run(*hosts, checks=["all_reduce"]), shipped()).findings
    return [finding for finding in findings if finding.metric == metric]


def way(name: str = "default", **changes: Any) -> Leg:
    told = {key.replace("_to_", "/"): of for key, of in {**USUAL, **changes}.items()}
    transport = {key: of for key, of in told.items() if of is not None}
    return leg(name, transport=transport)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"channels": 1}, "channels: 1"),
        ({"nvls": False}, "NVLS: no"),
        ({"gdrdma": 16}, "GPUDirect RDMA: yes"),
        ({"P2P/CUMEM": None, "SHM": 64}, "way: SHM"),
        (dict.fromkeys(USUAL), "way: none told, NVLS: no, channels: not told"),
    ],
)  # fmt: skip
def test_one_that_goes_another_way_than_three_others_is_warned_of(
    changes: dict[str, Any], said: str
) -> None:
    (finding,) = found(way(), way(**changes), way(), way(), metric=WAY)
    assert (finding.host, finding.outcome, finding.subject) == ("n1", "warn", "leg default")
    assert finding.value == said
    assert finding.reason.text == "NCCL goes another way than on 3 like hosts"


def test_without_a_majority_nothing_is_said() -> None:
    assert found(way(), way(channels=1), way(), way(channels=1), metric=WAY) == []
    assert found(way(), way(channels=1), way(), metric=WAY) == []
    assert found(*[way(channels=n) for n in range(5)], metric=WAY) == []


def test_counts_of_connections_and_names_of_ports_are_no_way() -> None:
    one, another = (way(network=f"IB mlx5_{n}:1/IB") for n in (0, 1))
    fewer = way(**{"P2P/CUMEM": 480})
    assert found(one, another, one, one, metric=WAY) == []
    assert found(one, fewer, one, one, metric=WAY) == [], "a list that is not told is not compared"


def test_the_number_of_ports_is() -> None:
    two = way("net", network="IB mlx5_0:1/RoCE mlx5_1:1/RoCE")
    (finding,) = found(two, two, way("net", network="IB mlx5_0:1/RoCE"), two, metric=WAY)
    assert (finding.host, finding.value) == ("n2", "ports: 1")


def test_another_leg_library_or_number_of_ranks_is_not_like_it() -> None:
    three = [way(), way(), way()]
    odd = way(channels=1)
    assert found(*three, replace(odd, library="NCCL 2.30.1"), metric=WAY) == []
    assert found(*three, leg("default", ranks=4, transport={"SHM": 2}), metric=WAY) == []
    assert found(*three, replace(odd, state="hang", sizes=()), metric=WAY) == []


def test_settings_of_the_node_decide_the_leg_site() -> None:
    sites = [replace(way(SITE, channels=n), env={}) for n in (24, 24, 24, 1)]
    assert found(*sites, metric=WAY) == []


def test_small_messages_that_take_ten_times_as_long_are_warned_of() -> None:
    usual = [slow_in_small(leg(), by) for by in (1.0, 1.1, 0.95, 1.3)]
    (finding,) = found(slow_in_small(leg(), 10), *usual, metric=LATENCY)
    assert (finding.host, finding.outcome, finding.unit) == ("n0", "warn", "us")
    took = "small messages take 9.091 times as long as on like hosts, in 4 of 6 sizes"
    assert finding.reason.text == took


@pytest.mark.parametrize("times", [1.0, 1.5, 2.5])
def test_healthy_scatter_is_not(times: float) -> None:
    assert found(slow_in_small(leg(), times), leg(), leg(), leg(), metric=LATENCY) == []


def test_one_size_is_a_pause_of_the_operating_system() -> None:
    first, *rest = leg().sizes
    paused = replace(first, time_us=first.time_us * 10, algbw_gbps=first.algbw_gbps / 10,
                     busbw_gbps=first.busbw_gbps / 10)  # fmt: skip
    assert found(replace(leg(), sizes=(paused, *rest)), leg(), leg(), leg(), metric=LATENCY) == []


def test_three_hosts_have_no_middle() -> None:
    assert found(slow_in_small(leg(), 10), leg(), leg(), metric=LATENCY) == []


def test_a_leg_that_is_slow_as_a_whole_is_said_once() -> None:
    slow = leg(peak_gbps=30.0)
    assert found(slow, leg(), leg(), leg(), leg(), metric=LATENCY) == []
    assert found(slow, leg(), leg(), leg(), leg(), metric="busbw_gbps")


def test_large_messages_are_compared_by_their_bandwidth() -> None:
    only_large = [replace(leg(), sizes=tuple(s for s in leg().sizes if s.size_bytes >= 64 * MIB))]
    assert found(*only_large * 5, metric=LATENCY) == []
