from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwcheck.connect.visit import Visit
from hwcheck.contract.columnar import pack
from hwcheck.contract.load_run import LoadRun, Series
from hwcheck.inventory.inventory import Host
from hwcheck.results.files import DiskError
from hwcheck.results.run_folder import (
    OUT_OF_TIME,
    UNDER_WAY,
    HostAnswer,
    RunFolder,
    given_up,
    read_series,
)
from hwcheck.results.series import VisitSeries
from hwcheck.run import fan_out
from hwcheck.run.fan_out import VisitEvent
from tests.lab.visits import log_of, visit_all
from tests.small_disk import fill

HOSTS = [Host(f"n{number}", "127.0.0.1", connection="local") for number in range(3)]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def test_events_and_records(out: Path) -> None:
    events: list[VisitEvent] = []
    records = visit_all(HOSTS, out, progress=events.append)
    assert {record.state for record in records.values()} == {"reported"}
    mine = [(event.kind, event.text, event.state) for event in events if event.host == "n1"]
    assert mine == [
        ("started", "", ""),
        ("progress", "first", ""),
        ("progress", "second", ""),
        ("finished", "", "reported"),
    ]


def test_the_series_of_a_load_lies_in_the_folder(out: Path) -> None:
    load = LoadRun("cpu", "torch", (), Series(), 3.0, 4.0)
    frame = {"frame": {"kind": "series", "series": pack(load)}}
    visit_all(HOSTS[:2], out, expect={"n0": {"first": frame}})
    (run,) = out.iterdir()
    assert read_series(run, "n0") == VisitSeries(load)
    assert read_series(run, "n1") is None


def test_one_bad_host_spoils_nothing(out: Path) -> None:
    hosts = [replace(HOSTS[0], python="/no/such/python"), *HOSTS[1:]]
    events: list[VisitEvent] = []
    records = visit_all(hosts, out, progress=events.append)
    assert [records[host.name].state for host in hosts] == ["lost", "reported", "reported"]
    (finished,) = [event for event in events if event.host == "n0" and event.kind == "finished"]
    assert finished.text == "python: /no/such/python: not found"


def test_an_unforeseen_error_costs_one_host(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = Visit.run

    def broken(self: Visit) -> HostAnswer:
        if self._host.name == "n1":
            raise RuntimeError("a fault\nof ours")
        return genuine(self)

    monkeypatch.setattr(Visit, "run", broken)
    records = visit_all(HOSTS, out)
    assert [records[host.name].state for host in HOSTS] == ["reported", "lost", "reported"]
    assert records["n1"].reason.text == "unforeseen: RuntimeError('a fault\\nof ours')"
    assert "Traceback" in log_of(out, "n1")


def test_an_error_of_the_run_itself_is_raised(out: Path) -> None:
    def progress(event: VisitEvent) -> None:
        if event.kind == "finished":
            raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space left"):
        visit_all(HOSTS, out, progress=progress, forks=1)
    (run,) = out.iterdir()
    assert [path.name for path in (run / "nodes").glob("*.json")] == ["n0.json"]


def test_a_disk_that_fills_up_stops_the_run(small_disk: Path) -> None:
    def progress(event: VisitEvent) -> None:
        if event.kind == "progress":
            fill(small_disk)

    with pytest.raises(DiskError, match="No space left on device; make room there"):
        visit_all(HOSTS, small_disk / "runs", progress=progress, forks=1)
    assert not list(small_disk.rglob("*.new"))


def test_a_host_that_is_under_way_is_on_record_before_it_answers(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def silent(self: Visit) -> HostAnswer:
        end = time.monotonic() + 20
        while not seen and time.monotonic() < end:
            seen.extend(path.read_text() for path in out.glob("*/nodes/n0.json"))
            time.sleep(0.02)
        return HostAnswer(self._host.name, "unreachable")

    monkeypatch.setattr(Visit, "run", silent)
    visit_all(HOSTS[:1], out)
    assert f'"code": "{UNDER_WAY.code}"' in seen[0]


def test_forks_bound_how_many_run_at_once(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, now, most = threading.Lock(), [0], [0]
    meet = threading.Barrier(2)

    def counted(self: Visit) -> HostAnswer:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        meet.wait(10)  # two are inside at once
        with lock:
            now[0] -= 1
        return HostAnswer(self._host.name, "unreachable")

    monkeypatch.setattr(Visit, "run", counted)
    hosts = [Host(f"n{number}", "127.0.0.1", connection="local") for number in range(8)]
    visit_all(hosts, out, forks=2)
    assert most[0] == 2


def test_stop_leaves_the_others_unvisited(out: Path) -> None:
    stop = threading.Event()

    def progress(event: VisitEvent) -> None:
        if event.kind == "progress":
            stop.set()

    started = time.monotonic()
    expect: dict[str, Any] = {host.name: {"first": {"hang": 600}} for host in HOSTS}
    records = visit_all(HOSTS, out, expect=expect, progress=progress, stop=stop, forks=1)
    assert [records[host.name].state for host in HOSTS] == ["lost", "not_visited", "not_visited"]
    assert records["n0"].reason.text == "interrupted"
    assert time.monotonic() - started < 10


def test_a_host_that_is_wanted_is_given_up_at_once_and_the_others_go_on(out: Path) -> None:
    ended = {"n2": given_up("busy: job 12")}

    def progress(event: VisitEvent) -> None:
        if (event.host, event.text) == ("n0", "second"):
            ended["n0"] = OUT_OF_TIME

    started = time.monotonic()
    records = visit_all(
        HOSTS, out, expect={"n0": {"second": {"hang": 600}}}, progress=progress, given_up=ended
    )
    assert [records[host.name].state for host in HOSTS] == ["partial", "reported", "lost"]
    assert records["n0"].reason == OUT_OF_TIME
    assert [result.check for result in records["n0"].report.results] == ["first"]  # type: ignore[union-attr]
    assert records["n2"].reason == given_up("busy: job 12")
    assert [records[host.name].given_up for host in HOSTS] == [False, False, True]
    assert records["n0"].ended_by_us
    assert time.monotonic() - started < 20


def test_stop_does_not_wait_for_a_visit_that_hangs(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, stop = threading.Event(), threading.Event()

    def stuck(self: Visit) -> HostAnswer:
        stop.set()
        release.wait(60)
        return HostAnswer(self._host.name, "reported")

    monkeypatch.setattr(Visit, "run", stuck)
    monkeypatch.setattr(fan_out, "STOP_S", 0.3)
    events: list[VisitEvent] = []
    try:
        records = visit_all(HOSTS[:1], out, progress=events.append, stop=stop)
    finally:
        release.set()
    assert (records["n0"].state, records["n0"].reason.text) == ("lost", "interrupted")
    assert [event.kind for event in events] == ["started", "finished"]


@pytest.mark.parametrize(
    ("keep_s", "look_s"),
    [
        pytest.param(0.0, 60.0, id="at once"),  # nobody looks while the visit lasts
        pytest.param(0.5, 0.1, id="a little later"),
    ],
)
def test_results_are_written_before_the_visit_ends(
    out: Path, monkeypatch: pytest.MonkeyPatch, keep_s: float, look_s: float
) -> None:
    monkeypatch.setattr(fan_out, "KEEP_S", keep_s)
    monkeypatch.setattr(fan_out, "LOOK_S", look_s)
    seen: list[str] = []
    stop = threading.Event()

    def look() -> None:
        end = time.monotonic() + 20
        while not seen and time.monotonic() < end:
            texts = [path.read_text() for path in out.glob("*/nodes/n0.json")]
            seen.extend(text for text in texts if UNDER_WAY.code in text and "first" in text)
            time.sleep(0.02)
        stop.set()

    looker = threading.Thread(target=look)
    looker.start()
    visit_all(HOSTS[:1], out, expect={"n0": {"second": {"hang": 600}}}, stop=stop)
    looker.join()
    assert '"state": "partial"' in seen[0]
    assert '"check": "first"' in seen[0]


def test_a_short_visit_is_written_once(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    write = RunFolder.write_host

    def count(self: RunFolder, answer: HostAnswer) -> None:
        written.append(answer.state)
        write(self, answer)

    monkeypatch.setattr(RunFolder, "write_host", count)
    monkeypatch.setattr(fan_out, "KEEP_S", 60.0)
    visit_all(HOSTS[:1], out)
    assert written == ["reported"]
