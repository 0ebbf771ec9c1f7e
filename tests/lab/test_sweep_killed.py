"""A sweep over eight hosts, killed at any point, goes on; nobody is measured or told twice."""

from __future__ import annotations

import json
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from hwcheck.exit_codes import FAILED, PASS
from hwcheck.fleet.notify.config import Notify, Receiver, Secret
from hwcheck.fleet.notify.outbox import Outbox
from hwcheck.fleet.sweep.levels import LEVELS
from hwcheck.fleet.sweep.request import SweepRequest
from hwcheck.fleet.sweep.state import FOLDER, holder, read_state
from hwcheck.history.views import History
from hwcheck.inventory.inventory import Cluster
from hwcheck.results.run_folder import CUT_OFF, read_run
from hwcheck.scheduler.records import Amount
from tests.fleet.notify.receivers import Taken, http_receiver
from tests.lab.lab import Lab, wait_until
from tests.lab.sweeping import sweep

pytestmark = [pytest.mark.usefixtures("namespaces"), pytest.mark.timeout(3600)]

CHECKS = ("file_systems", "gpu_count")
"""They load nothing, and each host answers within a second."""
NAMES = tuple(f"n{number:02}" for number in range(1, 9))
BAD = ("n03", "n07")
"""They are to have GPUs, and have none: of them people are told."""
KILLS = 50
AT_ONCE = 4
PROCESSES = multiprocessing.get_context("forkserver")


@pytest.fixture(scope="module")
def lab(namespaces: None) -> Iterator[Lab]:
    with Lab(NAMES) as made:
        yield made


@dataclass
class People:
    """Who is told: by a kind that would show a message twice, and by one that knows its key."""

    slack: Taken
    webhook: Taken

    def notify(self, folder: Path) -> Notify:
        """Return what names them; ``folder`` takes the address of the first, which is a secret."""
        address = folder / "slack.url"
        address.write_text(self.slack.url)
        address.chmod(0o600)
        slack = Receiver("chat", "slack", secret=Secret("url", file=str(address)))
        return Notify((slack, Receiver("tickets", "webhook", url=self.webhook.url)))

    @property
    def all(self) -> tuple[Taken, Taken]:
        """Both, in the order in which they are told."""
        return self.slack, self.webhook

    def forget(self) -> None:
        """Take what came away."""
        for each in self.all:
            each.came.clear()


@pytest.fixture
def people() -> Iterator[People]:
    with http_receiver() as slack, http_receiver() as webhook:
        yield People(slack, webhook)


def asked_of(lab: Lab, out: Path, people: People) -> SweepRequest:
    level = replace(LEVELS["minutes"], max_unavailable=Amount(count=AT_ONCE))
    hosts = (replace(each, expect={"gpus": 8 * (each.name in BAD)}) for each in lab.hosts())
    out.mkdir()
    return SweepRequest(
        Cluster(tuple(hosts), "lab"),
        (level,),
        dict.fromkeys(LEVELS, CHECKS),
        loads=(),
        budget_s=level.budget_s,
        runs=out / "runs",
        whole=True,
        drained=False,
        accept_new_host_keys=False,
        notify=people.notify(out),
    )


def begin(asked: SweepRequest) -> BaseProcess:
    process = PROCESSES.Process(target=sweep, args=(asked,))
    process.start()
    return process


def kill(process: BaseProcess, runs: Path, people: People, dice: random.Random) -> str:
    """Kill a sweep some moments after so many hosts are finished, or when a message has come.

    After all hosts it is judged and told. Returns what was waited for.
    """
    points = [*range(len(NAMES) + 1), *people.all]
    point = dice.choice(points)
    if isinstance(point, int):
        _wait(process, lambda: len(finished_records(runs)) >= point)
        process.join(dice.uniform(0, 2.0))
    else:
        point.answering.clear()
        _wait(process, lambda: point.came)
    process.kill()
    process.join()
    for each in people.all:
        each.answering.set()
    return "hosts" if isinstance(point, int) else "slack" if point is people.slack else "webhook"


def _wait(process: BaseProcess, condition: Callable[[], object]) -> None:
    end = time.monotonic() + 300
    while process.is_alive() and not condition():
        assert time.monotonic() < end
        process.join(0.02)


def closed_runs(runs: Path) -> int:
    """Return how many runs were judged to their end."""
    return len(list(runs.glob("*/hosts.parquet")))


def finished_records(runs: Path) -> dict[Path, bytes]:
    """Return the files of hosts whose visit came to its end."""
    made = {}
    for file in runs.glob("*/nodes/*.json"):
        data = file.read_bytes()
        if json.loads(data)["state"] == "reported":
            made[file] = data
    return made


@dataclass
class Visits:
    """What the runs of a sweep hold: how often each host was visited to the end, and cut off."""

    whole: Counter[str]
    cut_off: Counter[str]


def visits(runs: Path) -> Visits:
    made = Visits(Counter(), Counter())
    for path in sorted(runs.iterdir()):
        for record in read_run(path).records:
            (made.cut_off if record.reason == CUT_OFF else made.whole)[record.host] += 1
    return made


def assert_told_once(people: People, outbox: Outbox) -> None:
    """Each change was told once: where nobody knows whether it came, it is not sent again."""
    shown = [headers["Idempotency-Key"] for _, headers, _ in people.slack.came]
    assert len(shown) <= 1, "a message was shown twice"
    assert len(shown) == 1 or len(outbox.in_doubt("chat")) == 1, "a message was lost"
    assert all("n[03,07]" in json.dumps(body) for _, _, body in people.slack.came)
    by_key = {headers["Idempotency-Key"]: body for _, headers, body in people.webhook.came}
    (body,) = by_key.values()
    assert [(each["kind"], each["hosts"]) for each in body["groups"]] == [("new", list(BAD))]
    assert outbox.waiting() == {}


@pytest.mark.wide
def test_killed_at_any_point_it_goes_on(lab: Lab, people: People, tmp_path: Path) -> None:
    PROCESSES.set_forkserver_preload(["tests.lab.sweeping"])
    dice, points = random.Random(19), set()
    for number in range(KILLS):
        people.forget()
        asked = asked_of(lab, tmp_path / str(number), people)
        runs = asked.runs_of(asked.levels[0])
        process = begin(asked)
        at = kill(process, runs, people, dice)
        assert holder(asked.runs, asked.key) == ""
        before, closed = finished_records(runs), closed_runs(runs)
        ended = "minutes" in read_state(asked.runs, asked.key)[0].finished
        points.add((at, len(before), closed))
        again = begin(asked)
        again.join()
        made = visits(runs)
        # After the end of a sweep the next is another, in which nobody is due.
        assert again.exitcode == (PASS if ended else FAILED), f"kill {number}"
        assert made.whole == Counter(NAMES), f"kill {number}"
        assert all(file.read_bytes() == data for file, data in before.items()), f"kill {number}"
        assert sum(made.cut_off.values()) <= AT_ONCE
        with History.open(runs) as history:
            assert not history.left_out
            of_host = dict(history.rows("SELECT host, count(*) FROM hosts GROUP BY host"))
        assert of_host == made.whole + made.cut_off
        state, problem = read_state(asked.runs, asked.key)
        assert (problem, state.under_way) == ("", None)
        assert set(state.finished) == {"minutes"}
        assert set(state.first_seen) == set(NAMES)
        outbox = Outbox(asked.runs / FOLDER / asked.key)
        assert_told_once(people, outbox)
        later = begin(asked)
        later.join()
        assert later.exitcode == PASS, "nobody is due"
        assert visits(runs) == made
        assert_told_once(people, outbox)
        for name in NAMES:
            wait_until(lambda name=name: not lab.nodes[name].visitors(), 60)  # type: ignore[misc]
    assert len(points) >= 3, f"the kills came at too few points: {points}"
    assert {"hosts", "webhook"} <= {at for at, *_ in points}, (
        f"none while people are told: {points}"
    )
