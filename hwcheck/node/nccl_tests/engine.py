"""The collectives timed by nccl-tests' own programs, with the records of our engine.

Flags and exit codes: NVIDIA/nccl-tests, README.md and src/common.cu. What decides is the table: a
program of that name may end with 0 and have measured nothing.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import replace
from functools import cached_property
from typing import Callable, Iterator, List, Optional, Tuple

from hwcheck.node.check import CouldNotMeasure
from hwcheck.node.collective import nccl_info, proof
from hwcheck.node.collective.hangs import Driver, Hangs, nobody
from hwcheck.node.collective.log import last_lines
from hwcheck.node.collective.schedule import take_turns
from hwcheck.node.collective.spec import NOISE, CollectiveSpec, LegPlan, rank_environment, size_text
from hwcheck.node.nccl_tests import json_form, process, text
from hwcheck.node.nccl_tests.outcome import outcome, together
from hwcheck.node.nccl_tests.process import Ended
from hwcheck.node.nccl_tests.records import Table
from hwcheck.node.wire import Leg

HELP_S = 20.0
MEASURED_BY = "measured by nccl-tests%s (%s): means, out of place; the spread is to in place"
REPEAT_TIMES = 3.0  # as long as the last turn may the next one take before it is cut short
FLOOR_BYTES_PER_S = 0.5e9  # no way between two GPUs of a node that works is slower

Progress = Callable[[str], None]


class NcclTestsProgram:
    """One program of nccl-tests on this node; ``lack`` says why it cannot be run."""

    def __init__(
        self,
        folder: str,
        collective: str,
        payload: str,
        spec: CollectiveSpec,
        progress: Progress,
        hangs: Hangs,
    ) -> None:
        self._collective = collective
        self._path = os.path.join(folder, collective + "_perf")
        self._payload = payload
        self._spec = spec
        self._progress = progress
        self._hangs = hangs
        self.lack = ""
        if not os.path.isfile(self._path) or not os.access(self._path, os.X_OK):
            self.lack = (
                "%s is no program on this node: build nccl-tests there, or have "
                "hwcheck_nccl_tests_dir name the folder that has it" % self._path
            )

    @cached_property
    def _writes_json(self) -> bool:
        env = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        return "-J" in process.run([self._path, "-h"], env, self._payload, HELP_S).output

    def refused(self, plan: LegPlan, reason: str) -> Leg:
        """Return the record of a leg that has no turn."""
        spec = self._spec
        return Leg(
            self._collective,
            plan.name,
            spec.backend,
            spec.ranks,
            "not_run",
            reason,
            env=plan.env,
            dtype=spec.dtype,
        )

    def time(self, plan: LegPlan, budget_s: float, largest: int) -> Tuple[Leg, bool]:
        """Time one leg once; return its record, and whether it was stopped for lack of time.

        After ``budget_s`` it takes no larger size, ``spec.grace_s`` later it dies. Its first size,
        with the warm-ups of all before it, may take as long as the floor of bandwidth allows.
        ``largest`` is the largest size in bytes.
        """
        spec = self._spec
        name = "%s %s" % (self._collective, plan.name)
        env = rank_environment(spec, plan, 0, os.environ)
        with tempfile.TemporaryDirectory(prefix="hwcheck-") as folder:
            report = os.path.join(folder, "report.json")
            command = [self._path, *self._options(largest, report)]
            first_bytes = largest * spec.warmups + spec.min_bytes * (spec.iterations + 2)
            limit_s = max(budget_s, 2 * first_bytes / FLOOR_BYTES_PER_S) + spec.grace_s
            pace = _Pace(name, budget_s, spec.step_factor, largest, self._progress)
            ended = process.run(
                command, env, self._payload, limit_s, pace.goes_on, lambda: pace.awaited
            )
            table = _table(ended.output, report)
        sys.stderr.write("-- log of leg %s, %s\n%s\n" % (plan.name, self._path, ended.output))
        sys.stderr.flush()
        return self._record(self.refused(plan, ""), plan, ended, table), ended.why == "told"

    def requested_bytes(self, size_bytes: int) -> int:
        """Return the size that the program rounded down to whole chunks for this one, in bytes."""
        requested = self._spec.min_bytes
        while requested < size_bytes:
            requested *= self._spec.step_factor
        return requested

    def _options(self, largest: int, report: str) -> List[str]:
        spec = self._spec
        options = {
            "-b": spec.min_bytes,
            "-e": largest,
            "-f": spec.step_factor,
            "-g": spec.ranks,
            "-c": 1,
            "-n": spec.iterations,
            "-w": spec.warmups,
            "-d": spec.dtype,
        }
        flags = [word for flag, value in options.items() for word in (flag, str(value))]
        return flags + (["-J", report] if self._writes_json else [])

    def _record(self, leg: Leg, plan: LegPlan, ended: Ended, table: Table) -> Leg:
        result = outcome(self._collective, self._spec, ended, table)
        info = nccl_info.read(ended.output)
        state, reason = result.state, result.reason
        if state == "done" and self._spec.ranks > 1:
            problem = proof.problem(plan, info)
            state, reason = ("not_engaged", problem) if problem else (state, reason)
        library = info.version or table.library
        hung = state == "hang"
        return replace(
            leg,
            state=state,
            reason=reason,
            library="NCCL " + library if library else "",
            sizes=result.sizes,
            notes=(self._measured_by(table), *result.notes, *proof.notes(plan, info)),
            log_tail="" if state == "done" else last_lines(ended.output),
            duration_s=ended.duration_s,
            transport=proof.facts(info),
            driver=self._hangs.add(self._collective, plan.name) if hung else "",
        )

    def _measured_by(self, table: Table) -> str:
        version = " " + table.tests_version if table.tests_version else ""
        return MEASURED_BY % (version, self._path)


class ProgramLeg:
    """A ``schedule.TimedLeg`` that a program of nccl-tests times, one run of it for each turn."""

    def __init__(self, program: NcclTestsProgram, plan: LegPlan) -> None:
        self.plan = plan
        self.largest = 0
        self.complete = False
        self.compared: Tuple[int, ...] = ()
        self._program = program
        self._turns: List[Leg] = []
        refusal = plan.absent or program.lack
        if refusal:
            self.refuse(refusal)

    @property
    def state(self) -> str:
        return self._turns[-1].state if self._turns else ""

    def refuse(self, reason: str) -> None:
        self._turns = [self._program.refused(self.plan, reason)]

    def first(self, share_s: float, max_bytes: int, max_bytes_reason: str) -> float:
        turn, stopped = self._program.time(self.plan, share_s, max_bytes)
        if max_bytes_reason:
            turn = replace(turn, notes=(*turn.notes, max_bytes_reason))
        self._turns.append(turn)
        self.complete = not stopped
        reached = max((size.size_bytes for size in turn.sizes), default=0)
        self.largest = self._program.requested_bytes(reached) if stopped else max_bytes
        return turn.duration_s

    def repeat(self) -> None:
        # Every size is timed again: the program knows no other way.
        budget_s = REPEAT_TIMES * self.repeat_s()
        self._turns.append(self._program.time(self.plan, budget_s, self.largest)[0])

    def repeat_s(self) -> float:
        return self._turns[-1].duration_s

    def leg(self) -> Leg:
        """Return what the turns came to."""
        return together(self._turns)


class _Pace:
    """Ends a leg before a size that does not fit in its time; tells of every row.

    Until ``awaited`` the next row may take twice as long as it should. ``largest`` is the largest
    size in bytes: after its row nothing is left to end.
    """

    def __init__(
        self, name: str, budget_s: float, step_factor: int, largest: int, progress: Progress
    ) -> None:
        self._name = name
        self._end = time.monotonic() + budget_s
        self._last: Optional[float] = None
        self._growth = step_factor * NOISE
        self._last_but_one = largest // step_factor
        self.awaited = 0.0
        self._progress = progress

    def goes_on(self, line: str) -> bool:
        size = text.row_size(line)
        if not size:
            return True
        self._progress("%s %s" % (self._name, size_text(size)))
        now = time.monotonic()
        before, self._last = self._last, now
        if before is None:
            return True
        step_s = self._growth * (now - before)
        self.awaited = now + 2 * step_s
        return size > self._last_but_one or now + step_s <= self._end


def run_legs(
    spec: CollectiveSpec, folder: str, payload: str, progress: Progress, driver: Driver = nobody
) -> Iterator[Leg]:
    """Time the collectives of ``spec`` under every leg; they come once all are over.

    ``folder`` is where nccl-tests' programs are; ``driver`` is asked after each leg that hung.
    Raises CouldNotMeasure where there is no GPU.
    """
    if not spec.gpus:
        raise CouldNotMeasure("nccl-tests measures GPUs and this node has none: use --engine torch")
    hangs = Hangs(driver)
    collectives = []
    for collective in spec.collectives:
        program = NcclTestsProgram(folder, collective, payload, spec, progress, hangs)
        collectives.append([ProgramLeg(program, plan) for plan in spec.legs])
    for _ in take_turns(collectives, spec.budget_s, spec.turns, spec.max_bytes, hangs):
        pass
    yield from (leg.leg() for legs in collectives for leg in legs)


def _table(output: str, report: str) -> Table:
    """Return the table of the JSON report where it is whole, and otherwise that of the text."""
    tables = text.read(output)
    printed = next((table for table in reversed(tables) if table.rows), None)
    printed = printed or (tables[-1] if tables else Table())
    if not os.path.exists(report):
        return printed
    with open(report, encoding="utf-8", errors="replace") as stream:
        whole = json_form.read(stream.read(process.MOST_BYTES))
    if whole is None or len(whole.rows) < len(printed.rows):
        return printed
    whole.tests_version, whole.library = printed.tests_version, whole.library or printed.library
    return whole
