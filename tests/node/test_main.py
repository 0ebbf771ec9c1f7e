from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hwcheck.contract.check import Check, CouldNotMeasure, Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import Equal
from hwcheck.contract.wire import Deframer, Leg, Sample, to_dict
from hwcheck.node import load_lock
from hwcheck.node.main import Wire, run_check
from hwcheck.node.node import Node
from hwcheck.results.schema_check import schema_problem
from hwcheck.results.series import unpack
from hwcheck.testing.fake_node import FakeNode
from tests.node.payloads import ROOT, run_payload

IDLE = ("gpu_count", "driver", "power_cap", "temperature_idle", "pcie_link", "persistence_mode")
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
MINORS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")

PRINTS = """
from hwcheck import checks
from hwcheck.contract.check import Remedy, check
from hwcheck.contract.wire import Sample
@check(metrics=[], remedy=Remedy('c', 'f'), gpu=False)
def loud(node):
    '''Print.'''
    print('a library prints')
    yield Sample('m', 1)
    raise KeyError('unforeseen')
checks.load = lambda names: {'loud': loud}
""".strip()


@pytest.mark.parametrize("minor", MINORS)
def test_the_idle_checks_run_under_every_python(minor: str, tmp_path: Path) -> None:
    found = sorted(PYENV.glob(f"{minor}.*/bin/python"))
    if not found:
        pytest.skip(f"no Python {minor} below {PYENV}")
    answer = run_payload(IDLE, tmp_path / "empty", tmp_path, python=str(found[-1]))
    assert str(answer.report.facts["python"]).startswith(minor + ".")
    assert {name: result.state for name, result in answer.results.items()} == dict.fromkeys(
        IDLE, "not_applicable"
    )


HEAVY = (
    "email",
    "importlib.metadata",
    "multiprocessing",
    "pynvml",
    "socket",
    "subprocess",
    "torch",
)
"""What takes milliseconds to import: whoever needs it imports it, and most visits do not."""


def test_what_few_visits_need_is_not_imported_at_the_start() -> None:
    pushed = "import json, sys, hwcheck.checks, hwcheck.node.main"
    code = f"{pushed}; print(json.dumps(sorted(sys.modules)))"
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import sys; sys.path.append({str(ROOT)!r}); {code}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    imported = json.loads(done.stdout)
    assert "hwcheck.node.live" in imported
    assert not set(HEAVY) & set(imported)


def test_frames_come_in_order_and_hold_the_report_twice(tmp_path: Path) -> None:
    answer = run_payload(("driver", "gpu_count"), tmp_path / "empty", tmp_path)
    spoken = [frame for frame in answer.frames if frame["kind"] != "alive"]
    kinds = [frame["kind"] for frame in spoken]
    assert kinds == ["progress", "result", "progress", "result", "report"]
    assert [frame["text"] for frame in spoken if "text" in frame] == ["driver", "gpu_count"]
    results = [frame["result"] for frame in spoken if "result" in frame]
    assert results == spoken[-1]["report"]["results"]
    assert answer.noise == []
    assert answer.report.facts["hostname"] == os.uname().nodename


def test_what_prints_goes_to_the_log_and_a_crash_is_could_not_measure(tmp_path: Path) -> None:
    before = f"exec({PRINTS!r}); "
    answer = run_payload(("loud",), tmp_path / "empty", tmp_path, before=before)
    assert answer.noise == []
    assert "a library prints" in answer.log
    assert "Traceback" in answer.log
    result = answer.results["loud"]
    assert (result.state, result.samples) == ("could_not_measure", (Sample("m", 1),))
    assert result.reason.text == "the check crashed: KeyError('unforeseen')"


def test_frames_stay_whole_when_threads_write_at_once() -> None:
    reader, writer = os.pipe()
    wire = Wire(writer, "t")
    text = "x" * 20_000  # several times what a pipe takes in one piece

    def send() -> None:
        for _ in range(20):
            wire.send("progress", text=text)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    frames: list[dict[str, Any]] = []
    deframer = Deframer("t")
    try:
        while len(frames) < 80:
            got, noise = deframer.feed(os.read(reader, 1 << 16))
            assert noise == []
            frames += got
        for thread in threads:
            thread.join()
    finally:
        os.close(reader)
        os.close(writer)
    assert {frame["text"] for frame in frames} == {text}


def _check(function: Callable[[Node], Iterator[Any]], **options: Any) -> Check:
    function.__doc__ = "Say something."
    metrics = [Metric("m", "", "a value", (Equal(1, source="here"),))]
    return check(metrics=metrics, remedy=Remedy("c", "f"), **options)(function)


def test_samples_and_legs_are_kept_apart() -> None:
    leg = Leg("all_reduce", "default", "gloo", 2, "done")

    def both(node: Node) -> Iterator[Any]:
        yield Sample("m", 1)
        yield from node.legs("all_reduce")

    node = FakeNode({"legs": [{**to_dict(leg)}]})
    result = run_check(_check(both, gpu=False), node)
    assert (result.check, result.state, result.reason.text) == ("both", "done", "")
    assert (result.samples, result.legs) == ((Sample("m", 1),), (leg,))
    assert result.duration_s > 0


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (CouldNotMeasure("no sensor"), "could_not_measure", "no sensor"),
        (NotApplicable("no fabric"), "not_applicable", "no fabric"),
        (ValueError("x"), "could_not_measure", "the check crashed: ValueError('x')"),
        (CouldNotMeasure("long" * 1000), "could_not_measure", "long" * 125),
    ],
)
def test_what_became_of_a_check(error: Exception, state: str, reason: str) -> None:
    def half_way(node: Node) -> Iterator[Any]:
        yield Sample("m", 1)
        raise error

    result = run_check(_check(half_way, gpu=False), FakeNode({}))
    assert (result.state, result.reason.text) == (state, reason)
    assert result.samples == (Sample("m", 1),)


@pytest.mark.parametrize(
    ("says", "expect", "state"),
    [
        ({}, {}, "not_applicable"),
        ({}, {"gpus": 0}, "not_applicable"),
        ({}, {"gpus": 8}, "done"),
        ({"pci_gpus": ["0000:18:00.0"]}, {}, "done"),
    ],
)
def test_a_gpu_check_applies_where_a_gpu_is_or_should_be(
    says: dict[str, Any], expect: dict[str, Any], state: str
) -> None:
    def about_gpus(node: Node) -> Iterator[Any]:
        yield Sample("m", 1)

    result = run_check(_check(about_gpus), FakeNode(says, expect))
    assert result.state == state


def test_a_check_that_is_refused_the_node_found_it_busy() -> None:
    def refused(node: Node) -> Iterator[Any]:
        yield Sample("m", 1)
        raise load_lock.BusyError("process 7 uses gpu0")

    result = run_check(_check(refused, gpu=False), FakeNode({}))
    assert (result.state, result.reason.text) == ("busy", "process 7 uses gpu0")


EXERCISE = """
from hwcheck import checks; from hwcheck.node import load_lock
from hwcheck.contract.check import Remedy, check
from hwcheck.contract.wire import Sample
from hwcheck.node.load import run
load_lock.NAME = chr(0) + 'OUR_NAME'
run.EXERCISE = run.Times(0.0, 1.0, 0.5)
def made(name):
    def measure(node):
        yield Sample('products', sum(work.products for work in node.load().work))
    measure.__name__, measure.__doc__ = name, 'Load the node.'
    return check(metrics=[], remedy=Remedy('c', 'f'), gpu=False, load=True)(measure)
checks.load = lambda names: {name: made(name) for name in ('first', 'second')}
""".strip()


def test_one_load_serves_every_check_and_its_series_is_sent_once(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "root" / "proc").mkdir(parents=True)
    (tmp_path / "root" / "proc" / "meminfo").write_text("MemAvailable: 2000000 kB\n")
    name = f"hwcheck-test-load-{os.getpid()}"
    before = f"exec({EXERCISE.replace('OUR_NAME', name)!r}); "
    answer = run_payload(("first", "second"), tmp_path / "root", tmp_path, before=before)
    first, second = answer.results["first"], answer.results["second"]
    assert (first.state, second.state) == ("done", "done"), first.reason
    assert first.samples == second.samples
    assert first.samples[0].value > 0
    spoken = [
        frame["kind"] for frame in answer.frames if frame["kind"] not in ("alive", "progress")
    ]
    assert spoken == ["series", "result", "result", "report"]
    (series,) = [frame["series"] for frame in answer.frames if frame["kind"] == "series"]
    assert schema_problem(series, "series") == ""
    load = unpack(series).load
    assert load is not None
    assert (load.backend, load.exercise, load.series.columns) == ("cpu", True, {})
    assert 0.9 < load.load_end_s < 8
    assert load.cool_end_s > load.load_end_s
    assert any(frame.get("text", "").startswith("load: 0 of 1 s") for frame in answer.frames)


def test_two_payloads_do_not_load_one_node_at_once(tmp_path: Path) -> None:
    name = f"hwcheck-test-main-{os.getpid()}"
    before = f"exec({EXERCISE.replace('OUR_NAME', name)!r}); "
    (tmp_path / "root" / "proc").mkdir(parents=True)
    (tmp_path / "root" / "proc" / "meminfo").write_text("MemAvailable: 2000000 kB\n")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind("\0" + name)
        other.listen()
        answer = run_payload(("first", "second"), tmp_path / "root", tmp_path, before=before)
    for result in answer.results.values():
        assert (result.state, result.samples) == ("busy", ())
        assert result.reason.code == "at_work"
    assert not [frame for frame in answer.frames if frame["kind"] == "series"]
