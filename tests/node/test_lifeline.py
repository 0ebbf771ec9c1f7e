from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.processes import gone

ROOT = str(Path(__file__).parents[2])
SILENCE_S = 0.6

# A payload: leader of its session, with one child in its group, one in a session of its own, and
# what a wrapper left behind that put it into a session of its own and ended.
PAYLOAD = """
import os, signal, sys
from hwcheck.node import descendants, lifeline
os.setsid()
descendants.adopt()
lifeline.ALIVE_EVERY_S = 0.05
pids = []
for apart in range(3):
    ready, says = os.pipe()
    if os.fork() == 0:
        if apart:
            os.setsid()
        if apart == 2 and os.fork():
            os._exit(0)
        os.close(1)
        os.write(says, b"%d" % os.getpid())
        while True:
            signal.pause()
    pids.append(int(os.read(ready, 20)))
print(*pids, flush=True)
lifeline.start(0, float(sys.argv[1]), lambda: (os.write(1, b"alive\\n"), None)[1])
while True:
    signal.pause()
"""


class Payload:
    def __init__(self, silence_s: float) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PAYLOAD, str(silence_s)],
            env={**os.environ, "PYTHONPATH": ROOT},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        assert self.process.stdin
        assert self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.children = [int(pid) for pid in self.stdout.readline().split()]

    def ended(self) -> str:
        """Wait until it and its children are gone; return what it wrote to stderr."""
        self.process.wait(20)
        assert self.process.returncode == -signal.SIGKILL
        assert all(gone(pid) for pid in self.children)
        assert self.process.stderr
        return self.process.stderr.read().decode()


@pytest.fixture
def payload(request: pytest.FixtureRequest) -> Iterator[Payload]:
    started = Payload(request.param)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            os.killpg(started.process.pid, signal.SIGKILL)
        started.process.wait()
        for stream in (started.stdin, started.stdout, started.process.stderr):
            assert stream
            stream.close()


@pytest.mark.parametrize("payload", [60.0], indirect=True)
def test_it_dies_with_all_its_own_when_the_controller_closes(payload: Payload) -> None:
    payload.stdin.close()
    assert "the controller closed the connection" in payload.ended()


@pytest.mark.parametrize("payload", [60.0], indirect=True)
def test_it_dies_when_nobody_reads_it(payload: Payload) -> None:
    payload.stdout.close()
    assert "the controller stopped reading" in payload.ended()


@pytest.mark.parametrize("payload", [SILENCE_S], indirect=True)
def test_heartbeats_keep_it_alive_and_silence_ends_it(payload: Payload) -> None:
    started = beat = time.monotonic()
    while time.monotonic() - started < 4 * SILENCE_S:
        assert payload.stdout.readline() == b"alive\n"
        if time.monotonic() - beat > SILENCE_S / 6:
            payload.stdin.write(b"\n")
            beat = time.monotonic()
    assert payload.process.poll() is None
    payload.stdin.write(b"\n")
    assert "nothing from the controller" in payload.ended()
