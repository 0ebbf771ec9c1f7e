"""Ctrl-C: what was measured is judged; what is given up is one line and exit code 130."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hwcheck.cli.interrupts import Interrupts

HWCHECK = Path(sys.executable).parent / "hwcheck"
INTERRUPTED = (130, "hwcheck: interrupted\n")
pytestmark = pytest.mark.usefixtures("real_ansible")


def interrupt(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_stops_the_visits_and_the_second_ends_all(number: int) -> None:
    stop = threading.Event()
    before = signal.getsignal(number)
    with Interrupts(stop):
        interrupt(number)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            interrupt(number)
    assert signal.getsignal(number) == before


def test_after_the_visits_the_first_says_that_it_is_late(
    capfd: pytest.CaptureFixture[str],
) -> None:
    stop = threading.Event()
    with Interrupts(stop) as interrupts:
        interrupts.visits_over()
        interrupt()
        assert capfd.readouterr().err.startswith("hwcheck: no host is visited any more; a second")
        with pytest.raises(KeyboardInterrupt):
            interrupt()
    assert not stop.is_set()


def test_nohup_stays_in_force() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts(threading.Event()):
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@contextlib.contextmanager
def validating(folder: Path, hosts: str) -> Iterator["subprocess.Popen[str]"]:
    """Run validate until the file ``begun`` is there."""
    argv = [HWCHECK, "validate", "--hosts", hosts]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(argv, cwd=folder, text=True, start_new_session=True, **pipes) as process:
        try:
            end = time.monotonic() + 60
            while not (folder / "begun").exists():
                assert time.monotonic() < end
                assert process.poll() is None
                time.sleep(0.02)
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def script(path: Path) -> Path:
    path.write_text("#!/bin/sh\n: > begun\nexec sleep 600\n")
    path.chmod(0o755)
    return path


def test_while_the_inventory_is_read(tmp_path: Path) -> None:
    with validating(tmp_path, str(script(tmp_path / "dynamic"))) as process:
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == INTERRUPTED
    assert not (tmp_path / "runs").exists()


def test_a_second_one_gives_up_the_visits(tmp_path: Path) -> None:
    inventory = tmp_path / "slow.yml"
    python = script(tmp_path / "python")
    inventory.write_text(
        "all:\n  hosts:\n    slow:\n      ansible_connection: local\n"
        f"      ansible_python_interpreter: {python}\n"
    )
    with validating(tmp_path, str(inventory)) as process:
        process.send_signal(signal.SIGINT)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.01)
        _, err = process.communicate(timeout=30)
    assert process.returncode in (130, -signal.SIGINT), err
    assert "Traceback" not in err


def test_while_our_modules_are_imported(tmp_path: Path) -> None:
    (tmp_path / "fabric.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
    code += "from hwcheck.cli.program import main; main()"
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == INTERRUPTED
