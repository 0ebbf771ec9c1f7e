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
from typing import Callable, Iterator, List, Optional, Tuple

from hwcheck.node.check import CouldNotMeasure
from hwcheck.node.collective import nccl_info, proof
from hwcheck.node.collective.hangs import Driver, Hangs, nobody
from hwcheck.node.collective.log import last_lines
from hwcheck.node.collective.spec import LegPlan, Spec, rank_environment, size_text
from hwcheck.node.nccl_tests import json_form, process, text
from hwcheck.node.nccl_tests.outcome import outcome
from hwcheck.node.nccl_tests.process import Ended
from hwcheck.node.nccl_tests.records import Table
from hwcheck.node.nccl_tests.turns import together
from hwcheck.node.wire import Leg

HELP_S = 20.0
MEASURED_BY = "measured by nccl-tests%s (%s): means, out of place; the spread is to in place"
NOISE = 1.25
FIRST_SHARE = 0.6  # of the time is for the first turns; the rest is for the repetitions
FLOOR_BYTES_PER_S = 0.5e9  # no way between two GPUs of a node that works is slower

Progress = Callable[[str], None]


class Bench:
    """One program of nccl-tests on this node; where it cannot be run each leg says why."""

    def __init__(
        self,
        folder: str,
        collective: str,
        payload: str,
        spec: Spec,
        progress: Progress,
        hangs: Hangs,
    ) -> None:
        self._collective = collective
        self._path = os.path.join(folder, collective + "_perf")
        self._payload = payload
        self._spec = spec
        self._progress = progress
        self._hangs = hangs
        self._lack = ""
        if not os.path.isfile(self._path) or not os.access(self._path, os.X_OK):
            self._lack = (
                "%s is no program on this node: build nccl-tests there, or have "
                "hwcheck_nccl_tests_dir name the folder that has it" % self._path
            )
            return
        env = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        self._writes_json = "-J" in process.run([self._path, "-h"], env, payload, HELP_S).output

    def legs(self, budget_s: float) -> Tuple[Iterator[Leg], float]:
        """Time every leg; return their records, and the seconds spent of the budget.

        No leg goes further than the first that was done, so that they can be compared. Then all
        take turns again, as often as told and as time allows: what drifts meanwhile favors none.
        What a killed leg took beyond its share is not taken from the others.
        """
        spec, spent_s = self._spec, 0.0
        largest, why = spec.max_bytes, ""
        first_s = budget_s * (FIRST_SHARE if spec.turns > 1 else 1.0)
        turns: List[List[Leg]] = []
        for plan in spec.legs:
            share_s = (first_s - spent_s) / (len(spec.legs) - len(turns))
            leg = self._turn(plan, share_s, largest)
            spent_s += min(share_s, leg.duration_s)
            if why:
                leg = replace(leg, notes=(*leg.notes, why))
            elif leg.state == "done" and leg.sizes[-1].size_bytes < largest:
                largest = leg.sizes[-1].size_bytes
                why = "stopped at %s, the largest size of leg %s" % (size_text(largest), plan.name)
            turns.append([leg])
        for _ in range(spec.turns - 1):
            going = [found for found in turns if found[-1].state == "done"]
            took_s = sum(found[-1].duration_s for found in going)
            if spent_s + took_s * NOISE > budget_s:
                break
            spent_s += took_s
            for plan, found in zip(spec.legs, turns):  # noqa: B905 (Python 3.8)
                if found in going and not self._hangs.refuses(plan.name):
                    found.append(self._turn(plan, took_s, found[0].sizes[-1].size_bytes))
        return map(together, turns), spent_s

    def _turn(self, plan: LegPlan, budget_s: float, largest: int) -> Leg:
        """Time one leg; after ``budget_s`` it takes no larger size, ``spec.grace_s`` later it dies.

        Its first size, with the warm-ups of all before it, may take as long as the floor of
        bandwidth allows. ``largest`` is the largest size in bytes.
        """
        spec = self._spec
        lack = plan.absent or self._lack or self._hangs.refuses(plan.name)
        leg = Leg(
            self._collective,
            plan.name,
            spec.backend,
            spec.ranks,
            "not_run",
            lack,
            env=plan.env,
            dtype=spec.dtype,
        )
        if lack:
            return leg
        name = "%s %s" % (self._collective, plan.name)
        pace = _Pace(name, budget_s, spec.step_factor * NOISE, self._progress)
        env = rank_environment(spec, plan, 0, os.environ)
        with tempfile.TemporaryDirectory(prefix="hwcheck-") as folder:
            report = os.path.join(folder, "report.json")
            command = [self._path, *self._options(largest, report)]
            first_bytes = largest * spec.warmups + spec.min_bytes * (spec.iterations + 2)
            limit_s = max(budget_s, 2 * first_bytes / FLOOR_BYTES_PER_S) + spec.grace_s
            ended = process.run(
                command, env, self._payload, limit_s, pace.goes_on, lambda: pace.awaited
            )
            table = _table(ended.output, report)
        sys.stderr.write("-- log of leg %s, %s\n%s\n" % (plan.name, self._path, ended.output))
        sys.stderr.flush()
        return self._record(leg, plan, ended, table)

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
        found = outcome(self._collective, self._spec, ended, table)
        info = nccl_info.read(ended.output)
        state, reason = found.state, found.reason
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
            sizes=found.sizes,
            notes=(self._measured_by(table), *found.notes, *proof.notes(plan, info)),
            log_tail="" if state == "done" else last_lines(ended.output),
            duration_s=ended.duration_s,
            transport=proof.facts(info),
            driver=self._hangs.add(self._collective, plan.name) if hung else "",
        )

    def _measured_by(self, table: Table) -> str:
        version = " " + table.tests_version if table.tests_version else ""
        return MEASURED_BY % (version, self._path)


class _Pace:
    """Ends a leg before a size that does not fit in its time; tells of every row.

    Until ``awaited`` the next row may take twice as long as it should.
    """

    def __init__(self, name: str, budget_s: float, growth: float, progress: Progress) -> None:
        self._name = name
        self._end = time.monotonic() + budget_s
        self._last: Optional[float] = None
        self._growth = growth
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
        return now + step_s <= self._end


def run_legs(
    spec: Spec, folder: str, payload: str, progress: Progress, driver: Driver = nobody
) -> Iterator[Leg]:
    """Time the collectives of ``spec`` under every leg; those of a collective come once it is over.

    ``folder`` is where nccl-tests' programs are; ``driver`` is asked after each leg that hung.
    Raises CouldNotMeasure where there is no GPU.
    """
    if not spec.gpus:
        raise CouldNotMeasure("nccl-tests measures GPUs and this node has none: use --engine torch")
    hangs, left_s = Hangs(driver), spec.budget_s
    for place, collective in enumerate(spec.collectives):
        bench = Bench(folder, collective, payload, spec, progress, hangs)
        legs, spent_s = bench.legs(left_s / (len(spec.collectives) - place))
        left_s -= spent_s
        yield from legs


def _table(output: str, report: str) -> Table:
    """Return the table of the JSON report where it is whole, and otherwise that of the text."""
    tables = text.read(output)
    told = next((table for table in reversed(tables) if table.rows), None)
    told = told or (tables[-1] if tables else Table())
    if not os.path.exists(report):
        return told
    with open(report, encoding="utf-8", errors="replace") as stream:
        whole = json_form.read(stream.read(process.MOST_BYTES))
    if whole is None or len(whole.rows) < len(told.rows):
        return told
    whole.tests_version, whole.library = told.tests_version, whole.library or told.library
    return whole
