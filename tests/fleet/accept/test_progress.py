"""How far each host is: stages open each other, a repair voids what it touches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck.fleet.accept.criteria import Criteria, Requirement
from hwcheck.fleet.accept.estimate import estimates, estimates_left
from hwcheck.fleet.accept.evidence import Evidence, HostResult, InstalledPart, StageResult
from hwcheck.fleet.accept.progress import HostProgress, due, progress
from hwcheck.fleet.accept.stages import STAGES as ALL

STAGES = ("idle", "load", "collectives", "pairs", "all")
CRITERIA = Criteria(
    "order",
    "any",
    100,
    3600,
    1,
    (),
    tuple(Requirement(stage.upper(), "right", "order", stage) for stage in STAGES),
    "c.yml",
    "",
)
NEW = "GPU-repaired"


def result(
    stage: str, states: dict[str, str], at: int = 0, repaired: tuple[str, ...] = ()
) -> StageResult:
    """Return a run of a stage that ended so on each host, ``at`` minutes after the first."""
    hosts = {}
    for host, state in states.items():
        gpus = {"gpu0": f"GPU-{host}-0", "gpu1": NEW if host in repaired else f"GPU-{host}-1"}
        parts = {name: InstalledPart(identity) for name, identity in gpus.items()}
        hosts[host] = HostResult(host, parts, (Evidence(stage.upper(), host, state, "", "r"),))
    times = [f"2027-01-31T12:{at + minute:02}:00Z" for minute in (0, 1)]
    return StageResult(stage, f"r{at}", *times, hosts)


def both(stage: str, state: str = "met", at: int = 0) -> StageResult:
    return result(stage, {"n1": state, "n2": state}, at)


def of(results: list[StageResult], criteria: Criteria = CRITERIA) -> dict[str, HostProgress]:
    return progress(criteria, ["n1", "n2"], results)


def test_a_host_begins_with_the_first_stage() -> None:
    assert {host.next for host in of([]).values()} == {"idle"}


def test_each_stage_opens_the_next_for_its_own_host_only() -> None:
    now = of([result("idle", {"n1": "met", "n2": "not met"})])
    assert (now["n1"].next, now["n1"].blocked) == ("load", "")
    assert (now["n2"].next, now["n2"].blocked) == ("", "idle")
    assert now["n2"].stages["load"].state == "waiting"


def test_what_was_not_measured_is_measured_again() -> None:
    now = of([both("idle", "not measured")])
    assert (now["n1"].next, now["n1"].blocked) == ("idle", "")


def test_waived_and_not_applicable_open_the_next_stage() -> None:
    now = of([result("idle", {"n1": "waived", "n2": "not applicable"})])
    assert {host.next for host in now.values()} == {"load"}


def test_the_last_run_of_a_stage_decides() -> None:
    now = of([both("idle", "not met"), both("idle", "met", 2)])
    assert now["n1"].next == "load"
    now = of([both("idle", "met"), both("idle", "not met", 2)])
    assert now["n1"].blocked == "idle"


def test_everything_met_is_accepted() -> None:
    now = of([both(stage, at=at) for at, stage in enumerate(STAGES)])
    assert all(host.accepted for host in now.values())


def test_an_exchanged_gpu_repeats_what_loaded_it_and_nothing_of_the_other_host() -> None:
    done = [both(stage, at=at) for at, stage in enumerate(STAGES)]
    again = result("idle", {"n1": "met", "n2": "met"}, 10, repaired=("n2",))
    now = of([*done, again])
    assert now["n1"].accepted
    assert (now["n2"].next, now["n2"].stages["load"].why) == ("load", "exchanged since: gpu1")
    later = [
        result("load", {"n2": "met"}, 12, repaired=("n2",)),
        result("collectives", {"n2": "met"}, 14, repaired=("n2",)),
    ]
    now = of([*done, again, *later])
    assert now["n2"].next == "pairs"


def test_runs_over_hosts_are_repeated_when_another_host_is_ready() -> None:
    single = [result(stage, {"n1": "met"}, at) for at, stage in enumerate(STAGES[:3])]
    alone = [result(stage, {"n1": "met"}, 5 + at) for at, stage in enumerate(STAGES[3:])]
    assert of([*single, *alone])["n1"].accepted
    late = [result(stage, {"n2": "met"}, 10 + at) for at, stage in enumerate(STAGES[:3])]
    now = of([*single, *alone, *late])
    assert (now["n1"].next, now["n1"].stages["pairs"].why) == ("pairs", "ready since: n2")
    assert now["n2"].next == "pairs"


def test_collectives_are_repeated_as_often_as_the_criteria_want() -> None:
    criteria = replace(CRITERIA, repeats=2)
    runs = [both("idle"), both("load", at=1), both("collectives", at=2)]
    now = of(runs, criteria)["n1"]
    assert (now.next, now.stages["collectives"].why) == ("collectives", "1 of 2 runs")
    assert of([*runs, both("collectives", at=3)], criteria)["n1"].next == "pairs"
    now = of([*runs, both("collectives", "not met", 3)], criteria)["n1"]
    assert now.blocked == "collectives"


def test_a_visit_that_named_no_gpu_voids_nothing() -> None:
    silent = both("idle", "met", 4)
    silent = replace(
        silent, hosts={name: replace(each, parts={}) for name, each in silent.hosts.items()}
    )
    assert of([both("idle"), both("load", at=1), silent])["n1"].next == "collectives"


def test_what_a_stage_took_here_comes_before_what_is_planned() -> None:
    left = {"idle": 2, "load": 2}
    planned = {each.stage: each for each in estimates(CRITERIA, left, 32)}
    assert planned["load"].seconds > CRITERIA.burn_in_s
    assert {each.by for each in planned.values()} == {"as planned"}
    measured = {each.stage: each for each in estimates(CRITERIA, left, 1, [both("idle")])}
    assert (measured["idle"].seconds, measured["idle"].by) == (60.0, "as the last took here")
    assert measured["load"].seconds == 2 * planned["load"].seconds


def test_what_pairs_took_on_two_hosts_tells_what_they_take_on_four() -> None:
    two, four = (
        {each.stage: each for each in estimates(CRITERIA, {"pairs": n}, 32)} for n in (2, 4)
    )
    took = {each.stage: each for each in estimates(CRITERIA, {"pairs": 4}, 32, [both("pairs")])}
    expected_s = 60.0 * four["pairs"].seconds / two["pairs"].seconds
    assert took["pairs"].seconds == pytest.approx(expected_s)


OF_CARDS = ("inventory", "state", "idle", "prove", "load", "collectives", "pairs")


def of_one(parts: list[dict[str, str]], stages: tuple[str, ...] = OF_CARDS) -> HostProgress:
    """Return how far n1 is that has done all stages, and whose inventory was read again since."""
    criteria = replace(
        CRITERIA, requirements=tuple(Requirement(s, "right", "order", s) for s in stages)
    )

    def ran(stage: str, at: int, said: dict[str, str]) -> StageResult:
        host = HostResult(
            "n1",
            {name: InstalledPart(serial) for name, serial in said.items()},
            (Evidence(stage, "n1", "met", "", f"r{at}"),),
        )
        return StageResult(stage, f"r{at}", "", "", {"n1": host})

    before, after = parts
    results = [ran(stages[0], 0, before)]
    results += [ran(stage, at, {}) for at, stage in enumerate(stages[1:], 1)]
    return progress(criteria, ["n1"], [*results, ran("inventory", 20, after)])["n1"]


@pytest.mark.parametrize(
    ("exchanged", "first"),
    [
        ("", ""),
        ("nic mlx5_3", "collectives"),
        ("gpu1", "prove"),
        ("memory DIMM_A1", "prove"),
        ("cpu1", "prove"),
        ("psu2", "prove"),
        ("board0", "state"),
        ("nvme0", "state"),
        ("bmc", ""),
    ],
)
def test_a_repair_repeats_what_it_touches_and_nothing_else(exchanged: str, first: str) -> None:
    parts = ("nic mlx5_3", "gpu1", "memory DIMM_A1", "cpu1", "psu2", "board0", "nvme0", "bmc")
    before = {name: f"S-{name}" for name in parts}
    now = of_one([before, {**before, **({exchanged: "S-new"} if exchanged else {})}])
    assert now.next == first
    if first:
        assert now.stages[first].why == f"exchanged since: {exchanged}"
    else:
        assert now.accepted


def test_a_part_that_is_gone_or_new_counts_as_exchanged() -> None:
    assert of_one([{"gpu0": "a", "gpu1": "b"}, {"gpu0": "a"}]).next == "prove"
    assert of_one([{"nic a": "a"}, {"nic a": "a", "nic b": "b"}]).next == "collectives"


def test_a_visit_that_may_not_read_serials_voids_nothing() -> None:
    assert of_one([{"board0": "S1", "gpu0": "a"}, {"gpu0": "a"}]).accepted


def test_the_judging_after_a_run_counts_and_the_night_between_two_calls_does_not() -> None:
    def took(minutes: int) -> float:
        first, then = both("idle"), both("load", at=1)
        later = replace(then, started=f"2027-01-31T12:{minutes:02}:20Z")
        (estimate,) = estimates(CRITERIA, {"idle": 2}, 32, [first, later])
        return estimate.seconds

    assert took(1) == 80.0
    assert took(30) == 60.0


def test_a_stage_is_due_where_it_is_next_or_failed_before_or_is_of_every_call() -> None:
    runs = [both("idle"), both("load", at=1)]
    now = of([*runs, result("collectives", {"n1": "met", "n2": "not met"}, 2)])
    failed_before = {"n2": "collectives"}
    assert due(ALL["collectives"], now, failed_before) == ["n2"]
    assert due(ALL["collectives"], now, {}) == [], "it failed in this call"
    assert due(ALL["pairs"], now, failed_before) == ["n1"]
    assert due(ALL["idle"], now, {}) == ["n1", "n2"]


def test_what_every_call_repeats_is_left_on_all_hosts_while_anything_is() -> None:
    def left(runs: list[StageResult]) -> dict[str, int]:
        return {each.stage: each.hosts for each in estimates_left(CRITERIA, of(runs), 32, runs)}

    runs = [both(stage, at=at) for at, stage in enumerate(STAGES)]
    assert left([]) == {"start": 2, **dict.fromkeys(STAGES, 2)}
    assert left(runs[:-1]) == {"start": 2, "idle": 2, "all": 2}
    assert left(runs) == {}
    start, *_ = estimates_left(CRITERIA, of(runs[:-1]), 32, runs[:-1])
    assert start.seconds == pytest.approx(2 + 0.1 * 2 * len(runs[:-1])), "two hosts in each run"
    failed = [runs[0], result("load", {"n1": "met", "n2": "not met"}, 1)]
    now = estimates_left(CRITERIA, of(failed), 32, failed, of_this_call=True)
    assert {each.stage: each.hosts for each in now} == dict.fromkeys(STAGES[2:], 1)
    later = [*runs, result("load", {"n1": "met", "n2": "not met"}, 9)]
    now = estimates_left(CRITERIA, of(later), 32, later)
    hosts = {each.stage: each.hosts for each in now}
    assert (hosts["collectives"], hosts["pairs"]) == (1, 2), "n1 runs again with n2"


def test_a_run_that_was_cut_off_tells_nothing_of_how_long_one_takes() -> None:
    night = replace(both("idle"), finished="2027-02-01T08:00:00Z", interrupted=True)
    (estimate,) = estimates(CRITERIA, {"idle": 2}, 32, [night])
    assert estimate.by == "as planned"
    (estimate,) = estimates(CRITERIA, {"idle": 2}, 32, [night, both("idle", at=30)])
    assert (estimate.seconds, estimate.by) == (60.0, "as the last took here")


def test_a_run_that_measured_nothing_tells_nothing_of_how_long_one_takes() -> None:
    down = replace(both("load", "not measured", 40), finished="2027-01-31T12:40:05Z")
    (planned,) = estimates(CRITERIA, {"load": 2}, 32)
    assert estimates(CRITERIA, {"load": 2}, 32, [down]) == [planned]
    (estimate,) = estimates(CRITERIA, {"load": 2}, 32, [both("load"), down])
    assert estimate.seconds == 60.0
    half = result("load", {"n1": "met", "n2": "not measured"})
    (estimate,) = estimates(CRITERIA, {"load": 2}, 32, [half])
    assert estimate.seconds == 60.0, "one host measured it to its end"


def test_the_first_run_starts_cold_and_the_last_one_tells_of_the_next() -> None:
    criteria = replace(CRITERIA, repeats=3)
    cold, warm = both("collectives"), both("collectives", at=20)
    cold = replace(cold, finished="2027-01-31T12:10:00Z")
    left = {"collectives": 2}
    (estimate,) = estimates(criteria, left, 32, [cold, warm], {"collectives": 2})
    assert (estimate.seconds, estimate.by) == (60.0, "as the last took here")


def test_a_run_that_was_cut_off_costs_no_other_that_measured() -> None:
    criteria = replace(CRITERIA, repeats=3)
    runs = [both("idle"), both("load", at=1), both("collectives", at=2)]
    cut_off = both("collectives", "not measured", 3)
    now = of([*runs, cut_off], criteria)["n1"]
    assert (now.next, now.stages["collectives"].state) == ("collectives", "not measured")
    runs += [cut_off, both("collectives", at=4)]
    now = of(runs, criteria)["n1"]
    assert (now.next, now.stages["collectives"].why) == ("collectives", "2 of 3 runs")
    of_one = estimates(criteria, {"collectives": 2}, 32)[0].seconds / 3
    left = estimates_left(criteria, of(runs, criteria), 32, [])
    assert {each.stage: each.seconds for each in left}["collectives"] == pytest.approx(of_one)
    assert of([*runs, both("collectives", at=5)], criteria)["n1"].next == "pairs"
