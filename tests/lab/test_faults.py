"""What befalls a host while a visit is under way costs only that host, and can be undone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hwcheck.results.run_folder import HostRecord
from hwcheck.run.fan_out import VisitEvent
from tests.lab.lab import Lab, Node, listens, wait_until
from tests.lab.visits import QUICK, visit_all

pytestmark = pytest.mark.usefixtures("namespaces")

SILENCE_S = 8.0
DEADLINES = replace(QUICK, silence_s=SILENCE_S)
FAULTS: dict[str, Callable[[Node], None]] = {
    "frozen": Node.freeze,
    "cut": Node.cut,
    "killed": Node.kill,
    "garbled": Node.garble,
}
REPAIRS: dict[str, Callable[[Node], None]] = {
    "frozen": Node.thaw,
    "cut": Node.mend,
    "killed": Node.start_sshd,
}
# Longer than the silence that is allowed: the good one is at work when the others are given up.
GOOD_HANG_S = SILENCE_S + 1
GONE_S = 45.0


@dataclass
class Struck:
    """A run in which every host but one was struck while its second check ran."""

    lab: Lab
    records: dict[str, HostRecord]
    out: Path
    errors: list[Exception]


@pytest.fixture(scope="module")
def struck(namespaces: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Struck]:
    out = tmp_path_factory.mktemp("runs")
    errors: list[Exception] = []
    threads = []

    def strike(name: str) -> None:
        try:
            FAULTS[name](lab.nodes[name])
        except Exception as error:
            errors.append(error)

    def progress(event: VisitEvent) -> None:
        if event.text == "second" and event.host in FAULTS:
            threads.append(threading.Thread(target=strike, args=(event.host,)))
            threads[-1].start()

    with Lab(["good", *FAULTS]) as lab:
        expect = {name: {"second": {"hang": 600}} for name in FAULTS}
        records = visit_all(
            lab.hosts(),
            out / "first",
            expect={"good": {"second": {"hang": GOOD_HANG_S}}, **expect},
            progress=progress,
            deadlines=DEADLINES,
            lifeline_s=SILENCE_S,
        )
        for thread in threads:
            thread.join()
        yield Struck(lab, records, out, errors)


def test_the_faults_struck_and_the_good_host_noticed_nothing(struck: Struck) -> None:
    assert struck.errors == []
    record = struck.records["good"]
    assert record.state == "reported"
    assert record.report is not None
    assert [result.check for result in record.report.results] == ["first", "second"]
    assert record.duration_s > GOOD_HANG_S, "it was at work while the others were given up"


@pytest.mark.parametrize(
    ("name", "state", "reason"),
    [
        ("frozen", "partial", f"no sign of life for {SILENCE_S:g} s"),
        ("cut", "partial", f"no sign of life for {SILENCE_S:g} s"),
        ("killed", "partial", "connection broke"),
        ("garbled", "invalid", "cut off: it wrote more than 20000 lines"),
    ],
)
def test_a_visit_ends_with_the_reason_of_its_fault(
    struck: Struck, name: str, state: str, reason: str
) -> None:
    record = struck.records[name]
    assert (record.state, record.phase) == (state, "run")
    assert reason in record.reason.text
    if state == "partial":
        assert record.report is not None
        assert [result.check for result in record.report.results] == ["first"]


@pytest.mark.parametrize(
    ("name", "phase", "reason"),
    [
        ("frozen", "banner", "accepted the connection but sent no SSH banner within 2 s"),
        ("cut", "connect", "within 2 s"),
        ("killed", "connect", "Connection refused"),
    ],
)
def test_a_host_can_be_repaired(struck: Struck, name: str, phase: str, reason: str) -> None:
    node = struck.lab.nodes[name]
    hosts = [host for host in struck.lab.hosts() if host.name in (name, "good")]
    before = visit_all(hosts, struck.out / f"{name}-before")
    assert (before[name].state, before[name].phase) == ("unreachable", phase)
    assert reason in before[name].reason.text
    assert before["good"].state == "reported"
    REPAIRS[name](node)
    wait_until(lambda: listens(node.address), GONE_S)
    wait_until(lambda: not node.visitors(), GONE_S)
    assert visit_all(hosts, struck.out / f"{name}-after")[name].state == "reported"


def test_a_garbled_host_answers_garbage_to_the_next_visit_too(struck: Struck) -> None:
    hosts = [host for host in struck.lab.hosts() if host.name in ("garbled", "good")]
    records = visit_all(hosts, struck.out / "garbled")
    record = records["garbled"]
    assert (record.state, record.phase) == ("invalid", "run")
    assert "python3 ended without an answer of ours; last line: @hwcheck: {}" in record.reason.text
    assert records["good"].state == "reported"


def test_a_frozen_host_stands_still_until_it_is_thawed(namespaces: None) -> None:
    with Lab(["n1"]) as lab:
        node = lab.nodes["n1"]
        file = node.home / "count"
        node.run(["sh", "-c", f"while :; do echo >>{file}; sleep 0.01; done"])
        wait_until(lambda: file.exists() and file.stat().st_size > 3, 10)
        node.freeze()
        for pid in node.processes():
            assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        size = file.stat().st_size
        assert len(node.processes()) >= 3, "the control: there was something to freeze"
        node.thaw()
        wait_until(lambda: file.stat().st_size > size, 10)
