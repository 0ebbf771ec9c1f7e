"""The whole path: payload process, launcher, workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

import hwcheck
from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.load_run import GpuWork
from hwcheck.contract.reasons import GPU_LOST, Reason
from hwcheck.node import torch_process
from hwcheck.node.load import launch
from hwcheck.node.load.launch import Burn
from hwcheck.node.load.spec import BurnSpec, Target
from hwcheck.node.torch_runtime import torch
from tests.node import forked_torch
from tests.node.load import faulty_burn
from tests.node.processes import alive, gone

PAYLOAD = str(Path(hwcheck.__file__).parent.parent)
ON_CPU = BurnSpec((), 60.0)

Make = Callable[..., Burn]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Burns on the CPU, one worker for each fault; ended after the test."""
    forked_torch.prepare()
    monkeypatch.setattr(torch_process, "start", forked_torch.start)
    monkeypatch.setattr(launch, "BOOT", faulty_burn.boot())
    made: list[Burn] = []

    def burn(*faults: str, seconds: float = 60.0, patience_s: float = 10.0) -> Burn:
        gpus = tuple(Target(f"gpu{index}", fault) for index, fault in enumerate(faults))
        made.append(Burn(BurnSpec(gpus, seconds, patience_s=patience_s), "", PAYLOAD))
        return made[-1]

    yield burn
    for each in made:
        each.stop()


def until(condition: Callable[[], object], patience_s: float = 20.0) -> bool:
    end = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def products(burn: Burn) -> list[int]:
    return [tally.work().products for tally in burn._tallies]


def test_the_exercise(capfd: pytest.CaptureFixture[str]) -> None:
    burn = Burn(ON_CPU, "", PAYLOAD)
    burn.start()
    assert burn._process is not None
    pid = burn._process.pid
    (worker,) = children(pid)
    nice = int(Path(f"/proc/{worker}/stat").read_text().rsplit(")")[1].split()[16])
    assert nice == min(19, os.nice(0) + ON_CPU.nice)
    assert until(lambda: products(burn)[0] > 0)
    assert (burn.backend, burn.problem()) == ("cpu", "")
    assert burn.library.startswith("torch ")
    started = time.monotonic()
    (work,) = burn.stop()
    assert time.monotonic() - started < 8
    assert (work.subject, work.dtype, work.size, work.reason) == ("cpu", "fp32", 512, "")
    assert work.products > 0
    assert work.wrong_products == 0
    for figure in (work.tflops, work.copy_gbps, work.to_device_gbps, work.from_device_gbps):
        assert figure is not None
        assert 1e-4 < figure < 1e4
    assert gone(pid)
    assert gone(worker)
    assert burn.stop() == (work,)
    assert "Traceback" not in capfd.readouterr().err


def test_a_corrupting_gpu_is_told_from_its_healthy_peers(make: Make) -> None:
    burn = make("", "flip", "first")
    burn.start()
    assert until(lambda: min(products(burn)) > 0)
    assert burn.problem() == ""
    healthy, flipping, first = burn.stop()
    assert healthy.wrong_products == 0 < healthy.products
    assert flipping.wrong_products > 0
    assert healthy.digest == flipping.digest != first.digest
    assert [each.reason for each in (healthy, flipping, first)] == [""] * 3


def test_a_worker_that_hangs_is_killed_within_a_bound_and_named(make: Make) -> None:
    burn = make("", "hang", patience_s=3.0)
    burn.start()
    assert burn._process is not None
    workers = children(burn._process.pid)
    assert until(lambda: products(burn)[0] > 0)
    started = time.monotonic()
    healthy, hung = burn.stop()
    assert time.monotonic() - started < 12
    assert healthy.reason == ""
    wanted = f"process {workers[1]} did not end within 3 s and was killed, while multiplying"
    assert hung.reason == wanted
    assert hung.tflops is None
    assert not any(alive(pid) for pid in workers)


def test_a_worker_that_is_silent_is_a_problem(monkeypatch: pytest.MonkeyPatch, make: Make) -> None:
    burn = make("rest", "hang", patience_s=0.5)
    burn.start()
    monkeypatch.setattr(launch, "SILENCE_LIMIT_S", 4.0)
    assert until(burn.problem)
    assert burn.problem().startswith("gpu1 gave no result for ")
    assert ";" not in burn.problem()


def test_a_worker_that_crashes_is_a_problem_and_the_others_go_on(make: Make) -> None:
    burn = make("crash", "")
    burn.start()
    assert until(burn.problem)
    assert burn.problem().startswith("gpu0: process ")
    assert burn.problem().endswith(" was killed by SIGSEGV, while multiplying")
    assert until(lambda: products(burn)[1] > 0)
    crashed, healthy = burn.stop()
    assert crashed.reason.endswith("was killed by SIGSEGV, while multiplying")
    assert (healthy.reason, healthy.wrong_products) == ("", 0)


def test_a_gpu_that_cannot_be_started_is_named_and_nothing_goes_on(make: Make) -> None:
    before = children(os.getpid())
    burn = make("", "raise", patience_s=2.0)
    wanted = "^gpu1: RuntimeError: CUDA out of memory. Tried to allocate 1 GiB$"
    with pytest.raises(CouldNotMeasure, match=wanted):
        burn.start()
    assert burn._process is None
    assert children(os.getpid()) == before


def test_the_launcher_that_dies_is_a_problem(make: Make) -> None:
    burn = make("")
    burn.start()
    assert burn._process is not None
    (worker,) = children(burn._process.pid)
    burn._process.kill()
    assert until(burn.problem)
    assert "was killed by signal 9" in burn.problem()
    (work,) = burn.stop()
    assert "was killed by signal 9" in work.reason
    assert gone(worker)


def test_it_ends_by_itself_after_its_seconds(make: Make) -> None:
    burn = make("", seconds=0.3)
    with burn:
        assert until(lambda: burn._tallies[0].done)
        assert burn.problem() == ""
    (work,) = burn.stop()
    assert (work.reason, work.products > 0) == ("", True)


def test_nothing_is_left_of_a_payload_that_was_killed() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from hwcheck.node.load.launch import Burn\n"
        "from hwcheck.node.load.spec import BurnSpec\n"
        "burn = Burn(BurnSpec((), 600.0), '', sys.argv[1])\n"
        "burn.start()\n"
        "print(burn._process.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, PAYLOAD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        launcher = int(process.stdout.readline())
        (worker,) = children(launcher)
        process.send_signal(signal.SIGKILL)
    assert gone(launcher)
    assert gone(worker)


def test_gpus_need_a_torch_with_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    if torch.version.cuda is not None:
        pytest.skip("this torch has CUDA")
    forked_torch.prepare()
    monkeypatch.setattr(torch_process, "start", forked_torch.start)
    burn = Burn(BurnSpec((Target("gpu0", "GPU-a"),), 1.0), "", PAYLOAD)
    with pytest.raises(CouldNotMeasure, match=r"^torch .* has no CUDA under .*: set hwcheck_torch"):
        burn.start()


def test_an_import_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import threading; threading.Event().wait()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    started = time.monotonic()
    with pytest.raises(CouldNotMeasure, match="gave no answer within 1 s"):
        Burn(ON_CPU, "", PAYLOAD).start(import_limit_s=1.0)
    assert time.monotonic() - started < 8


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("echo no such dream >&2; exit 3", "exited with code 3: no such dream"),
        (f'exec "{sys.executable}" -S "$@"', "^no torch under .*: set hwcheck_torch_python to"),
    ],
)
def test_an_interpreter_that_does_not_serve_is_explained(
    tmp_path: Path, line: str, wanted: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{line}\n")
    python.chmod(0o755)
    with pytest.raises(CouldNotMeasure, match=wanted):
        Burn(ON_CPU, str(python), PAYLOAD).start()


def test_a_gpu_that_takes_too_long_is_named(monkeypatch: pytest.MonkeyPatch, make: Make) -> None:
    monkeypatch.setattr(launch, "START_LIMIT_S", 0.0)
    monkeypatch.setattr(launch, "TURN_LIMIT_S", 0.0)
    with pytest.raises(CouldNotMeasure, match=r"^not ready within 0 s: gpu0 \(\w+"):
        make("", patience_s=5.0).start()


def test_a_burn_that_never_started_has_done_nothing() -> None:
    assert Burn(ON_CPU, "", PAYLOAD).stop() == (GpuWork("cpu", "", 0, 0),)


def test_a_start_that_is_given_up_says_why_and_leaves_nothing(make: Make) -> None:
    before = children(os.getpid())
    burn = make("stuck", patience_s=0.5)
    why = Reason(GPU_LOST, "the load was stopped: gpu0 is lost")
    giver = threading.Timer(0.3, burn.give_up, (why,))
    giver.start()
    with pytest.raises(CouldNotMeasure) as raised:
        burn.start()
    assert raised.value.reason == why
    giver.join()
    assert children(os.getpid()) == before
