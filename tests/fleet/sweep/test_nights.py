"""Thirty nights over 200 hosts, by the planner itself (``benchmarks/sweeps.py``)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from benchmarks import sweeps
from hwcheck.fleet.sweep.levels import LEVELS, MINUTE_S
from hwcheck.scheduler.records import Amount

HOSTS, NIGHTS = 200, 30


def simulated(
    seed: int = 1, hosts: int = HOSTS, *, faults: bool = True
) -> tuple[sweeps.Fleet, list[sweeps.Night]]:
    fleet = sweeps.Fleet(hosts, seed, faults=faults)
    return fleet, [sweeps.sweep(fleet, number) for number in range(NIGHTS)]


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.wide) for seed in (2, 3))]
)
def test_every_host_has_its_turn_and_no_bound_is_passed(seed: int) -> None:
    fleet, nights = simulated(seed)
    assert sweeps.what_does_not_hold(fleet, nights) == []
    measured = Counter(visit.host for visit in fleet.visits if visit.measured_at("nightly"))
    assert set(fleet.hosts) - set(measured) == {sweeps.ALWAYS_AT_WORK, sweeps.DEAD}
    late = {text for night in nights for text in night.late}
    assert {f"nightly {sweeps.ALWAYS_AT_WORK}", f"nightly {sweeps.DEAD}"} <= late
    assert all(night.used_s <= sweeps.BUDGET_S for night in nights)
    for level in sweeps.LEVELS_OF_A_NIGHT[:2]:
        covered, _ = sweeps.nights_to_cover(fleet, level, NIGHTS)
        assert 0 < covered <= 14, f"{level.name}: every class of links has been measured by then"

    told = [night.news for night in nights if night.news]
    assert len(told) < NIGHTS, "some nights have no news"
    assert {text.split()[1] for news in told for text in news} >= {"new", "cleared", "still"}


def test_a_quiet_fleet_with_jobs_sends_nothing_in_thirty_nights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sweeps, "AT_WORK", 0.2)  # with more some host has a job for two weeks
    monkeypatch.setattr(sweeps, "RACKS", 5)
    fleet, nights = simulated(hosts=60, faults=False)
    assert sum(night.busy for night in nights) > 300
    assert [night.news for night in nights] == [()] * NIGHTS
    assert sweeps.what_does_not_hold(fleet, nights) == []


def test_a_budget_that_is_too_small_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(LEVELS["nightly"], budget_s=5 * MINUTE_S, max_unavailable=Amount(count=2))
    monkeypatch.setattr(sweeps, "LEVELS_OF_A_NIGHT", (small,))
    wrong = sweeps.what_does_not_hold(*simulated())
    assert any("nightly: a host was passed over" in text for text in wrong), wrong


def test_links_that_take_too_many_nights_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    two = replace(LEVELS["weekly"], budget_s=60 * MINUTE_S, max_unavailable=Amount(count=2))
    monkeypatch.setattr(sweeps, "LEVELS_OF_A_NIGHT", (two, LEVELS["nightly"]))
    fleet, nights = simulated(hosts=60)
    wrong = sweeps.what_does_not_hold(fleet, nights)
    assert "weekly: a class of links was not measured in 21 days" in wrong
    assert any(text.startswith("weekly links ") for night in nights for text in night.late)


def test_a_bound_that_is_passed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "bounds", lambda places, at_once: (1, 1))
    fleet, nights = simulated(hosts=60)
    assert any("at once" in text for text in sweeps.what_does_not_hold(fleet, nights))


def test_a_host_that_is_late_in_silence_is_noticed() -> None:
    fleet, nights = simulated(hosts=60)
    for night in nights:
        night.late = [text for text in night.late if sweeps.DEAD not in text]
    wrong = sweeps.what_does_not_hold(fleet, nights)
    assert f"nightly: {sweeps.DEAD} is late and not named" in wrong
