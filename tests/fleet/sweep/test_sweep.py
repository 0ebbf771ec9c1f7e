"""A sweep by itself: who calls it stands in, and nobody is visited."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from hwcheck.connect import payload
from hwcheck.fleet.sweep import sweep
from hwcheck.fleet.sweep.levels import LEVELS
from hwcheck.fleet.sweep.request import SweepRequest, plans_now, preview, shortfalls
from hwcheck.fleet.sweep.state import SweepState, UnderWay, read_state, write_state
from hwcheck.fleet.sweep.sweep import Callers
from hwcheck.inventory.inventory import Cluster, Host
from hwcheck.run.measure import Display
from hwcheck.scheduler.records import BUSY, NodeState

NAMES = ("n1", "n2")
AT_WORK = NodeState("n1", BUSY, at_work=True, jobs=("4711",))


@dataclass
class Said:
    """What a sweep said, and whether its visits are over; whoever visits a host fails the test."""

    lines: list[str] = field(default_factory=list)
    over: bool = False

    def visits_over(self) -> None:
        self.over = True


def unwanted(*words: object) -> Any:
    raise AssertionError(words)


@pytest.fixture
def request_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SweepRequest:
    """A request about two hosts, both of which are at work."""
    states = dict.fromkeys(NAMES, AT_WORK)
    for room in ("request", "measuring"):
        monkeypatch.setattr(f"hwcheck.fleet.sweep.{room}.all_states", lambda hosts: states)
    return SweepRequest(
        Cluster(tuple(Host(name, name) for name in NAMES), "cluster.yml"),
        (LEVELS["nightly"],),
        dict.fromkeys(LEVELS, ("file_systems",)),
        loads=("file_systems",),
        budget_s=7200.0,
        runs=tmp_path / "runs",
        whole=True,
        drained=False,
        accept_new_host_keys=False,
    )


def swept(request: SweepRequest, stop: threading.Event) -> tuple[int, Said]:
    said = Said()
    display = Display(said.lines.append, unwanted, unwanted)
    callers = Callers(unwanted, said.visits_over, unwanted)
    code = sweep.run(request, plans_now(request), payload.build(), display, callers, stop)
    return code, said


def test_hosts_at_work_wait_for_their_turn_and_nobody_is_visited(request_: SweepRequest) -> None:
    code, said = swept(request_, threading.Event())
    assert (code, said.over) == (0, True)
    assert said.lines == ["nightly: 2 hosts due, 0 measured; at work: n[1-2]"]
    state, _ = read_state(request_.runs, request_.key)
    assert (set(state.waiting), state.under_way) == (set(NAMES), None)
    assert (state.finished["nightly"].due, state.finished["nightly"].measured) == (2, 0)


def test_a_sweep_that_is_stopped_is_under_way_for_the_next(request_: SweepRequest) -> None:
    stop = threading.Event()
    stop.set()
    swept(request_, stop)
    state, _ = read_state(request_.runs, request_.key)
    assert state.under_way is not None
    assert state.finished == {}


def test_what_is_gone_from_the_inventory_is_said(request_: SweepRequest) -> None:
    request_.runs.mkdir()
    past = "2026-01-01T02:30:00Z"
    former = SweepState(UnderWay(f"{request_.key}.x", past, past), first_seen={"n9": past})
    write_state(request_.runs, request_.key, former)
    _, said = swept(request_, threading.Event())
    assert said.lines[0] == "no longer in the inventory: n9"
    assert "was cut off; its budget is over" in said.lines[1]


def test_levels_beside_jobs_have_runs_of_their_own(request_: SweepRequest) -> None:
    runs = request_.runs
    assert list(request_.folders()) == [runs.with_name("runs-minutes"), runs]


def test_a_preview_says_who_is_kept_out_and_a_shortfall_why_not_all_fit(
    request_: SweepRequest,
) -> None:
    assert preview(request_).startswith("nightly: not now: n1: busy")
    said = "\nnightly: asked: profile quick; load_dtype auto; engine torch\n"
    assert preview(request_).endswith(said)
    assert list(shortfalls(request_, plans_now(request_))) == []
    short = replace(request_, budget_s=1.0)
    assert "take more sweeps than there are" in "".join(shortfalls(short, plans_now(short)))
