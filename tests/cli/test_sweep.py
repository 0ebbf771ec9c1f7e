"""`hwcheck sweep` as it is typed: what it measures and refuses, and what befalls it at night."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from hwcheck.cli import sweep, sweep_run
from hwcheck.cli.program import run
from hwcheck.errors import UsageError
from hwcheck.exit_codes import NOT_MEASURED
from hwcheck.fleet.sweep import state as sweep_state
from hwcheck.fleet.sweep.state import FOLDER, Lock, SweepState, key_of, read_state, write_state
from hwcheck.fleet.sweep.units import UnitFolder
from hwcheck.history.views import History
from hwcheck.results.run_folder import RunFolder, read_run
from hwcheck.scheduler.records import NodeState
from tests.small_disk import fill

CHECKS = ("file_systems", "host_memory")
"""They load nothing and are quick."""
INVENTORY = """\
all:
  hosts:
    here:
      ansible_connection: local
      ansible_python_interpreter: "{{{{ ansible_playbook_python }}}}"
    away1: {{ansible_host: 127.0.0.1, ansible_port: 1, ansible_user: u}}
    away2: {{ansible_host: 127.0.0.2, ansible_port: 1, ansible_user: u}}
  vars:
    hwcheck_sweep: {terms}
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sweep, "checks_of", lambda level, every: CHECKS)
    inventory("{}")


def inventory(terms: str, name: str = "cluster.yml") -> None:
    Path(name).write_text(INVENTORY.format(terms=terms))


def typed(capfd: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = 0
    try:
        run(["sweep", *argv])
    except SystemExit as ended:
        code = int(ended.code or 0)
    out, err = capfd.readouterr()
    assert "Traceback" not in err, err
    return code, out, err


RUN = ("run", "--hosts", "cluster.yml", "--level", "minutes")
NIGHT = ("run", "--hosts", "cluster.yml", "--level", "nightly")


def the_state() -> SweepState:
    state, problem = read_state(Path("runs"), key_of("cluster.yml"))
    assert problem == ""
    return state


def test_a_sweep_from_end_to_end(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = typed(capfd, *RUN, "--dry-run")
    assert (code, os.listdir()) == (0, ["cluster.yml"])
    assert "minutes: batch 1: here: new\n" in out
    code, out, err = typed(capfd, *RUN)
    assert code == 3
    assert "hwcheck: minutes: 3 hosts due, 1 measured; not measured: away[1-2]" in err
    (path,) = Path("runs-minutes").iterdir()
    run = read_run(path)
    assert run.meta.sweep["level"] == "minutes"
    assert run.meta.checks == CHECKS
    assert (path / "report.html").exists()
    with History.open(Path("runs-minutes")) as history:
        assert history.rows("SELECT count(*) FROM hosts") == [(3,)]
    state = the_state()
    assert state.under_way is None
    assert (state.finished["minutes"].due, state.finished["minutes"].measured) == (3, 1)
    assert typed(capfd, "status", "--hosts", "cluster.yml", "--level", "minutes")[0] == 0
    _, out, _ = typed(capfd, *RUN, "--dry-run")
    assert "here" not in out
    assert out.count("new") == 0
    assert out.count("never measured at this level") == 2


@pytest.fixture
def told() -> Iterator[list[dict[str, Any]]]:
    """Yield what a webhook is sent; ``notify.yml`` names it."""
    bodies: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/hook"
        Path("notify.yml").write_text(f"receivers: {{ops: {{webhook: {{url: '{url}'}}}}}}")
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield bodies
        server.shutdown()
        thread.join()


def test_people_are_told_what_changed_and_once(
    told: list[dict[str, Any]], capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):  # the hosts that nobody reaches are due again
        assert typed(capfd, *RUN, "--notify", "notify.yml")[0] == 3
    (body,) = told
    assert body["title"].endswith(": 2 new")
    assert {"away1", "away2"} <= set(re.findall("away[12]", json.dumps(body)))


def test_a_night_ends_with_the_page_of_the_fleet(capfd: pytest.CaptureFixture[str]) -> None:
    assert typed(capfd, *RUN)[0] == 3
    assert not list(Path().glob("runs*/index.html")), "no night"
    assert typed(capfd, "run", "--hosts", "cluster.yml", "--level", "nightly")[0] == 3
    assert "away1" in Path("runs/index.html").read_text()


def test_what_was_measured_before_a_sweep_was_cut_off_is_told_by_the_next(
    told: list[dict[str, Any]],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("hwcheck.fleet.sweep.sweep.tell", killed)
        with pytest.raises(Killed):
            typed(capfd, *RUN, "--notify", "notify.yml")
    assert told == []
    code, _, err = typed(capfd, *RUN, "--notify", "notify.yml")
    assert code == NOT_MEASURED, "as it is of hosts that are away, whenever they were visited"
    assert "goes on with the sweep that began" in err
    (body,) = told
    assert body["title"].endswith(": 2 new")
    assert {"away1", "away2"} <= set(re.findall("away[12]", json.dumps(body)))


REFUSED = [
    ([*RUN, "--notify", "gone.yml"], "gone.yml: No such file or directory"),
    ([*RUN, "--notify", "metrics.yml"], "metrics.yml: metrics: /nowhere is no folder"),
    ([*RUN, "--notify", "hook.yml"], "ops.webhook.url: 'ftp://a' is no address such as"),
    (["run", "--hosts", "waiver.yml"], "waiver.yml: n1: hwcheck_waivers"),
    (["run"], "no host is named"),
    (
        ["go", "--hosts", "cluster.yml"],
        "sweep go: it is one of run, release, status, install, remove",
    ),
    ([*RUN, "--budget", "soon"], "--budget soon: it takes seconds, or 45m, 8h, 7d, 4w"),
    ([*RUN, "--budget", "2"], "a budget of 2s is too short for one visit: at minutes"),
    ([*RUN, "--budget", "20s"], "a budget of 20s is too short for one visit: at minutes"),
    ([*RUN, "--max-unavailable", "0"], "--max-unavailable '0' is neither a count (3)"),
    ([*RUN, "--max-unavailable", "200%"], "--max-unavailable '200%' is neither a count"),
    ([*RUN, "--max-unavailable", "5%"], "max-unavailable 5% of 3 hosts is none; say a count"),
    (["run", "--hosts", "cluster.yml", "--level", "daily"], "--level daily: it is one of"),
    ([*RUN, "--out", ""], "--out is empty"),
    ([*RUN, "-f", "2", "--max-unavailable", "2"], "--forks: it is --max-unavailable with a count"),
    ([*RUN, "--at", "02:30"], "--at: it goes with sweep install"),
    (
        ["status", "--hosts", "cluster.yml", "--budget", "2h"],
        "--budget: it goes with sweep run and",
    ),
    (["status", "--hosts", "cluster.yml", "--dry-run"], "--dry-run: it goes with sweep run"),
    (["install", "--hosts", "cluster.yml", "--at", "25:00"], "--at '25:00' is no time of day"),
    (["install", "--hosts", "cluster.yml", "--randomize", "0"], "--randomize 0: it takes seconds"),
    (["install", "--hosts", "cluster.yml", "--randomize", "13h"], "--randomize: at most 12h"),
    (
        ["install", "--hosts", "cluster.yml", "--run-as", "nobody-here"],
        "there is no such user here",
    ),
    (
        ["install", "--hosts", "cluster.yml", "--level", "minutes", "--at", "02:30"],
        "--at: minutes is swept every 15m",
    ),
    (["run", "--hosts", "slurm.yml"], ": not found on this machine; run hwcheck where"),
    (["run", "--hosts", "odd.yml"], "odd.yml: here: hwcheck_sweep: hourly: it is none of minutes"),
]


@pytest.mark.parametrize(("argv", "text"), REFUSED, ids=range(len(REFUSED)))
def test_bad_input_is_one_line_and_nothing_is_measured(
    argv: list[str],
    text: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    inventory("{hourly: true}", "odd.yml")
    Path("metrics.yml").write_text("metrics: /nowhere/hwcheck.prom")
    Path("hook.yml").write_text("receivers: {ops: {webhook: {url: 'ftp://a'}}}")
    waiver = "[{check: pcie_link, reason: RMA}]"
    Path("waiver.yml").write_text(f"all: {{hosts: {{n1: {{hwcheck_waivers: {waiver}}}}}}}\n")
    slurm = "all: {hosts: {n1: {hwcheck_scheduler: slurm}}}\n"
    Path("slurm.yml").write_text(slurm)
    if "slurm.yml" in argv:
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        monkeypatch.setattr("hwcheck.scheduler.programs.shutil.which", lambda name: None)
    before = sorted(Path().rglob("*"))
    code, out, err = typed(capfd, *argv)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert text in err
    assert sorted(Path().rglob("*")) == before


def test_a_second_one_says_who_holds_the_lock(capfd: pytest.CaptureFixture[str]) -> None:
    with Lock(Path("runs"), key_of("cluster.yml"), "cluster.yml", "sweep run of nightly"):
        code, _, err = typed(capfd, *NIGHT)
        assert code == 2
        assert re.search(
            rf"cluster\.yml: one at a time: sweep run of nightly, since 20.*Z, process "
            rf"{os.getpid()} of .* on ",
            err,
        )
        _, out, _ = typed(capfd, "status", "--hosts", "cluster.yml")
        assert out.startswith("under way: sweep run of nightly, since 20")
        assert os.listdir("runs") == [FOLDER]


def test_what_looks_beside_jobs_gives_way_to_a_night_and_is_not_missed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    hours_ago = sweep_state.as_text(sweep_state.now_utc() - timedelta(hours=3))
    finished = {"minutes": sweep_state.Finished(hours_ago, 3, 2, 0)}
    write_state(Path("runs"), key_of("cluster.yml"), SweepState(finished=finished))
    status = ("status", "--hosts", "cluster.yml", "--level", "minutes")
    assert typed(capfd, *status)[0] == 1
    with Lock(Path("runs"), key_of("cluster.yml"), "cluster.yml", "sweep run of nightly"):
        code, _, err = typed(capfd, *RUN)
        assert (code, err.count("\n")) == (3, 1)
        said = "hwcheck: cluster.yml: not swept while a night is: sweep run of nightly, since 20"
        assert err.startswith(said)
        assert typed(capfd, *status)[0] == 0
    assert not Path("runs-minutes").exists()
    finished["nightly"] = sweep_state.Finished(sweep_state.as_text(sweep_state.now_utc()), 3, 2, 0)
    write_state(Path("runs"), key_of("cluster.yml"), SweepState(finished=finished))
    assert typed(capfd, *status)[0] == 0, "the night has just ended"
    with Lock(Path("runs"), key_of("cluster.yml"), "cluster.yml", "sweep run of minutes"):
        code, _, err = typed(capfd, *RUN)
        assert code == 2
        assert "one at a time: sweep run of minutes, since 20" in err


def test_a_night_that_was_cut_off_is_left_to_the_next_night(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("hwcheck.fleet.sweep.sweep.after", killed)
        for words in (NIGHT, RUN):
            with pytest.raises(Killed):
                typed(capfd, *words)
    night = the_state().under_way
    assert night is not None
    assert not night.beside_jobs
    _, _, err = typed(capfd, *RUN)
    assert "goes on" not in err
    assert the_state().under_way == night
    _, _, err = typed(capfd, *NIGHT)
    assert f"hwcheck: goes on with the sweep that began at {night.began}" in err
    assert "nightly: 0 hosts due, 0 measured" in err, "nobody is visited again"
    assert the_state().under_way is None


def test_a_night_is_not_cut_short_by_what_looked_beside_jobs(
    capfd: pytest.CaptureFixture[str],
) -> None:
    now = sweep_state.as_text(sweep_state.now_utc())
    key = key_of("cluster.yml")
    left = sweep_state.UnderWay(f"{key}.x", now, now, beside_jobs=True)
    write_state(Path("runs"), key, SweepState(left))
    _, _, err = typed(capfd, *NIGHT)
    assert "nightly: 3 hosts due" in err
    assert "goes on" not in err


def test_a_full_disk_is_one_line_and_costs_nothing(
    capfd: pytest.CaptureFixture[str], small_disk: Path
) -> None:
    runs = small_disk / "runs"
    fill(small_disk)
    code, out, err = typed(capfd, *RUN, "--out", str(runs))
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert "No space left on device; make room there and run again" in err


def test_a_disk_that_fills_up_amid_a_sweep_loses_no_host(
    capfd: pytest.CaptureFixture[str], small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = small_disk / "runs"
    finish = RunFolder.finish

    def full(folder: RunFolder, **words: object) -> None:
        fill(small_disk)
        finish(folder, **words)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "finish", full)
        code, _, err = typed(capfd, *RUN, "--out", str(runs))
    assert code == 2
    assert "No space left on device" in err
    (path,) = small_disk.glob("runs-minutes/*")
    assert read_run(path).meta.finished == ""
    (small_disk / "filler").unlink()
    monkeypatch.setattr(sweep_run, "show", lambda *what, **how: 0)  # its reports take more room
    code, _, err = typed(capfd, *RUN, "--out", str(runs))
    assert "was cut off; what it measured:" in err
    run = read_run(path)
    assert run.meta.finished
    assert {record.host: record.state for record in run.records} == {
        "here": "reported",
        "away1": "unreachable",
        "away2": "unreachable",
    }


@pytest.mark.parametrize("days", [-1, 1])
def test_a_clock_that_jumps_a_day_is_said_and_costs_nobody_a_turn(
    days: int, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(capfd, *RUN)
    state = the_state()
    at = state.finished["minutes"].at
    left = sweep_state.UnderWay(f"{key_of('cluster.yml')}.x", at, at, beside_jobs=True)
    write_state(Path("runs"), key_of("cluster.yml"), SweepState(left, state.finished))
    jumped = sweep_state.now_utc() + timedelta(days=days)
    monkeypatch.setattr(sweep_state, "now_utc", lambda: jumped)
    code, _, err = typed(capfd, *RUN)
    assert code == 3
    expected = "the clock was set back" if days < 0 else "was cut off; its budget is over"
    assert expected in err
    due = 3 if days > 0 else 2  # a host that was measured in the future is not due
    assert f"minutes: {due} hosts due" in err
    assert the_state().under_way is None


def test_an_inventory_that_lost_hosts_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    typed(capfd, *RUN)
    text = Path("cluster.yml").read_text()
    Path("cluster.yml").write_text("".join(x for x in text.splitlines(True) if "away" not in x))
    code, _, err = typed(capfd, *RUN)
    assert "hwcheck: no longer in the inventory: away[1-2]" in err
    assert (code, set(the_state().first_seen)) == (0, {"here"})


def test_a_scheduler_that_goes_down_at_night_loses_nothing_that_was_measured(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[dict[str, NodeState] | None] = [{}, {}, {}, None]

    def asked(hosts: object) -> dict[str, NodeState]:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer is None:
            raise UsageError("sinfo: Unable to contact slurm controller")
        return answer

    monkeypatch.setattr("hwcheck.fleet.sweep.request.all_states", asked)
    monkeypatch.setattr("hwcheck.fleet.sweep.measuring.all_states", asked)
    code, _, err = typed(capfd, *RUN, "--max-unavailable", "1")
    assert code == 3
    said = "hwcheck: sinfo: Unable to contact slurm controller; no further host is measured\n"
    assert err.count(said) == 1
    assert "minutes: 3 hosts due, 1 measured; 2 left for the next sweep" in err
    (path,) = Path("runs-minutes").iterdir()
    assert {record.host: record.state for record in read_run(path).records} == {"here": "reported"}
    answers[:] = [{}]
    _, _, err = typed(capfd, *RUN)
    assert "minutes: 2 hosts due, 0 measured; not measured: away[1-2]" in err


def test_a_scheduler_that_does_not_answer_refuses_a_sweep(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sinfo", "squeue", "scontrol"):
        (tools / name).write_text("#!/bin/sh\necho no nodes today\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    Path("slurm.yml").write_text("all: {hosts: {n1: {hwcheck_scheduler: slurm}}}\n")
    code, out, err = typed(capfd, "run", "--hosts", "slurm.yml")
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert "an answer that cannot be read: 'no nodes today'" in err
    assert not Path("runs").exists()


def test_a_controller_that_was_rebooted_amid_a_sweep_goes_on_and_says_so(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class RebootError(BaseException):
        pass

    def reboot(*_: object, **__: object) -> None:
        raise RebootError

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "finish", reboot)
        with pytest.raises(RebootError):
            typed(capfd, *RUN)
    capfd.readouterr()
    lock = Path("runs") / FOLDER / f"{key_of('cluster.yml')}.lock"
    assert "sweep run of minutes, since 20" in lock.read_text(), "it is left, and holds nothing"
    _, out, _ = typed(capfd, "status", "--hosts", "cluster.yml")
    assert out.startswith("no sweep is under way\ncut off: the sweep that began at 20")
    _, _, err = typed(capfd, *RUN)
    (path,) = Path("runs-minutes").iterdir()
    assert f"hwcheck: {path} was cut off; what it measured:" in err
    assert "hwcheck: goes on with the sweep that began at 20" in err
    assert "minutes: 0 hosts due, 0 measured" in err, "nobody is visited again"
    assert read_run(path).meta.finished


def test_a_limit_is_no_loss_of_hosts(capfd: pytest.CaptureFixture[str]) -> None:
    typed(capfd, *RUN)
    _, _, err = typed(capfd, *RUN, "--limit", "away1")
    assert "no longer in the inventory" not in err
    assert set(the_state().first_seen) == {"here", "away1", "away2"}


def test_a_host_that_is_late_is_a_finding(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(capfd, *RUN)
    later = sweep_state.now_utc() + timedelta(days=2)
    monkeypatch.setattr(sweep_state, "now_utc", lambda: later)
    code, _, err = typed(capfd, *RUN)
    assert code == 3
    assert "minutes: not measured for more than 1d: away[1-2] (unreachable)" in err
    assert the_state().finished["minutes"].late == ("away1", "away2")


def test_status_is_a_dead_mans_switch(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = typed(capfd, "status", "--hosts", "cluster.yml")
    assert code == 1
    assert "nightly: never swept\n" in out
    assert "a sweep is overdue" in out
    now = sweep_state.now_utc()
    for age, expected in ((timedelta(hours=35), 0), (timedelta(hours=37), 1)):
        at = sweep_state.as_text(now - age)
        finished = {"nightly": sweep_state.Finished(at, 3, 2, 0)}
        write_state(Path("runs"), key_of("cluster.yml"), SweepState(finished=finished))
        code, out, _ = typed(capfd, "status", "--hosts", "cluster.yml")
        assert code == expected, out
        assert ("overdue" in out) == bool(expected)
    damaged = Path("runs") / FOLDER / f"{key_of('cluster.yml')}.json"
    damaged.write_text(json.dumps([]))
    code, _, err = typed(capfd, "status", "--hosts", "cluster.yml")
    assert code == 1
    assert "begun anew" in err


def test_a_timer_beside_jobs_is_watched_and_named_where_the_night_is_asked_about(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("hwcheck.fleet.sweep.units.place", lambda: UnitFolder(tmp_path / "cron.d"))
    now = sweep_state.now_utc()
    finished = {
        "minutes": sweep_state.Finished(sweep_state.as_text(now - timedelta(hours=3)), 3, 3, 0),
        "nightly": sweep_state.Finished(sweep_state.as_text(now - timedelta(hours=6)), 3, 3, 0),
    }
    write_state(Path("runs"), key_of("cluster.yml"), SweepState(finished=finished))
    of = ("--hosts", "cluster.yml")
    code, out, _ = typed(capfd, "status", *of)
    assert (code, "minutes" in out) == (0, False), "swept once by hand, and started by nothing"
    assert typed(capfd, "install", *of, "--level", "minutes")[0] == 0
    code, out, _ = typed(capfd, "status", *of)
    assert code == 1
    assert re.search(r"^minutes: finished .*; overdue: every 15m$", out, re.MULTILINE)
    code, out, err = typed(capfd, "remove", *of)
    assert (code, out) == (0, "no sweep of a night is installed for cluster.yml\n")
    assert err == "hwcheck: the sweep of minutes stays; --level minutes removes it\n"
    assert typed(capfd, "remove", *of, "--level", "minutes")[1].endswith(": removed\n")
    assert typed(capfd, "remove", *of)[2] == ""
    assert typed(capfd, "status", *of)[0] == 0
