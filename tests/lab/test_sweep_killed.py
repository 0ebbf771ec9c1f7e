"""A sweep over twelve hosts that is killed at any point goes on, and measures nobody twice."""

from __future__ import annotations

import json
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from hwcheck.history.views import History
from hwcheck.inventory.inventory import Cluster
from hwcheck.results.run_folder import CUT_OFF, read_run
from hwcheck.scheduler.records import Amount
from hwcheck.sweep.levels import LEVELS
from hwcheck.sweep.request import SweepRequest
from hwcheck.sweep.state import holder, read_state
from tests.lab.lab import Lab, wait_until
from tests.lab.sweeping import sweep

pytestmark = [pytest.mark.usefixtures("namespaces"), pytest.mark.timeout(3600)]

CHECKS = ("file_systems", "host_memory")
"""They load nothing, and each host answers within a second."""
NAMES = tuple(f"n{number:02}" for number in range(1, 13))
KILLS, ALL = 3, 50
AT_ONCE = 4
PROCESSES = multiprocessing.get_context("forkserver")


@pytest.fixture(scope="module")
def lab(namespaces: None) -> Iterator[Lab]:
    with Lab(NAMES) as made:
        yield made


def asked_of(lab: Lab, out: Path) -> SweepRequest:
    level = replace(LEVELS["minutes"], max_unavailable=Amount(count=AT_ONCE))
    return SweepRequest(
        Cluster(tuple(lab.hosts()), "lab"),
        (level,),
        dict.fromkeys(LEVELS, CHECKS),
        loads=(),
        budget_s=level.budget_s,
        runs=out / "runs",
        whole=True,
        drained=False,
        accept_new_host_keys=False,
    )


def begin(asked: SweepRequest) -> BaseProcess:
    process = PROCESSES.Process(target=sweep, args=(asked,))
    process.start()
    return process


def kill(process: BaseProcess, runs: Path, dice: random.Random) -> None:
    """Kill a sweep some moments after so many hosts are finished; after all, while it is judged."""
    hosts = dice.randint(0, len(NAMES))
    end = time.monotonic() + 300
    while process.is_alive() and len(finished_records(runs)) < hosts:
        assert time.monotonic() < end
        process.join(0.02)
    process.join(dice.uniform(0, 2.0))
    process.kill()
    process.join()


def finished_records(runs: Path) -> dict[Path, bytes]:
    """Return the files of hosts whose visit came to its end."""
    made = {}
    for file in runs.glob("*/nodes/*.json"):
        data = file.read_bytes()
        if json.loads(data)["state"] == "reported":
            made[file] = data
    return made


@dataclass
class Told:
    """What the runs of a sweep hold: how often each host was visited to the end, and cut off."""

    whole: Counter[str]
    cut_off: Counter[str]


def told(runs: Path) -> Told:
    made = Told(Counter(), Counter())
    for path in sorted(runs.iterdir()):
        for record in read_run(path).records:
            (made.cut_off if CUT_OFF in record.reason else made.whole)[record.host] += 1
    return made


@pytest.mark.parametrize("kills", [KILLS, pytest.param(ALL, marks=pytest.mark.wide)])
def test_killed_at_any_point_it_goes_on(kills: int, lab: Lab, tmp_path: Path) -> None:
    PROCESSES.set_forkserver_preload(["tests.lab.sweeping"])
    dice, points = random.Random(19), set()
    for number in range(kills):
        asked = asked_of(lab, tmp_path / str(number))
        runs = asked.runs_of(asked.levels[0])
        process = begin(asked)
        kill(process, runs, dice)
        assert holder(asked.runs, asked.key) == ""
        before = finished_records(runs)
        points.add((len(before), len(list(runs.glob("*/hosts.parquet")))))
        again = begin(asked)
        again.join()
        assert again.exitcode == (3 if told(runs).cut_off else 0), f"kill {number}"
        runs_told = told(runs)
        assert runs_told.whole == Counter(NAMES), f"kill {number}"
        assert all(file.read_bytes() == data for file, data in before.items()), f"kill {number}"
        assert sum(runs_told.cut_off.values()) <= AT_ONCE
        with History.open(runs) as history:
            assert not history.left_out
            of_host = dict(history.rows("SELECT host, count(*) FROM hosts GROUP BY host"))
        assert of_host == runs_told.whole + runs_told.cut_off
        state, problem = read_state(asked.runs, asked.key)
        assert (problem, state.under_way) == ("", None)
        assert set(state.finished) == {"minutes"}
        assert set(state.first_seen) == set(NAMES)
        for name in NAMES:
            wait_until(lambda name=name: not lab.nodes[name].visitors(), 60)  # type: ignore[misc]
    assert len(points) >= min(3, kills - 1), f"the kills came at too few points: {points}"
