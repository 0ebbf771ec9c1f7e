"""A program with a wall clock."""

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hwcheck.node import descendants
from hwcheck.node.collective.ranks import wait_until
from hwcheck.node.nccl_tests import process
from hwcheck.node.nccl_tests.process import run, within

PAYLOAD = str(Path(__file__).parents[3])


def shell(script, limit_s=20.0, goes_on=None):
    return run(["/bin/sh", "-c", script], dict(os.environ), PAYLOAD, within(limit_s), goes_on)


def test_output_and_code_of_a_program_that_ends():
    ended = shell("echo out; echo err >&2; exit 3")
    assert (ended.code, ended.why, ended.stuck) == (3, "", False)
    assert ended.output == "out\nerr\n"


def test_a_signal_is_a_negative_code():
    assert shell("kill -SEGV $$").code == -signal.SIGSEGV


def test_a_program_that_cannot_be_started_says_why():
    ended = run(["/nonexistent/x"], {}, PAYLOAD, within(20.0))
    assert ended.code == 1
    assert "/nonexistent/x cannot be started: No such file" in ended.output


def test_the_clock_ends_a_program_that_does_not():
    ended = shell("echo before; exec tail -f /dev/null", limit_s=1.0)
    assert (ended.why, ended.output) == ("time", "before\n")
    assert 1.0 <= ended.duration_s < 10


def test_the_clock_ends_one_that_closed_its_output():
    ended = shell("exec >/dev/null 2>&1; exec tail -f /dev/null", limit_s=1.0)
    assert ended.why == "time"


def test_what_a_program_leaves_running_is_ended_with_it(tmp_path):
    note = tmp_path / "pid"
    ended = shell(f"tail -f /dev/null >/dev/null 2>&1 & echo $! > {note}")
    assert (ended.code, ended.why) == (0, "")
    stat = Path("/proc", note.read_text().strip(), "stat")
    assert wait_until(lambda: not stat.exists() or ") Z " in stat.read_text(), 5)


def test_whoever_watches_the_lines_can_end_it():
    seen = []

    def goes_on(line):
        seen.append(line)
        return len(seen) < 2

    ended = shell("echo 1; echo 2; exec tail -f /dev/null", goes_on=goes_on)
    assert (ended.why, seen) == ("stopped", ["1", "2"])


def test_a_flood_is_cut_off(monkeypatch):
    monkeypatch.setattr(process, "MOST_BYTES", 1 << 20)
    ended = shell("yes")
    assert ended.why == "output"
    assert len(ended.output) <= 1 << 20


def test_bytes_that_are_no_text_do_not_stop_it():
    ended = run(
        [sys.executable, "-c", "import os; os.write(1, b'\\xff\\0\\n')"], {}, PAYLOAD, within(20.0)
    )
    assert ended.output == "\ufffd\0\n"


def test_the_end_may_move_while_a_program_runs(tmp_path):
    go, start = tmp_path / "go", time.monotonic()

    def until():
        if time.monotonic() > start + 0.5:
            go.touch()
        return time.monotonic() + 30.0

    script = f"exec 2>&1; until [ -e {go} ]; do echo wait; done; echo end"
    ended = run(["/bin/sh", "-c", script], dict(os.environ), PAYLOAD, until)
    assert (ended.code, ended.why) == (0, "")
    assert ended.output.endswith("end\n")
    assert ended.duration_s > 0.5


@pytest.mark.parametrize("ends_at_term", [True, False])
def test_who_has_a_daemon_work_for_it_may_stop_that_before_it_is_killed(tmp_path, ends_at_term):
    note, ready = tmp_path / "note", tmp_path / "ready"
    script = f"trap 'echo stopped >{note}; exit 1' TERM; touch {ready}; while :; do :; done"

    def until():
        return 0.0 if ready.exists() else math.inf

    ended = run(["/bin/bash", "-c", script], {}, PAYLOAD, until, ends_at_term=ends_at_term)
    assert ended.why == "time"
    assert note.exists() == ends_at_term  # False: the negative control


@pytest.mark.parametrize("ends_at_term", [True, False])
def test_it_may_do_so_when_the_payload_is_killed_as_well(tmp_path, ends_at_term):
    note, ready = tmp_path / "note", tmp_path / "ready"
    script = f"trap 'echo stopped >{note}; exit 1' TERM; touch {ready}; while :; do :; done"
    code = (
        "import sys; from hwcheck.node.nccl_tests.process import run, within; "
        f"run(['/bin/bash', '-c', {script!r}], {{}}, {PAYLOAD!r}, within(60), "
        f"ends_at_term={ends_at_term})"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=PAYLOAD) as payload:
        assert wait_until(ready.exists, 20)
        below = descendants.of(payload.pid)
        payload.kill()
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below), 10)
    assert note.exists() == ends_at_term
