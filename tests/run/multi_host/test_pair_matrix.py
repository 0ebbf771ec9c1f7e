from __future__ import annotations

import random
from itertools import combinations

import pytest

from hwcheck.results.multi_host import KINDS
from hwcheck.run.multi_host.pair_matrix import standouts
from hwcheck.run.multi_host.reference import Reference
from tests.run.multi_host.planted import HEALTHY_GBPS, Fleet, names


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("amount", range(3, 17))
def test_every_single_host_stands_out_alone(amount: int, kind: str) -> None:
    hosts = names(amount)
    for seed, culprit in enumerate(hosts):
        found = standouts(Fleet({(culprit,): kind}, seed, noise=0.25).pairs(hosts))
        assert (found.hosts, found.links) == ((culprit,), ())
        assert set(found.good) == set(hosts) - {culprit}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("amount", range(3, 17))
def test_every_single_link_stands_out_alone(amount: int, kind: str) -> None:
    hosts = names(amount)
    for seed, link in enumerate(combinations(hosts, 2)):
        found = standouts(Fleet({link: kind}, seed, noise=0.25).pairs(hosts))
        assert (found.hosts, found.links) == ((), (link,))
        assert not set(found.good) & set(link)


@pytest.mark.parametrize("amount", range(5, 17))
def test_several_hosts_stand_out_and_no_innocent(amount: int) -> None:
    for seed in range(100):
        draw = random.Random(seed)
        hosts = names(amount)
        culprits = draw.sample(hosts, draw.randint(2, (amount - 1) // 2))
        faults = {(name,): draw.choice(KINDS) for name in culprits}
        found = standouts(Fleet(faults, seed).pairs(hosts))
        assert set(found.hosts) == set(culprits), seed
        assert found.links == ()


@pytest.mark.parametrize("amount", range(1, 17))
def test_a_healthy_fleet_has_no_standout(amount: int) -> None:
    for seed in range(20):
        found = standouts(Fleet({}, seed, noise=0.3).pairs(names(amount)))
        assert (found.hosts, found.links) == ((), ())


def test_two_hosts_have_nobody_to_be_compared_with() -> None:
    found = standouts(Fleet({("n01",): "slow"}).pairs(names(2)))
    assert (found.hosts, found.links) == ((), ())
    found = standouts(Fleet({("n01",): "hang"}).pairs(names(2)))
    assert (found.hosts, found.links, found.good) == ((), (("n01", "n02"),), ())


def test_the_reference_is_what_healthy_pairs_reach() -> None:
    hosts = names(8)
    pairs = Fleet({(name,): "slow" for name in hosts[:3]}).pairs(hosts)
    assert Reference(pairs).best_gbps == pytest.approx(HEALTHY_GBPS, rel=0.1)
    assert Reference(Fleet({(name,): "hang" for name in hosts}).pairs(hosts)).best_gbps == 0.0
