"""What is measured ends when the scheduler wants the host."""

from __future__ import annotations

import threading
import time

import pytest

from hwcheck.errors import UsageError
from hwcheck.fleet.sweep.availability import States
from hwcheck.fleet.sweep.watch import SchedulerWatch
from hwcheck.results.run_folder import OUT_OF_TIME, given_up
from hwcheck.scheduler.records import BUSY, DOWN, IDLE, NodeState
from tests.lab.waiting import wait_until

FOREVER = float("inf")
JOB = NodeState(state=BUSY, at_work=True, jobs=("4711",))


class Scheduler:
    """What it says now; None while it does not answer."""

    def __init__(self) -> None:
        self.states: States | None = {"n1": NodeState(state=IDLE)}
        self.asked = 0

    def ask(self) -> States:
        self.asked += 1
        if self.states is None:
            raise UsageError("sinfo: no answer")
        return self.states


def test_a_host_that_gets_a_job_is_wanted_and_ends_what_runs_together() -> None:
    scheduler = Scheduler()
    with SchedulerWatch(scheduler.ask, ("n1", "n2"), threading.Event(), FOREVER, 0.01) as watch:
        wait_until(lambda: scheduler.asked > 2, 20)
        assert (watch.given_up, watch.ends.is_set()) == ({}, False)
        scheduler.states = None
        asked = scheduler.asked
        wait_until(lambda: scheduler.asked > asked + 2, 20)
        assert watch.given_up == {}
        scheduler.states = {"n1": JOB, "n3": JOB}
        assert watch.ends.wait(20)
        assert watch.given_up == {"n1": given_up("busy: job 4711")}
    asked = scheduler.asked
    time.sleep(0.1)
    assert scheduler.asked <= asked + 1


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        (NodeState(state=IDLE, wanted="planned for a job"), {"n1": "planned for a job"}),
        (NodeState(state=DOWN), {}),  # it may be down for what was measured there
        (NodeState(state=IDLE), {}),
    ],
)
def test_who_is_wanted(state: NodeState, wanted: dict[str, str]) -> None:
    watch = SchedulerWatch(lambda: {"n1": state}, ("n1",), threading.Event(), FOREVER)
    watch.look()
    assert watch.given_up == {host: given_up(why) for host, why in wanted.items()}


@pytest.mark.parametrize("by", ["stop", "time"])
def test_the_end_of_the_sweep_and_of_the_time_end_it_too(by: str) -> None:
    stop, until = threading.Event(), FOREVER
    if by == "stop":
        stop.set()
    else:
        until = time.monotonic()
    with SchedulerWatch(dict, ("n1",), stop, until) as watch:
        assert watch.ends.wait(20)
        assert watch.given_up == ({} if by == "stop" else {"n1": OUT_OF_TIME})
