from __future__ import annotations

import pytest

from hwcheck.results.multi_host import KINDS
from hwcheck.run.multi_host.trials import PARTNERS, Trials
from tests.run.multi_host.planted import HEALTHY_GBPS, Fleet, names

GOOD = ("n02", "n03", "n04")


def trials(fleet: Fleet, good: tuple[str, ...] = GOOD) -> Trials:
    return Trials(fleet.measure, HEALTHY_GBPS, good)


@pytest.mark.parametrize("kind", KINDS)
def test_a_host_is_accused_when_it_is_bad_with_two_partners(kind: str) -> None:
    fleet = Fleet({("n01",): kind})
    (suspect,) = trials(fleet).confirm("n01")
    assert (suspect.hosts, suspect.kind) == (("n01",), kind)
    assert fleet.runs == [("n01", "n02"), ("n01", "n03")]
    assert len(fleet.runs) == PARTNERS
    assert suspect.evidence[:2][0].startswith("n01 with n02: ")


def test_a_host_that_is_fine_with_its_partners_is_not() -> None:
    assert trials(Fleet({})).confirm("n01") == []


def test_without_a_partner_nothing_is_said() -> None:
    fleet = Fleet({("n01",): "hang"})
    assert trials(fleet, ()).confirm("n01") == []
    assert trials(fleet, ("n01", "n02")).confirm("n01", ["n02"]) == []
    assert fleet.runs == []


def test_bad_with_one_partner_only_is_the_link_to_it() -> None:
    fleet = Fleet({("n01", "n02"): "slow"})
    (suspect,) = trials(fleet).confirm("n01")
    assert (suspect.hosts, suspect.kind) == (("n01", "n02"), "slow")
    assert fleet.runs == [("n01", "n02"), ("n01", "n03"), ("n01", "n02")], "it was seen again"


def test_a_host_that_is_slow_by_nature_is_no_partner() -> None:
    """Beside it a slow host reaches what can be reached, and looks fine."""
    fleet = Fleet({("n01",): "slow"}, noise=0.0)

    def share(hosts: tuple[str, ...]) -> float:
        return fleet.slow if "n02" in hosts else 1.0

    (suspect,) = Trials(fleet.measure, HEALTHY_GBPS, GOOD, share).confirm("n01")
    assert (suspect.hosts, suspect.kind) == (("n01",), "slow")
    assert fleet.runs == [("n01", "n03"), ("n01", "n04")]


def test_a_link_that_is_bad_once_is_not_accused() -> None:
    bad, fine = Fleet({("n01", "n02"): "wrong"}), Fleet({})
    first = iter([True])

    def measure(hosts: tuple[str, ...]):  # type: ignore[no-untyped-def]
        return (bad if next(first, False) else fine).measure(hosts)

    assert Trials(measure, HEALTHY_GBPS, GOOD).confirm("n01") == []
    again = iter([True])

    def once(hosts: tuple[str, ...]):  # type: ignore[no-untyped-def]
        return (bad if next(again, False) else fine).measure(hosts)

    assert Trials(once, HEALTHY_GBPS, GOOD).confirm_link("n01", "n02") == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_link_is_accused_when_both_its_hosts_are_fine_with_others(kind: str) -> None:
    (suspect,) = trials(Fleet({("n01", "n02"): kind})).confirm_link("n01", "n02")
    assert (suspect.hosts, suspect.kind) == (("n01", "n02"), kind)


@pytest.mark.parametrize("culprit", ["n01", "n02"])
def test_a_link_turns_out_to_be_one_of_its_hosts(culprit: str) -> None:
    (suspect,) = trials(Fleet({(culprit,): "slow"})).confirm_link("n01", "n02")
    assert suspect.hosts == (culprit,)


def test_the_same_hosts_run_once() -> None:
    fleet = Fleet({})
    seen = trials(fleet)
    seen.run(["n01", "n02"])
    seen.run(["n02", "n01"])
    assert len(fleet.runs) == 1
    assert seen.good(["n01"]) == ["n02", "n03", "n04"]


def test_without_a_reference_the_best_run_stands_for_it() -> None:
    fleet = Fleet({("n01",): "slow"})
    seen = Trials(fleet.measure)
    assert seen.kind(names(2)) == "ok", "there is nothing to compare it with"
    assert seen.kind(GOOD) == "ok"
    assert seen.kind(names(2)) == "slow"


@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_with_another_suspect_is_no_evidence(kind: str) -> None:
    fleet = Fleet({("n01",): kind, ("n05",): kind})
    both = trials(fleet)
    both.run(("n01", "n05"))
    both.run(("n05", "n01", "n02"))
    for host, other in (("n01", "n05"), ("n05", "n01")):
        (suspect,) = both.confirm(host, [other])
        assert suspect.hosts == (host,)
        assert not [line for line in suspect.evidence if other in line]
        assert [line for line in suspect.evidence if line.startswith(f"{host} with n02: ")]
