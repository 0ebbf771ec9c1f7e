"""The payload's side of the burn: start it, follow it, end it within a bound."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import Any, Optional, Tuple

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.load_run import GpuWork
from hwcheck.contract.reasons import NO_TORCH, NONE, NOT_MEASURED, Reason
from hwcheck.node import json_lines, torch_process
from hwcheck.node.collective.log import Log
from hwcheck.node.json_lines import Message
from hwcheck.node.load.spec import BurnSpec, clean_environment
from hwcheck.node.load.tally import Tally

BOOT = torch_process.BOOT % "hwcheck.node.load.launcher"
START_LIMIT_S = 60.0  # CUDA, buffers and copies of one GPU ...
TURN_LIMIT_S = 5.0  # ... and of each that copies over PCIe before it
SILENCE_LIMIT_S = 30.0  # a window takes about a second
END_LIMIT_S = 10.0  # beyond the workers' patience: the launcher kills, and says whom


class Burn:
    """A load on every GPU at once, in child processes.

    Start it in a thread that outlives it: the kernel ends the child when that thread does.
    """

    def __init__(self, spec: BurnSpec, python: str, payload: str) -> None:
        self.spec = spec
        self._python = python or sys.executable
        self._payload = payload
        self._tallies = [Tally(subject) for subject in spec.subjects]
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._reader: Optional[threading.Thread] = None
        self._log = Log()
        self._changed = threading.Condition()
        self._imported = False
        self._started = 0.0
        self._failure = NONE

    @property
    def backend(self) -> str:
        """``cuda``, or ``cpu`` for an exercise."""
        return self.spec.backend

    @property
    def library(self) -> str:
        """Torch's version and CUDA's, once started."""
        return next((tally.library for tally in self._tallies if tally.library), "")

    def start(self, import_limit_s: float = torch_process.IMPORT_LIMIT_S) -> None:
        """Return when every GPU works.

        Raises CouldNotMeasure when there is no torch, or one without CUDA for a node with GPUs,
        when a GPU cannot be started, or when it takes too long; nothing is left running then.
        """
        env = clean_environment(os.environ)
        process = torch_process.start(
            self._python, BOOT, self._payload, subprocess.PIPE, self._log.fd, env
        )
        self._process = process
        self._reader = threading.Thread(target=self._read, args=(process,), daemon=True)
        self._reader.start()
        _give(process, self.spec)
        wait_s = START_LIMIT_S + TURN_LIMIT_S * len(self._tallies)
        why = self._wait(lambda: self._imported, import_limit_s) or self._wait(
            lambda: all(tally.prepared for tally in self._tallies), wait_s
        )
        if why:
            self.stop()
            raise CouldNotMeasure.of(why)
        self._started = time.monotonic()

    def problem(self) -> str:
        """Return why the burn or a part of it ended early or hangs; empty while all is well."""
        with self._changed:
            return self._problem().text

    def give_up(self, why: Reason) -> None:
        """Let ``start``, under way in another thread, end the workers and raise ``why``."""
        with self._changed:
            self._failure = self._failure or why
            self._changed.notify_all()

    def stop(self) -> Tuple[GpuWork, ...]:
        """End the workers and return the work of every GPU.

        Takes a fraction of a second, and the spec's patience and some seconds where one hangs.
        """
        if self._process is not None:
            self._end(self._process)
        with self._changed:
            return tuple(tally.work() for tally in self._tallies)

    def __enter__(self) -> Burn:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert self._reader is not None
        process.stdin.close()
        if self._imported:  # before that there is no worker to wait for
            self._reader.join(self.spec.patience_s + END_LIMIT_S)
        process.kill()
        self._reader.join(torch_process.KILL_LIMIT_S)  # it reads to the end of what was said
        torch_process.end(process)
        with self._changed:
            for tally in self._tallies:
                if not tally.done:
                    tally.reason = (
                        tally.reason or self._failure.text or "did not end and was killed"
                    )
        self._process = None
        sys.stderr.write(self._log.read())

    def _wait(self, condition: Any, limit_s: float) -> Reason:
        """Wait until the condition holds; return why it does not."""
        end = time.monotonic() + limit_s
        with self._changed:
            while not condition():
                problem = self._problem()
                if problem:
                    return problem
                if not self._changed.wait(max(0.0, end - time.monotonic())):
                    return self._reason(self._late(limit_s))
        return NONE

    def _reason(self, text: str) -> Reason:
        return Reason(NOT_MEASURED if self._imported else NO_TORCH, text)

    def _late(self, limit_s: float) -> str:
        if not self._imported:
            return "%s gave no answer within %.0f s" % (self._python, limit_s)
        late = [tally for tally in self._tallies if not tally.prepared]
        words = ", ".join("%s (%s)" % (tally.subject, tally.doing) for tally in late)
        return "not ready within %.0f s: %s" % (limit_s, words)

    def _problem(self) -> Reason:
        if self._failure:
            return self._failure
        lines = ["%s: %s" % (each.subject, each.reason) for each in self._tallies if each.reason]
        for tally in self._tallies if self._started else ():
            silent_s = tally.silent_s(self._started)
            if silent_s > SILENCE_LIMIT_S:
                lines.append("%s gave no result for %.0f s" % (tally.subject, silent_s))
        return self._reason("; ".join(lines)) if lines else NONE

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for message in iter(json_lines.Reader(process.stdout.fileno()).next, None):
            with self._changed:
                self._take(message)
                self._changed.notify_all()
        code = process.wait()
        with self._changed:
            if not all(tally.done or tally.reason for tally in self._tallies):
                words = torch_process.death(code, self._python, self._log.tail())
                self._failure = self._failure or self._reason(words)
            self._changed.notify_all()

    def _take(self, message: Message) -> None:
        if message["kind"] == "ready":
            self._imported = True
        elif message["kind"] == "refused":
            self._failure = self._reason(message["reason"])
        else:
            self._tallies[message["worker"]].take(message)


def _give(process: subprocess.Popen[bytes], spec: BurnSpec) -> None:
    assert process.stdin is not None
    try:
        json_lines.write(process.stdin.fileno(), spec.to_dict())
    except BrokenPipeError:  # it died at once; how, is what the reader finds
        sys.stderr.write("the burn's orders could not be handed over\n")
