"""The collectives timed by nccl-tests' own programs, with the records of our engine.

Flags and exit codes: NVIDIA/nccl-tests, README.md and src/common.cu. What decides is the table: a
program of that name may end with 0 and have measured nothing.

A collective under a leg is one start of one program: what is repeated are its cycles (``-N``). NCCL
writes into a file of its own (``NCCL_DEBUG_FILE``; NVIDIA/nccl, src/debug.cc): in stdout its line
about each collective would stand in the middle of a row, which is printed in pieces.
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import replace
from functools import cached_property
from typing import Callable, Iterator, List, Optional, Tuple

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.collective_spec import SECOND_TRY, CollectiveSpec, LegPlan, rank_environment
from hwcheck.contract.wire import COLLECTIVES, Leg, leg_reason
from hwcheck.node.collective import conf_files, nccl_info, proof
from hwcheck.node.collective.hangs import ENDED, Driver, Hangs, nobody
from hwcheck.node.collective.log import head_of, last_lines, shortened
from hwcheck.node.collective.schedule import FIRST_SHARE, take_turns
from hwcheck.node.nccl_tests import json_form, process, text
from hwcheck.node.nccl_tests.outcome import outcome, together
from hwcheck.node.nccl_tests.pace import Pace
from hwcheck.node.nccl_tests.process import ProgramResult
from hwcheck.node.nccl_tests.records import Table

HELP_S = 20.0

MEASURED_BY = "measured by nccl-tests%s (%s): means, out of place; the spread is to in place"
NO_CYCLES = "timed once: these programs have no -N"
FLOOR_BYTES_PER_S = 0.5e9  # no way between two GPUs of a node that works is slower

Progress = Callable[[str], None]


class ProgramFolder:
    """A folder with nccl-tests' programs, which are all of one version."""

    def __init__(self, path: str, payload: str) -> None:
        self._path = path
        self._payload = payload

    def program(self, collective: str) -> str:
        """Return the path of the collective's program."""
        return os.path.join(self._path, collective + "_perf")

    def lack(self, collective: str) -> str:
        """Return why the collective's program cannot be run, or an empty text."""
        path = self.program(collective)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return ""
        return (
            "%s is no program on this node: build nccl-tests there, or have "
            "hwcheck_nccl_tests_dir name the folder that has it" % path
        )

    def has(self, option: str) -> bool:
        """Whether the programs know an option (``-N``)."""
        return "[%s," % option in self._help

    @cached_property
    def _help(self) -> str:
        env = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        program = next(self.program(name) for name in COLLECTIVES if not self.lack(name))
        return process.run([program, "-h"], env, self._payload, process.within(HELP_S)).output


class NcclTestsProgram:
    """One program of nccl-tests on this node; ``lack`` says why it cannot be run."""

    def __init__(
        self,
        folder: ProgramFolder,
        collective: str,
        payload: str,
        spec: CollectiveSpec,
        progress: Progress,
        hangs: Hangs,
    ) -> None:
        self.lack = folder.lack(collective)
        self._folder = folder
        self._collective = collective
        self._path = folder.program(collective)
        self._payload = payload
        self.spec = spec
        self._progress = progress
        self._hangs = hangs

    def refused(self, plan: LegPlan, reason: str) -> Leg:
        """Return the record of a leg that has no turn."""
        spec = self.spec
        return Leg(
            self._collective,
            plan.name,
            spec.backend,
            spec.ranks,
            "not_run",
            leg_reason("not_run", reason),
            env=plan.env,
            dtype=spec.dtype,
        )

    def time(
        self, plan: LegPlan, sizes: Tuple[int, int], cycles: int, first_s: float, all_s: float
    ) -> Tuple[Leg, Pace]:
        """Start the program once; return its record, with every size as often as it was timed.

        ``sizes`` are the smallest and the largest in bytes. From its first row on it has
        ``first_s`` for the first of its ``cycles`` and ``all_s`` for all, and ``spec.grace_s``
        later it dies. Its first row, with the warm-ups of all sizes before it, may take as long
        as the floor of bandwidth allows.
        """
        spec = self.spec
        smallest, largest = sizes
        with tempfile.TemporaryDirectory(prefix="hwcheck-") as folder:
            report, log = (os.path.join(folder, name) for name in ("report.json", "nccl.log"))
            env = {**rank_environment(spec, plan, 0, os.environ), "NCCL_DEBUG_FILE": log}
            command = [self._path, *self._options(smallest, largest, cycles, report)]
            # The sizes double, so the warm-ups of all move twice the largest (since 2.16.8).
            first_bytes = 2 * largest * spec.warmups + smallest * (spec.iterations + 2)
            pace = Pace(
                "%s %s" % (self._collective, plan.name),
                spec.start_s,
                spec.grace_s + 2 * first_bytes / FLOOR_BYTES_PER_S,
                lambda: head_of(log),
                (first_s, all_s, spec.grace_s),
                spec.step_factor,
                largest,
                cycles,
                self._progress,
            )
            ended = process.run(command, env, self._payload, pace.until, pace.goes_on)
            table = _table(ended.output, report)
            nccl_log = head_of(log)
        both = "%s\n%s" % (nccl_log, ended.output)
        words = (plan.name, self._path, shortened(nccl_log), ended.output)
        sys.stderr.write("-- log of leg %s, %s\n%s\n%s\n" % words)
        sys.stderr.flush()
        leg = self._record(self.refused(plan, ""), plan, ended, table, both, pace.start_s)
        stop = pace.stop or (pace.missing() if leg.state == "done" else "")
        if leg.sizes and stop:
            leg = replace(leg, notes=(*leg.notes, stop))
        return leg, pace

    def cycles(self) -> int:
        """Return how often one start can time every size, and should."""
        return self.spec.turns if self._folder.has("-N") else 1

    def requested_bytes(self, size_bytes: int) -> int:
        """Return the size that the program rounded down to whole chunks for this one, in bytes."""
        requested = self.spec.min_bytes
        while requested < size_bytes:
            requested *= self.spec.step_factor
        return requested

    def _options(self, smallest: int, largest: int, cycles: int, report: str) -> List[str]:
        spec = self.spec
        options = {
            "-b": smallest,
            "-e": largest,
            "-f": spec.step_factor,
            "-g": spec.ranks,
            "-c": 1,
            "-n": spec.iterations,
            "-w": spec.warmups,
            "-d": spec.dtype,
        }
        flags = [word for flag, value in options.items() for word in (flag, str(value))]
        flags += ["-N", str(cycles)] if cycles > 1 else []
        return flags + (["-J", report] if self._folder.has("-J") else [])

    def _record(
        self,
        leg: Leg,
        plan: LegPlan,
        ended: ProgramResult,
        table: Table,
        log: str,
        start_s: Optional[float],
    ) -> Leg:
        """Return the record; ``log`` is what NCCL said and the program printed."""
        has_started = start_s is not None
        result = outcome(self._collective, self.spec, ended, table, has_started=has_started)
        info = nccl_info.read(log)
        state, reason = result.state, leg_reason(result.state, result.reason)
        if state == "done" and self.spec.ranks > 1:
            problem = proof.problem(plan, info)
            state, reason = ("not_engaged", problem) if problem else (state, reason)
        library = info.version or table.library
        once = () if self._folder.has("-N") or self.spec.turns < 2 else (NO_CYCLES,)
        return replace(
            leg,
            state=state,
            reason=reason,
            library="NCCL " + library if library else "",
            sizes=result.sizes,
            notes=(
                self._measured_by(table),
                *conf_files.notes(library),
                *once,
                *result.notes,
                *proof.notes(plan, info),
            ),
            log_tail="" if state == "done" else last_lines(log),
            duration_s=ended.duration_s,
            transport=proof.facts(info),
            driver=self._hangs.add(self._collective, plan.name, state) if state in ENDED else "",
            start_s=ended.duration_s if start_s is None else start_s,
        )

    def _measured_by(self, table: Table) -> str:
        version = " " + table.tests_version if table.tests_version else ""
        return MEASURED_BY % (version, self._path)


class ProgramLeg:
    """A ``schedule.TimedLeg`` that one start of a program of nccl-tests times.

    Only a leg whose first cycle was stopped for lack of time has a second start, for what is
    compared.
    """

    def __init__(self, program: NcclTestsProgram, plan: LegPlan) -> None:
        self.plan = plan
        self._plan_now = plan
        self.largest = 0
        self.complete = False
        self.compared: Tuple[int, ...] = ()
        self._program = program
        self._turns: List[Leg] = []
        self._measured_s = 0.0
        refusal = plan.absent or program.lack
        if refusal:
            self.refuse(refusal)

    @property
    def state(self) -> str:
        return self._turns[-1].state if self._turns else ""

    def refuse(self, reason: str) -> None:
        self._turns = [self._program.refused(self.plan, reason)]

    def first(self, share_s: float, max_bytes: int, max_bytes_reason: str) -> float:
        cycles = self._program.cycles()
        all_s = share_s / FIRST_SHARE if cycles > 1 else share_s
        sizes = (self._program.spec.min_bytes, max_bytes)
        turn, pace = self._program.time(self.plan, sizes, cycles, share_s, all_s)
        more_env = SECOND_TRY.get(self.plan.name)
        if turn.state == "failed" and more_env:
            first_failure = turn.reason.text
            self._plan_now = replace(self.plan, env={**self.plan.env, **more_env})
            turn, pace = self._program.time(self._plan_now, sizes, cycles, share_s, all_s)
            turn = replace(turn, first_failure=first_failure)
        if max_bytes_reason:
            turn = replace(turn, notes=(*turn.notes, max_bytes_reason))
        self._turns.append(turn)
        self._measured_s = pace.measured_s()
        self.complete = not pace.cut_short
        reached = max((size.size_bytes for size in turn.sizes), default=0)
        self.largest = self._program.requested_bytes(reached) if pace.cut_short else max_bytes
        before_s = pace.first_row_after_s
        return 0.0 if before_s is None else max(0.0, turn.duration_s - before_s)

    def repeat(self) -> None:
        if self.repeat_s():
            sizes, time_s = (self.compared[0], self.compared[-1]), 2 * self.repeat_s()
            self._turns.append(self._program.time(self._plan_now, sizes, 1, time_s, time_s)[0])

    def repeat_s(self) -> float:
        if self.complete or self._program.cycles() == 1:
            return 0.0
        timed = sum(size.size_bytes for size in self._turns[0].sizes)
        return self._measured_s * sum(self.compared) / timed

    def leg(self) -> Leg:
        """Return what the turns came to."""
        return together(self._turns)


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
    programs = ProgramFolder(folder, payload)
    collectives = []
    for collective in spec.collectives:
        program = NcclTestsProgram(programs, collective, payload, spec, progress, hangs)
        collectives.append([ProgramLeg(program, plan) for plan in spec.legs])
    for _ in take_turns(collectives, spec.budget_s, min(spec.turns, 2), spec.max_bytes, hangs):
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
