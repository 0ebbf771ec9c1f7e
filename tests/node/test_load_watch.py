"""What the driver reports under load: in part, and in a whole visit over the stand-in for NVML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.facts import KernelLog, KernelMessage
from hwcheck.contract.reasons import NO_PERMISSION, NOT_MEASURED, Reason
from hwcheck.contract.wire import CheckResult, Value
from hwcheck.node.load_watch import LoadWatch, newer
from hwcheck.node.nvml.events import EventWatch
from hwcheck.testing.fake_node import FakeHost
from tests.lab import nvml
from tests.node.payloads import run_payload
from tests.node.roots import Root

ADDRESSES = ("0000:18:00.0", "0000:2a:00.0")
CHECKS = ("xid", "all_reduce", "faults_under_load")
OLD = "NVRM: Xid (PCI:0000:18:00): 43, pid=7, Ch 00000010"
NEW = "NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus."


def _messages(*texts: str) -> list[KernelMessage]:
    return [KernelMessage(text, float(age)) for age, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("before", "now", "new"),
    [
        ("", "", ""),
        ("ab", "ab", ""),
        ("ab", "abc", "c"),
        ("ab", "aba", "a"),  # the same once more
        ("abc", "bcd", "d"),  # the log lost its beginning
        ("", "ab", "ab"),
    ],
)
def test_messages_that_were_not_there_before(before: str, now: str, new: str) -> None:
    assert [message.text for message in newer(_messages(*before), _messages(*now))] == list(new)


class Log(FakeHost):
    """A host whose kernel log is read several times."""

    def __init__(self, *answers: KernelLog | CouldNotMeasure) -> None:
        super().__init__({})
        self.answers = list(answers)

    def kernel_log(self, words: Any) -> KernelLog:
        answer = self.answers.pop(0)
        if isinstance(answer, CouldNotMeasure):
            raise answer
        return answer


class Silent(EventWatch):
    """Events that cannot be listened to."""

    def __init__(self) -> None:
        self._kinds, self._problems = {}, [Reason(NOT_MEASURED, "no events")]


def test_a_log_that_cannot_be_read_is_a_problem_and_no_error() -> None:
    log = KernelLog(tuple(_messages(NEW)), complete=True, reach_s=100.0)
    for answers in (
        [CouldNotMeasure("not allowed", NO_PERMISSION)],
        [log, CouldNotMeasure("not allowed", NO_PERMISSION)],
    ):
        reported = LoadWatch(Log(*answers), Silent()).reported()
        assert reported == (
            (),
            Reason(NO_PERMISSION, "not allowed"),
            (),
            Reason(NOT_MEASURED, "no events"),
        )


# What happens while the legs run: the scenario and the kernel log are replaced.
DURING = """
import os
from hwcheck.node.together import launch
from hwcheck.contract.wire import Leg

def run_legs(*arguments):
    for new, name in %r:
        os.replace(new, name)
    for state in %r:
        yield Leg("all_reduce", state, "nccl", 2, state)

launch.run_legs = run_legs
"""


class Visit:
    """A node with two GPUs, on which something happens under load."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.root, self.folder, self.library = Root(folder / "root"), folder, library
        for address in ADDRESSES:
            self.root.device(address)
        self.root.write("proc/meminfo", "MemAvailable: 4 kB\n")
        self.root.write("proc/uptime", "100.00 1.00\n")

    def run(
        self,
        gpus: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {}),
        log: tuple[str, ...] | None = (OLD,),
        legs: tuple[str, ...] = ("done",),
        common: Mapping[str, Any] | None = None,
    ) -> CheckResult:
        """Return what faults_under_load says where NVML and the log (or none) become this."""
        common = {"event_types": ["xid", "double_bit_ecc"], **(common or {})}
        whole = {"temperature_c": 30, "processes": [], **common}
        scenario = self.folder / "scenario"
        for name, own in ((scenario, ({}, {})), (self.folder / "after", gpus)):
            placed = [{"pci_address": a, **gpu} for a, gpu in zip(ADDRESSES, own, strict=True)]
            nvml.write(name, {"gpu": whole, "gpus": placed})
        moves = [(str(self.folder / "after"), str(scenario))]
        if log is not None:
            self._log("dev/kmsg", (OLD,))
            self._log("after", log)
            moves.append((str(self.root.path / "after"), str(self.root.path / "dev/kmsg")))
        answer = run_payload(
            CHECKS,
            self.root.path,
            self.folder,
            library=self.library,
            deviation=str(scenario),
            before=DURING % (moves, legs),
        )
        return answer.results["faults_under_load"]

    def _log(self, path: str, texts: tuple[str, ...]) -> None:
        lines = ["6,0,1000000,-;Linux version 6.1.0"]
        lines += [f"3,{n},{n}000000,-;{text}" for n, text in enumerate(texts, 1)]
        self.root.write(path, "\n".join(lines) + "\n")


@pytest.fixture
def visit(tmp_path: Path, fake_nvml: Path) -> Visit:
    """Return a node on which nothing has happened yet."""
    return Visit(tmp_path, fake_nvml / "new")


def _values(result: CheckResult) -> dict[str, Value]:
    return {f"{sample.metric} {sample.subject}": sample.value for sample in result.samples}


QUIET = {
    "fault_events node": 0,
    "watch_events node": 0,
    "application_events node": 0,
    "heard_from node": "kernel log, NVML events",
    "gpu_answer_after_load gpu0": "ok",
    "gpu_answer_after_load gpu1": "ok",
}


def test_what_was_in_the_log_before_is_not_of_the_load(visit: Visit) -> None:
    result = visit.run()
    assert (result.state, result.reason.text) == ("done", "")
    assert _values(result) == QUIET


def test_an_xid_under_load_is_seen_once_in_log_and_events(visit: Visit) -> None:
    events = {"events": [{"type": "xid", "data": 79}]}
    values = _values(visit.run((events, {}), (OLD, NEW)))
    assert values["fault_events pci 0000:18:00.0 xid 79"] == 1
    assert "fault_events node" not in values


def test_without_the_log_nvml_is_enough(visit: Visit) -> None:
    events = {"events": [{"type": "xid", "data": 79}, {"type": "double_bit_ecc"}]}
    result = visit.run(({}, events), log=None)
    values = _values(result)
    assert result.state == "done"
    assert values["fault_events pci 0000:2a:00.0 xid 79"] == 1
    assert values["fault_events pci 0000:2a:00.0 double_bit_ecc"] == 1
    assert values["heard_from node"] == "NVML events"


def test_without_log_and_events_nothing_was_heard(visit: Visit) -> None:
    result = visit.run(log=None, common={"event_types": None})
    assert result.state == "could_not_measure"
    assert "kernel log cannot be read" in result.reason.text
    assert "gpu1: events: Not Supported" in result.reason.text
    assert set(_values(result)) == {"gpu_answer_after_load gpu0", "gpu_answer_after_load gpu1"}


def test_a_gpu_that_the_load_lost_does_not_answer(visit: Visit) -> None:
    values = _values(visit.run(({}, {"lost": "opened"})))
    assert values["gpu_answer_after_load gpu0"] == "ok"
    assert "GPU is lost" in str(values["gpu_answer_after_load gpu1"])


@pytest.mark.parametrize("legs", [(), ("not_run",)])
def test_where_no_leg_ran_there_is_nothing_to_look_back_on(
    visit: Visit, legs: tuple[str, ...]
) -> None:
    result = visit.run((({"events": [{"type": "xid", "data": 79}]}), {}), (OLD, NEW), legs)
    assert (result.state, result.samples) == ("not_applicable", ())
    assert result.reason.text == "nothing loaded the GPUs in this visit"
