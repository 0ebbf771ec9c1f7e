"""The payload's side: start the launcher, read its messages, never wait for it without end."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Dict, Iterator, Tuple

from hwcheck.node import torch_process
from hwcheck.node.check import CouldNotMeasure
from hwcheck.node.collective.log import Log
from hwcheck.node.collective.spec import LegPlan, Spec, plan
from hwcheck.wire import Leg, Request

BOOT = torch_process.BOOT % "hwcheck.node.collective.launcher"
END_LIMIT_S = 40.0  # beyond a turn's wall clock: stacks, kill, ranks that do not die


class Clock:
    """How long the launcher may take for what it does now."""

    def __init__(self, allowed_s: float) -> None:
        self.allow(allowed_s)

    def allow(self, allowed_s: float) -> None:
        """Start again with so many seconds."""
        self.allowed_s = allowed_s
        self._end = time.monotonic() + allowed_s

    def left_s(self) -> float:
        """Return the seconds left, 0 when there are none."""
        return max(0.0, self._end - time.monotonic())


def run_legs(
    request: Request,
    payload: str,
    gpus: int,
    memory_available_bytes: int,
    progress: Callable[[str], None],
    legs: Tuple[LegPlan, ...],
) -> Iterator[Leg]:
    """Time every collective among the request's checks under every leg; see ``drive``."""
    spec = plan(request, gpus, memory_available_bytes, legs)
    if request.nccl_tests_dir:
        from hwcheck.node.nccl_tests import engine  # here: most visits run no program of theirs

        return engine.run_legs(spec, request.nccl_tests_dir, payload, progress)
    return drive(spec, request.torch_python or sys.executable, payload, progress)


def drive(
    spec: Spec,
    python: str,
    payload: str,
    progress: Callable[[str], None],
    import_limit_s: float = torch_process.IMPORT_LIMIT_S,
) -> Iterator[Leg]:
    """Time the collectives of ``spec`` under every leg; a leg comes when its last turn is over.

    ``payload`` is the zip or folder that holds this package, ``python`` the interpreter that has
    torch. Raises CouldNotMeasure when it has none, or when the launcher dies or stops answering.
    """
    with Log() as log:
        process = _start(python, payload, spec, log)
        try:
            yield from _legs(process, python, spec, progress, import_limit_s)
            if process.wait(END_LIMIT_S):
                raise CouldNotMeasure(torch_process.death(process.returncode, python, log.tail()))
        finally:
            torch_process.end(process)
            sys.stderr.write(log.read())


def _legs(
    process: subprocess.Popen[bytes],
    python: str,
    spec: Spec,
    progress: Callable[[str], None],
    import_limit_s: float,
) -> Iterator[Leg]:
    clock = Clock(import_limit_s)
    for message in _messages(process, python, clock):
        kind = message["kind"]
        if kind == "refused":
            raise CouldNotMeasure(message["reason"])
        # Until the next word there is at most one turn, and that has its own wall clock.
        clock.allow(spec.budget_s + spec.grace_s + END_LIMIT_S)
        if kind == "progress":
            progress(message["text"])
        elif kind == "leg":
            yield Leg.from_dict(message["leg"])


def _start(python: str, payload: str, spec: Spec, log: Log) -> subprocess.Popen[bytes]:
    with tempfile.TemporaryFile() as orders:
        orders.write(spec.to_json().encode("ascii"))
        orders.seek(0)
        return torch_process.start(python, BOOT, payload, orders, log.fd)


def _messages(
    process: subprocess.Popen[bytes], python: str, clock: Clock
) -> Iterator[Dict[str, Any]]:
    """Yield the launcher's messages until it ends."""
    assert process.stdout is not None
    fd, rest = process.stdout.fileno(), b""
    while True:
        if not select.select([fd], [], [], clock.left_s())[0]:
            raise CouldNotMeasure(
                "%s, started for the ranks, gave no answer within %.0f s"
                % (python, clock.allowed_s)
            )
        data = os.read(fd, 65536)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield json.loads(line)
