"""The history as sweeps read it: at which level each host was measured, and when."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from hwcheck import checks as registry
from hwcheck.advise.assessment import assess
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.reasons import Reason
from hwcheck.fleet.sweep.cut_off import close_run, cut_off_runs
from hwcheck.fleet.sweep.drains import is_well
from hwcheck.fleet.sweep.visits import PastVisit, level_of, read_visits
from hwcheck.history import dataset
from hwcheck.history.views import History
from hwcheck.results.multi_host import MultiHostRecord, MultiHostRun, write_multi_host
from hwcheck.results.run_folder import UNDER_WAY, HostPlan, RunFolder, RunMeta, read_run
from tests import factories
from tests.fleet.sweep.builders import visit

CHECKS = {"minutes": ("driver",), "nightly": factories.CHECKS, "weekly": (*factories.CHECKS, "xid")}
CHECKS["monthly"] = CHECKS["weekly"]
LOADS = [name for name, check in registry.load().items() if check.load]
SWEEP = {"id": "c-1.x", "level": "weekly"}


def idle(host: str) -> factories.HostRecord:
    """A host that somebody is at work on: its checks under load say busy."""
    record = factories.gpu_host(host)
    assert record.report
    results = tuple(
        replace(
            result, state="busy", reason=Reason("at_work", "gpu0 is in use"), samples=(), legs=()
        )
        if result.check in LOADS
        else result
        for result in record.report.results
    )
    return replace(record, report=replace(record.report, results=results))


def write(out: Path, *records: factories.HostRecord, **changes: object) -> Path:
    path = factories.saved(out, *records, **changes)
    dataset.write(path, assess(read_run(path), shipped()))
    return path


def visits(runs: Path) -> list[PastVisit]:
    with History.open(runs, kinds=("hosts", "samples")) as history:
        return read_visits(history, CHECKS, LOADS)


def test_what_each_host_was_asked_and_gave(tmp_path: Path) -> None:
    away = factories.record("n3", None, reason="no route to host", phase="connect")
    path = write(tmp_path, factories.gpu_host("n1"), idle("n2"), away, sweep=SWEEP)
    of_host = {visit.host: visit for visit in visits(tmp_path)}
    assert {host: visit.loaded for host, visit in of_host.items()} == {
        "n1": True,
        "n2": False,
        "n3": False,
    }
    for level in ("minutes", "nightly", "weekly"):
        assert of_host["n1"].measured_at(level)
        assert of_host["n2"].measured_at(level) == (level == "minutes")
        assert not of_host["n3"].measured_at(level)
    assert not of_host["n1"].measured_at("monthly")
    first = of_host["n1"]
    assert (first.run, first.level, first.sweep) == (path.name, "weekly", "c-1.x")
    assert first.at == datetime.strptime(path.name[:15], "%Y%m%dT%H%M%S")  # noqa: DTZ007
    assert (first.outcome, first.duration_s) == ("pass", 41.5)
    assert first.boards


@pytest.mark.parametrize(
    ("changes", "level"),
    [
        ({}, "nightly"),
        ({"checks": factories.CHECKS[1:]}, ""),
        ({"profile": "standard"}, ""),
        ({"profile": "standard", "checks": CHECKS["weekly"]}, "weekly"),
        ({"profile": "burn_in", "checks": CHECKS["monthly"]}, "monthly"),
        ({"sweep": {"id": "c-1.x", "level": "minutes"}}, "minutes"),
        ({"checks": ()}, ""),
    ],
)
def test_a_run_by_hand_counts_where_it_had_all_checks(
    changes: dict[str, object], level: str
) -> None:
    assert level_of(factories.run(factories.gpu_host("n1"), **changes).meta, CHECKS) == level


def test_a_folder_whose_run_json_is_damaged_has_no_level(tmp_path: Path) -> None:
    path = write(tmp_path, factories.gpu_host("n1"))
    (path / "run.json").write_text("{")
    assert [visit.level for visit in visits(tmp_path)] == [""]


def begun(out: Path, *records: factories.HostRecord, hosts: int = 3, sweep: object = SWEEP) -> Path:
    """Write a run over some hosts that was killed when only these had a record."""
    records_of_all = (factories.gpu_host(f"n{n + 1}") for n in range(hosts))
    whole = factories.run(*records_of_all, sweep=sweep, finished="")
    folder = RunFolder.create(out, whole.meta)
    for record in records:
        folder.write_host(record)
    return folder.path


def test_a_run_that_was_killed_is_closed_with_the_hosts_that_it_visited(tmp_path: Path) -> None:
    under_way = factories.record("n2", None, state="lost", reason=UNDER_WAY)
    path = begun(tmp_path, factories.gpu_host("n1"), under_way)
    assert list(cut_off_runs(tmp_path, "c-1")) == [path]
    assert close_run(path)
    run = read_run(path)
    assert [host.name for host in run.meta.hosts] == ["n1", "n2"]
    assert run.meta.interrupted
    assert run.meta.finished
    assert "killed" in run.records[1].reason.text
    dataset.write(path, assess(run, shipped()))
    assert list(cut_off_runs(tmp_path, "c-1")) == []
    assert [(visit.host, visit.cut_off) for visit in visits(tmp_path)] == [
        ("n1", False),
        ("n2", True),
    ]


def test_a_run_that_was_killed_before_any_visit_is_gone(tmp_path: Path) -> None:
    path = begun(tmp_path)
    assert not close_run(path)
    assert not path.exists()


def test_runs_of_others_are_left_alone(tmp_path: Path) -> None:
    begun(tmp_path, factories.gpu_host("n1"), sweep={})
    begun(tmp_path, factories.gpu_host("n1"), sweep={"id": "c-10.x", "level": "nightly"})
    whole = write(tmp_path, factories.gpu_host("n1"), sweep=SWEEP)
    (tmp_path / "notes").mkdir()
    shutil.copytree(whole, tmp_path / ".going-x")
    assert list(cut_off_runs(tmp_path, "c-1")) == []
    assert list(cut_off_runs(tmp_path / "nowhere", "c-1")) == []


def test_a_run_behind_a_link_is_left_to_whoever_has_it(tmp_path: Path) -> None:
    elsewhere = begun(tmp_path / "other", factories.gpu_host("n1"))
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / elsewhere.name).symlink_to(elsewhere)
    assert list(cut_off_runs(runs, "c-1")) == []
    assert list(cut_off_runs(tmp_path / "other", "c-1")) == [elsewhere]


def test_a_run_that_was_killed_while_it_was_judged_is_judged_again(tmp_path: Path) -> None:
    path = factories.saved(tmp_path, factories.gpu_host("n1"), sweep=SWEEP)
    assert list(cut_off_runs(tmp_path, "c-1")) == [path]
    before = (path / "run.json").read_bytes()
    assert close_run(path)
    assert (path / "run.json").read_bytes() == before


def test_a_run_that_is_of_no_level_measured_nobody() -> None:
    few = visit("n1", level="", loaded=False)
    assert not is_well(few)
    assert not few.measured_at("nightly")
    assert level_of(RunMeta("", "", (), (), sweep={"id": "s", "level": "weekly"}), {}) == ""


@pytest.mark.parametrize("met", [True, False])
def test_what_ran_over_several_hosts_before_a_kill_is_kept(met: bool, tmp_path: Path) -> None:
    plans = tuple(HostPlan(name, name) for name in ("n1", "n2"))
    meta = RunMeta("", "", (), plans, sweep={"id": "c.1", "level": "weekly"})
    folder = RunFolder.create(tmp_path, meta)
    runs = (MultiHostRun("pairs", 0, ("n1", "n2"), "all_reduce", 2, "done"),) if met else ()
    write_multi_host(folder.path, MultiHostRecord(("pairs",), ("n1", "n2"), runs=runs))
    assert close_run(folder.path) is met
    assert folder.path.exists() is met
    if met:
        run = read_run(folder.path)
        assert run.meta.interrupted
        assert [record.state for record in run.records] == ["not_visited"] * 2
