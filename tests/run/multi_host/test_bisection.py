from __future__ import annotations

import math
import random

import pytest

from hwcheck.contract.reasons import Reason
from hwcheck.fold import fold
from hwcheck.results.multi_host import FABRIC, KINDS
from hwcheck.run.multi_host.bisection import bisect
from tests.run.multi_host.planted import HEALTHY_GBPS, Fleet, names

SIZES = range(3, 17)


def most_runs(hosts: int) -> int:
    return 2 * math.ceil(math.log2(hosts)) + 6


def most_runs_for_a_link(hosts: int) -> int:
    return 4 * math.ceil(math.log2(hosts)) + 2


@pytest.mark.parametrize("amount", [64, 128])
def test_a_bad_link_among_many_hosts_takes_as_few_runs(amount: int) -> None:
    hosts = names(amount)
    taken = []
    for seed, one in enumerate(hosts[:-1]):
        fleet = Fleet({(one, random.Random(seed).choice(hosts[seed + 1 :])): "hang"}, seed)
        taken.append(bisect(hosts, fleet.measure).runs)
    assert most_runs(amount) < max(taken) <= most_runs_for_a_link(amount)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("amount", [*SIZES, 64, 100])
def test_a_bad_host_is_named_wherever_it_stands(amount: int, kind: str) -> None:
    hosts = names(amount)
    for seed, culprit in enumerate(hosts):
        fleet = Fleet({(culprit,): kind}, seed)
        found = bisect(hosts, fleet.measure)
        assert [(one.hosts, one.kind) for one in found.suspects] == [((culprit,), kind)], culprit
        assert found.unresolved == ()
        assert found.runs == len(fleet.runs) <= most_runs(amount)
        assert all(culprit in line or "without" in line for line in found.suspects[0].evidence)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("amount", SIZES)
def test_a_bad_link_is_named_and_neither_of_its_hosts(amount: int, kind: str) -> None:
    hosts = names(amount)
    for seed, one in enumerate(hosts):
        for other in hosts[seed + 1 :]:
            fleet = Fleet({(one, other): kind}, seed)
            found = bisect(hosts, fleet.measure)
            assert [(tuple(sorted(s.hosts)), s.kind) for s in found.suspects] == [
                ((one, other), kind)
            ]
            assert found.unresolved == ()
            assert found.runs == len(fleet.runs) <= most_runs_for_a_link(amount)


@pytest.mark.parametrize("amount", range(5, 17))
def test_two_bad_hosts_are_both_named(amount: int) -> None:
    """With a known bandwidth: without one, a fault in either half hides the other."""
    for seed in range(60):
        draw = random.Random(seed)
        hosts = names(amount)
        faults = {(name,): draw.choice(KINDS) for name in draw.sample(hosts, 2)}
        fleet = Fleet(faults, seed)
        found = bisect(hosts, fleet.measure, HEALTHY_GBPS)
        assert {one.hosts: one.kind for one in found.suspects} == faults, (seed, found)
        assert found.runs <= 2 * most_runs(amount) + 4


@pytest.mark.parametrize("amount", range(2, 17))
def test_nobody_is_accused_in_a_healthy_fleet(amount: int) -> None:
    for seed in range(20):
        fleet = Fleet({}, seed, noise=0.3)
        found = bisect(names(amount), fleet.measure, HEALTHY_GBPS)
        assert (found.suspects, found.unresolved) == ((), ())
        assert found.runs <= 4


def test_two_hosts_cannot_be_told_apart() -> None:
    fleet = Fleet({("n01",): "hang"})
    found = bisect(names(2), fleet.measure)
    assert found.suspects == ()
    assert found.unresolved[0].text.startswith("n01 and n02: hang; one of them or their link")


def test_what_does_not_come_again_accuses_nobody() -> None:
    """A host that fails in large groups only, or failed once, is fine with two partners."""
    hosts = names(8)
    fleet = Fleet({})
    seen = iter([True] * 8)

    def measure(group: tuple[str, ...]):  # type: ignore[no-untyped-def]
        flaky = Fleet({("n03",): "wrong"}) if next(seen, False) and len(group) > 2 else fleet
        return flaky.measure(group)

    found = bisect(hosts, measure)
    assert found.suspects == ()
    assert found.unresolved != ()


def test_a_host_that_was_bad_for_a_while_is_not_accused() -> None:
    hosts = names(8)
    bad, fine = Fleet({("n03",): "wrong"}), Fleet({})
    left = iter(range(6))

    def measure(group: tuple[str, ...]):  # type: ignore[no-untyped-def]
        return (fine if next(left, None) is None else bad).measure(group)

    found = bisect(hosts, measure, HEALTHY_GBPS)
    assert found.suspects == ()
    assert found.unresolved == (
        Reason("not_pinned", "n03: not seen again with known-good partners"),
    )


def test_a_switch_that_only_the_whole_overloads_is_no_host() -> None:
    hosts = names(8)
    whole = frozenset(hosts)
    fleet = Fleet({})

    def measure(group: tuple[str, ...]):  # type: ignore[no-untyped-def]
        return (Fleet({(): "slow"}) if set(group) == whole else fleet).measure(group)

    found = bisect(hosts, measure)
    assert found.suspects == ()
    (line,) = found.unresolved
    assert "slow together and fine in parts" in line.text


def test_evidence_of_one_slow_host_leaves_the_other_out() -> None:
    for seed in range(40):
        hosts = names(8)
        one, other = random.Random(seed).sample(hosts, 2)
        found = bisect(hosts, Fleet({(one,): "slow", (other,): "slow"}, seed).measure, HEALTHY_GBPS)
        assert {suspect.hosts for suspect in found.suspects} == {(one,), (other,)}
        for suspect in found.suspects:
            innocent = other if suspect.hosts == (one,) else one
            assert not [line for line in suspect.evidence if innocent in line]


def racks(amount: int, first: int) -> tuple[tuple[str, ...], ...]:
    hosts = names(amount)
    return (tuple(hosts[:first]), tuple(hosts[first:]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("amount", [4, 6, 8, 16, 64])
def test_the_fabric_between_two_halves_is_named_and_no_host(amount: int, kind: str) -> None:
    left, right = racks(amount, amount // 2)
    fleet = Fleet({}, racks=(left, right), between=kind)
    found = bisect(names(amount), fleet.measure)
    assert found.suspects == ()
    (line,) = found.unresolved
    assert line.text.startswith(f"{FABRIC} {fold(left)} and {fold(right)}: {kind} wherever")
    assert found.runs == len(fleet.runs) <= 7


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", [2, 3, 5, 6])
def test_the_fabric_is_named_where_the_racks_are_no_halves(first: int, kind: str) -> None:
    sides = racks(8, first)
    found = bisect(names(8), Fleet({}, racks=sides, between=kind).measure, HEALTHY_GBPS)
    assert found.suspects == ()
    (line,) = found.unresolved
    for side in sides:
        assert f" {fold(side)}" in line.text.partition(":")[0]


@pytest.mark.parametrize("uplink_hosts", [2, 4])
def test_an_uplink_that_only_a_crowd_fills_is_the_fabric(uplink_hosts: int) -> None:
    sides = racks(16, 8)
    fleet = Fleet({}, racks=sides, between="slow", uplink_hosts=uplink_hosts)
    found = bisect(names(16), fleet.measure)
    assert found.suspects == ()
    (line,) = found.unresolved
    assert line.text.startswith(f"{FABRIC} {fold(sides[0])} and {fold(sides[1])}")


def test_what_only_the_size_brings_out_is_no_fabric_between_halves() -> None:
    hosts = names(16)

    def measure(group: tuple[str, ...]):  # type: ignore[no-untyped-def]
        return Fleet({(): "hang"} if len(group) > 8 else {}).measure(group)

    found = bisect(hosts, measure, HEALTHY_GBPS)
    assert found.suspects == ()
    (line,) = found.unresolved
    assert line.code == "not_pinned"
    assert "together and fine in parts" in line.text
    assert found.runs <= 7


def test_two_bad_hosts_are_not_taken_for_a_fabric() -> None:
    """They are bad together as well, unlike two that share an uplink."""
    found = bisect(names(8), Fleet({("n01",): "slow", ("n02",): "slow"}).measure, HEALTHY_GBPS)
    assert {suspect.hosts for suspect in found.suspects} == {("n01",), ("n02",)}
    assert found.unresolved == ()
