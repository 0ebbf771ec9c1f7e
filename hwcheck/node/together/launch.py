"""The payload's side of the collectives: start the launcher, read its messages, keep its answers.

It is never waited for without end.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.collective_spec import CollectiveSpec, LegPlan, spec_of
from hwcheck.contract.nccl_diag import DiagnosticsRun
from hwcheck.contract.pairs_run import PairsRun
from hwcheck.contract.reasons import NO_TORCH, NONE, NOT_MEASURED, Reason
from hwcheck.contract.wire import Leg, Request
from hwcheck.node import json_lines, torch_process
from hwcheck.node.collective.hangs import Driver, nobody
from hwcheck.node.collective.log import VISIT_BYTES, Log
from hwcheck.node.json_lines import Message

BOOT = torch_process.BOOT % "hwcheck.node.together.launcher"
Came = Union[Leg, PairsRun, DiagnosticsRun]
"""What a run of the launcher yields."""
NO_PAIRS = Reason(NOT_MEASURED, "no pair of GPUs was asked to copy")
NO_DIAGNOSTICS = Reason(NOT_MEASURED, "NCCL was not asked for its diagnostics")
END_LIMIT_S = 60.0  # beyond a turn's wall clock: stacks, kill, ranks that take long to die


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
    driver: Driver = nobody,
    near_cpus: Tuple[str, ...] = (),
) -> Iterator[Came]:
    """Time every collective among the request's checks under every leg; see ``drive``."""
    spec = spec_of(request, gpus, memory_available_bytes, legs, near_cpus)
    python = request.torch_python or sys.executable
    if not request.nccl_tests_dir:
        yield from drive(spec, python, payload, progress, driver=driver)
        return
    from hwcheck.node.nccl_tests import engine  # here: most visits run no program of theirs

    if spec.pairs or spec.diagnostics:
        alone = replace(spec, collectives=())
        kinds = ((PairsRun, spec.pairs), (DiagnosticsRun, spec.diagnostics))
        missing = [kind for kind, asked in kinds if asked]
        try:
            for came in drive(alone, python, payload, progress, driver=driver):
                missing = [kind for kind in missing if not isinstance(came, kind)]
                yield came
        except CouldNotMeasure as error:  # nccl-tests need no torch
            for kind in missing:
                yield kind(reason=error.reason)
    of_legs = replace(spec, pairs=False, diagnostics=False)
    yield from engine.run_legs(of_legs, request.nccl_tests_dir, payload, progress, driver)


def drive(
    spec: CollectiveSpec,
    python: str,
    payload: str,
    progress: Callable[[str], None],
    import_limit_s: float = torch_process.IMPORT_LIMIT_S,
    driver: Driver = nobody,
) -> Iterator[Came]:
    """Time the collectives of ``spec`` under every leg; a leg comes when its last turn is over.

    With ``spec.pairs`` the copies between GPUs come first.

    ``payload`` is the folder that holds this package, ``python`` the interpreter that has
    torch; ``driver`` is asked after each leg that hung. Raises CouldNotMeasure when it has none, or
    when the launcher dies or stops answering.
    """
    with Log() as log:
        process = _start(python, payload, spec, log)
        try:
            yield from _legs(process, python, spec, progress, import_limit_s, driver)
            if process.wait(END_LIMIT_S):
                words = torch_process.death(process.returncode, python, log.tail())
                raise CouldNotMeasure(words, NO_TORCH)
        finally:
            torch_process.end(process)
            sys.stderr.write(log.read(most=VISIT_BYTES))


def _legs(
    process: subprocess.Popen[bytes],
    python: str,
    spec: CollectiveSpec,
    progress: Callable[[str], None],
    import_limit_s: float,
    driver: Driver,
) -> Iterator[Came]:
    clock = Clock(import_limit_s)
    for message in _messages(process, python, clock):
        kind = message["kind"]
        if kind == "refused":
            raise CouldNotMeasure(message["reason"], NO_TORCH)
        # Until the next word there is at most one turn, and that has its own wall clock.
        start_s = spec.start_s + spec.first_run_s(spec.max_bytes)
        turn_s = spec.budget_s + spec.grace_s + spec.silence_s(spec.max_bytes)
        clock.allow(start_s + turn_s + END_LIMIT_S)
        if kind == "progress":
            progress(message["text"])
        elif kind == "driver":
            _tell(process, {"problem": driver()})
        elif kind == "leg":
            yield Leg.from_dict(message["leg"])
        elif kind == "pairs":
            yield PairsRun.from_dict(message["pairs"])
        elif kind == "diagnostics":
            yield DiagnosticsRun.from_dict(message["diagnostics"])


def _start(python: str, payload: str, spec: CollectiveSpec, log: Log) -> subprocess.Popen[bytes]:
    process = torch_process.start(python, BOOT, payload, subprocess.PIPE, log.fd)
    _tell(process, spec.to_dict())
    return process


def _tell(process: subprocess.Popen[bytes], what: Mapping[str, Any]) -> None:
    """Write one line of JSON to the launcher."""
    assert process.stdin is not None
    try:
        json_lines.write(process.stdin.fileno(), what)
    except BrokenPipeError:  # how it died is what its messages' end brings out
        sys.stderr.write("the launcher is not there any more\n")


def _messages(process: subprocess.Popen[bytes], python: str, clock: Clock) -> Iterator[Message]:
    """Yield the launcher's messages until it ends."""
    assert process.stdout is not None
    messages = json_lines.Reader(process.stdout.fileno())
    while True:
        try:
            message = messages.next(clock.left_s())
        except TimeoutError:
            raise CouldNotMeasure(
                "%s, started for the ranks, gave no answer within %.0f s"
                % (python, clock.allowed_s),
                NO_TORCH,
            ) from None
        if message is None:
            return
        yield message


class Collectives:
    """Takes all of a run at once, and answers for one collective after another.

    ``started`` tells whether a leg or a copy was run at all.
    """

    def __init__(self) -> None:
        self.started = False
        self._legs: Dict[str, List[Leg]] = {}
        self._pairs: Optional[PairsRun] = None
        self._diagnostics: Optional[DiagnosticsRun] = None
        self._problem = NONE

    def take(self, run: Iterator[Came]) -> None:
        """Run to the end: what breaks is said to every collective that has asked."""
        try:
            for came in run:
                if isinstance(came, PairsRun):
                    self.started, self._pairs = True, came
                elif isinstance(came, DiagnosticsRun):
                    self.started = self.started or bool(came.report)
                    self._diagnostics = came
                else:
                    self.started = self.started or came.state != "not_run"
                    self._legs.setdefault(came.collective, []).append(came)
        except CouldNotMeasure as error:
            self._problem = error.reason

    def pairs(self) -> PairsRun:
        """Return the copies between the GPUs. Raises CouldNotMeasure where there were none."""
        if self._pairs is None:
            raise CouldNotMeasure.of(self._problem or NO_PAIRS)
        return self._pairs

    def diagnostics(self) -> DiagnosticsRun:
        """Return NCCL's own diagnostics. Raises CouldNotMeasure where it was not asked."""
        if self._diagnostics is None:
            raise CouldNotMeasure.of(self._problem or NO_DIAGNOSTICS)
        return self._diagnostics

    def legs(self, collective: str) -> Iterator[Leg]:
        """Yield the legs of one collective. Raises CouldNotMeasure after what there was."""
        yield from self._legs.get(collective, ())
        if self._problem:
            raise CouldNotMeasure.of(self._problem)
