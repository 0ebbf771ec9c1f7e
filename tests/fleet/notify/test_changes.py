"""What is told of a sweep: news, once, with the cause and its hosts; nothing of a quiet fleet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hwcheck.advise.assessment import assess
from hwcheck.advise.catalogue import shipped
from hwcheck.advise.multi_host import FABRIC_TITLE
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import CheckResult
from hwcheck.fleet.notify import state as file
from hwcheck.fleet.notify.changes import Message, State, Sweep, changes
from hwcheck.fleet.notify.problems import Problem, RunProblems, observe
from hwcheck.results.multi_host import MultiHostRecord, fabric_between
from hwcheck.results.run_folder import HostRecord, given_up
from hwcheck.results.waivers import Waiver
from tests import factories

HOSTS = ("n1", "n2", "n3")


def sweep(night: int, hosts: Sequence[str] = HOSTS, **changes: object) -> Sweep:
    day = f"2026-02-{night:02}"
    made = Sweep(
        id=f"sweep-{night}",
        levels={"nightly": 86400.0},
        inventory="cluster.yml",
        started=f"{day}T02:30:00Z",
        finished=f"{day}T03:00:00Z",
        hosts=tuple(hosts),
        measured=len(hosts),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def healthy(*names: str) -> list[HostRecord]:
    return [factories.gpu_host(name) for name in names]


def half(name: str, gpu: int = 3) -> HostRecord:
    """A host with a GPU that has half of its lanes."""
    return factories.gpu_host(name, pcie_link_width=(gpu, 8))


def of(*records: HostRecord) -> RunProblems:
    return observe(assess(factories.run(*records), shipped()))


def nights(*observed: Sequence[RunProblems]) -> list[Message | None]:
    """Tell of one sweep after the other."""
    state, told = State(), []
    for night, of_night in enumerate(observed, 1):
        state, message = changes(state, sweep(night), of_night)
        told.append(message)
    return told


def kinds(message: Message | None) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(g.kind, g.title, g.hosts) for g in message.groups] if message else []


LINK = "A PCIe link runs below what board and slot have"


def test_a_quiet_fleet_sends_nothing() -> None:
    quiet = of(*healthy(*HOSTS))
    assert nights(*[[quiet]] * 10) == [None] * 10


def test_a_fault_is_told_once_with_its_cause_and_cleared_once() -> None:
    bad = of(half("n1"), half("n2"), *healthy("n3"))
    well = of(*healthy(*HOSTS))
    told = nights([bad], [bad], [bad], [well], [well], [well])
    assert [message is not None for message in told] == [True, False, False, False, True, False]
    assert kinds(told[0]) == [("new", LINK, ("n1", "n2"))]
    assert kinds(told[4]) == [("cleared", LINK, ("n1", "n2"))]
    first = told[0]
    assert first is not None
    assert first.id == "sweep-1"
    assert first.title == "hwcheck nightly: hosts: 2 new"
    assert first.groups[0].evidence == ("n[1-2]: pcie_link: pcie_link_width 8 of 16 lanes (gpu3)",)
    assert first.groups[0].fix.startswith("power off")
    assert first.groups[0].is_cause
    assert (first.open_problems, first.open_hosts) == (2, 2)


def test_the_same_sweep_is_told_once_however_often_it_ends() -> None:
    bad = [of(half("n1"))]
    state, message = changes(State(), sweep(1), bad)
    assert message is not None
    assert changes(state, sweep(1), bad) == (state, None)


def test_one_that_comes_and_goes_is_one_problem() -> None:
    bad, well = of(half("n1"), *healthy("n2", "n3")), of(*healthy(*HOSTS))
    told = nights([bad], [well], [bad], [well], [bad], [well], [well])
    assert [message is not None for message in told] == [True, *[False] * 5, True]


def test_another_gpu_is_worse_and_one_less_is_not() -> None:
    both = factories.gpu_host("n1", pcie_link_width=8)
    told = nights([of(half("n1"))], [of(both)], [of(half("n1"))], [of(both)])
    assert kinds(told[1]) == [("worse", LINK, ("n1",))]
    assert told[2:] == [None, None]


def test_a_host_that_cannot_be_reached_is_one_problem_and_clears_nothing_else() -> None:
    silent = factories.record("n1", None, reason="no route to host")
    told = nights([of(half("n1"))], [of(silent)], [of(silent)], [of(half("n1"))], [of(half("n1"))])
    assert kinds(told[1]) == [("new", "no whole answer", ("n1",))]
    assert told[2:4] == [None, None]
    assert kinds(told[4]) == [("cleared", "no whole answer", ("n1",))]


def test_what_a_busy_node_left_out_is_neither_new_nor_cleared() -> None:
    record = half("n1")
    assert record.report is not None
    busy = tuple(
        CheckResult(each.check, "busy", Reason("at_work", "a job is running"))
        if each.check == "pcie_link"
        else each
        for each in record.report.results
    )
    at_work = replace(record, report=replace(record.report, results=busy))
    told = nights([of(at_work)], [of(record)], *[[of(at_work)]] * 4)
    assert told[0] is None
    assert kinds(told[1]) == [("new", LINK, ("n1",))]
    assert told[2:] == [None] * 4


def test_a_visit_that_was_given_up_for_a_job_is_no_problem_and_clears_nothing() -> None:
    record = half("n1")
    assert record.report is not None
    results = tuple(each for each in record.report.results if each.check != "pcie_link")
    ended = replace(
        record,
        state="partial",
        reason=given_up("busy: job 7"),
        report=replace(record.report, results=results),
    )
    silent = replace(factories.record("n1", None), state="lost", reason=given_up("busy"))
    told = nights([of(ended)], [of(silent)], [of(record)], *[[of(ended)], [of(silent)]] * 2)
    assert [bool(message) for message in told] == [False, False, True, *[False] * 4]


def test_links_that_were_not_measured_for_too_long_are_told_once_and_cleared() -> None:
    well = [of(*healthy(*HOSTS))]
    late = dict.fromkeys(("n1", "n2"), "weekly: not measured for more than 3w: to r2")
    state, told = State(), []
    for night, links in enumerate([late, late, {}, None, {}], 1):
        state, message = changes(state, replace(sweep(night), late_links=links), well)
        told.append(message)
    assert [message is not None for message in told] == [True, False, False, False, True]
    assert kinds(told[0]) == [
        ("new", "links between hosts not measured for too long", ("n1", "n2"))
    ]


def test_faults_again_and_again_are_told_though_each_night_is_clean() -> None:
    well, state, told = [of(*healthy(*HOSTS))], State(), []
    when = {"n2": "3 incidents in 4w: 2026-02-09 gpu3 xid 79, ..."}
    for night, repeated in enumerate([when, None, when, {}, {}], 1):
        state, message = changes(state, replace(sweep(night), repeated=repeated), well)
        told.append(message)
    assert [message is not None for message in told] == [True, False, False, False, True]
    first = told[0]
    assert kinds(first) == [("new", "the driver reports faults again and again", ("n2",))]
    assert first is not None
    assert first.groups[0].outcome == "warn"


def test_a_host_that_no_sweep_comes_to_stays_as_it_was() -> None:
    told = nights([of(half("n1"))], [of(*healthy("n2"))], [of(*healthy("n3"))])
    assert told[1:] == [None, None]


def test_what_is_still_open_is_told_every_seven_days_all_at_once() -> None:
    one, two = of(half("n1"), *healthy("n2")), of(half("n1"), half("n2"))
    told = nights(*[[one]] * 3, *[[two]] * 18)
    days = [night for night, message in enumerate(told, 1) if message]
    assert days == [1, 4, 8, 15]
    assert kinds(told[7]) == [("still open", LINK, ("n1",))]
    assert kinds(told[14]) == [("still open", LINK, ("n1", "n2"))]
    reminder = told[14]
    assert reminder is not None
    assert (reminder.groups[0].since, reminder.groups[0].days) == ("2026-02-01T03:00:00Z", 14)


def test_what_follows_from_a_cause_that_is_open_is_no_news() -> None:
    cause = Problem("n1", "pcie_link", "fail", ("gpu3",), "link down", "8 lanes", "reseat")
    brought = Problem("n1", "device_to_host", "warn", ("gpu3",), "link down", "12 GB/s")
    worse = replace(brought, check="all_reduce", outcome="fail")
    other = replace(worse, cause="")
    first = RunProblems("a", (cause,))
    assert nights([first], [RunProblems("b", (cause, brought, worse))])[1] is None
    assert kinds(nights([first], [RunProblems("b", (cause, other))])[1]) == [
        ("new", "all_reduce", ("n1",))
    ]


def test_a_host_that_left_the_inventory_is_told_and_forgotten() -> None:
    state, _ = changes(State(), sweep(1), [of(half("n1"), *healthy("n2"))])
    state, message = changes(state, sweep(2, ["n2"]), [of(*healthy("n2"))])
    assert kinds(message) == [("not in the inventory", LINK, ("n1",))]
    assert state.open == ()


def test_a_bad_fabric_between_hosts_is_told_once_and_cleared_once() -> None:
    run = factories.run(*healthy("n1", "n2"))
    whole = MultiHostRecord(("all",), ("n1", "n2"), finished=True)
    between = fabric_between((("n1",), ("n2",)), "slow")
    fine = observe(assess(run, shipped(), whole))
    bad = observe(assess(run, shipped(), replace(whole, unresolved=(between,))))
    assert {problem.evidence for problem in bad.problems} == {between.text}
    told = nights([fine], [bad], [bad], [fine], [fine])
    assert told[0] is None
    assert kinds(told[1]) == [("new", FABRIC_TITLE, ("n1", "n2"))]
    assert kinds(told[2]) == []
    cleared = [each for message in told[3:] for each in kinds(message)]
    assert cleared == [("cleared", FABRIC_TITLE, ("n1", "n2"))]


def test_what_is_waived_is_not_told_and_counts_when_it_is_over() -> None:
    run = factories.run(half("n1"))
    waiver = Waiver("pcie_link", "2026-01-31", "RMA 4711")
    hosts = tuple(replace(host, waivers=(waiver,)) for host in run.meta.hosts)
    borne = observe(assess(replace(run, meta=replace(run.meta, hosts=hosts)), shipped()))
    told = nights([borne], [of(half("n1"))], [borne], [borne])
    assert told[0] is None
    assert kinds(told[1]) == [("new", LINK, ("n1",))]
    assert told[2:] == [None, None], "whoever waived it knows"


def test_hosts_that_no_sweep_came_to_for_too_long_are_a_problem_of_their_own() -> None:
    late = sweep(1, late={"n2": 9})
    state, message = changes(State(), late, [of(*healthy("n1"))])
    assert kinds(message) == [("new", "not measured for too long", ("n2",))]
    assert message is not None
    assert message.groups[0].evidence == ("n2: not_measured: not measured for 9 days",)
    state, message = changes(state, sweep(2), [of(*healthy("n2"))])
    state, message = changes(state, sweep(3), [of(*healthy("n2"))])
    assert kinds(message) == [("cleared", "not measured for too long", ("n2",))]


def test_the_gravest_and_the_causes_come_first() -> None:
    problems = (
        Problem("n1", "time_sync", "warn"),
        Problem("n2", "row_remap", "fail"),
        Problem("n3", "pcie_link", "fail", cause="link down"),
        Problem("n1", "mig", "fail"),
        Problem("n2", "mig", "fail"),
    )
    (message,) = nights([RunProblems("a", problems)])
    assert [title for _, title, _ in kinds(message)] == [
        "link down",
        "mig",
        "row_remap",
        "time_sync",
    ]


def test_a_clock_that_goes_back_is_no_error() -> None:
    state, _ = changes(State(), sweep(9), [of(half("n1"))])
    assert changes(state, sweep(2), [of(half("n1"))])[1] is None


def test_the_file_of_open_problems_is_read_back(tmp_path: Path) -> None:
    assert file.read(tmp_path) == State()
    state, _ = changes(State(), sweep(1), [of(half("n1"), *healthy("n2"))])
    file.write(tmp_path, state)
    assert file.read(tmp_path) == state


@pytest.mark.parametrize("text", ["", "[]", '{"format": 2}', "\xff", "[" * 100_000])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / file.NAME).write_text(text, "latin-1")
    with pytest.raises(file.DamagedStateError):
        file.read(tmp_path)
