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
from typing import Callable, Iterator, List, Optional

from hwcheck.node.check import CouldNotMeasure
from hwcheck.node.collective import nccl_info, proof
from hwcheck.node.collective.hangs import Driver, Hangs, nobody
from hwcheck.node.collective.log import last_lines
from hwcheck.node.collective.spec import LegPlan, Spec, rank_environment, size_text
from hwcheck.node.nccl_tests import json_form, process, text
from hwcheck.node.nccl_tests.outcome import outcome
from hwcheck.node.nccl_tests.process import Ended
from hwcheck.node.nccl_tests.records import Table
from hwcheck.wire import Leg

HELP_S = 20.0
STEP_GROWTH = 2 * 1.25  # the next size is twice as large; a quarter for noise

Progress = Callable[[str], None]


class Bench:
    """One program of nccl-tests on this node; ``lack`` says why it cannot be run, or nothing."""

    def __init__(self, folder: str, collective: str, payload: str) -> None:
        self.collective = collective
        self.path = os.path.join(folder, collective + "_perf")
        self._payload = payload
        self.lack = ""
        if not os.path.isfile(self.path) or not os.access(self.path, os.X_OK):
            self.lack = (
                "%s is no program on this node: build nccl-tests there, or have "
                "hwcheck_nccl_tests_dir name the folder that has it" % self.path
            )
            return
        env = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        self._writes_json = "-J" in process.run([self.path, "-h"], env, payload, HELP_S).output

    def leg(
        self,
        spec: Spec,
        plan: LegPlan,
        budget_s: float,
        largest: int,
        progress: Progress,
        refused: str = "",
    ) -> Leg:
        """Time one leg; after ``budget_s`` it takes no larger size, ``spec.grace_s`` later it dies.

        ``largest`` is the largest size in bytes, ``refused`` why the leg is not run.
        """
        lack = plan.absent or self.lack or refused
        if lack:
            return Leg(
                self.collective,
                plan.name,
                spec.backend,
                spec.ranks,
                "not_run",
                lack,
                env=plan.env,
                dtype=spec.dtype,
            )
        pace = _Pace(self.collective, plan.name, budget_s, progress)
        env = rank_environment(spec, plan, 0, os.environ)
        with tempfile.TemporaryDirectory(prefix="hwcheck-") as folder:
            report = os.path.join(folder, "report.json")
            options = self._options(spec, largest, report)
            limit_s = budget_s + spec.grace_s
            ended = process.run([self.path, *options], env, self._payload, limit_s, pace.goes_on)
            table = _table(ended.output, report)
        sys.stderr.write("-- log of leg %s, %s\n%s\n" % (plan.name, self.path, ended.output))
        sys.stderr.flush()
        return self._record(spec, plan, ended, table, limit_s)

    def _options(self, spec: Spec, largest: int, report: str) -> List[str]:
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

    def _record(self, spec: Spec, plan: LegPlan, ended: Ended, table: Table, limit_s: float) -> Leg:
        found = outcome(self.collective, spec, ended, table, limit_s)
        info = nccl_info.read(ended.output)
        state, reason = found.state, found.reason
        if state == "done" and spec.ranks > 1:
            problem = proof.problem(plan, info)
            state, reason = ("not_engaged", problem) if problem else (state, reason)
        library = info.version or table.library
        return Leg(
            collective=self.collective,
            leg=plan.name,
            backend=spec.backend,
            ranks=spec.ranks,
            state=state,
            reason=reason,
            library="NCCL " + library if library else "",
            env=plan.env,
            sizes=found.sizes,
            notes=(self._measured_by(table), *found.notes),
            log_tail="" if state == "done" else last_lines(ended.output),
            duration_s=ended.duration_s,
            dtype=spec.dtype,
            transport=proof.facts(info),
        )

    def _measured_by(self, table: Table) -> str:
        version = " " + table.tests_version if table.tests_version else ""
        return "measured by nccl-tests%s (%s)" % (version, self.path)


class _Pace:
    """Ends a leg before a size that does not fit in its time; tells of every row."""

    def __init__(self, collective: str, leg: str, budget_s: float, progress: Progress) -> None:
        self._name = "%s %s" % (collective, leg)
        self._end = time.monotonic() + budget_s
        self._last: Optional[float] = None
        self._progress = progress

    def goes_on(self, line: str) -> bool:
        size = text.row_size(line)
        if not size:
            return True
        self._progress("%s %s" % (self._name, size_text(size)))
        now = time.monotonic()
        before, self._last = self._last, now
        return before is None or now + STEP_GROWTH * (now - before) <= self._end


def run_legs(
    spec: Spec, folder: str, payload: str, progress: Progress, driver: Driver = nobody
) -> Iterator[Leg]:
    """Time the collectives of ``spec`` under every leg; a leg comes as soon as it ends.

    ``folder`` is where nccl-tests' programs are; ``driver`` is asked after each leg that hung.
    Raises CouldNotMeasure where there is no GPU.
    """
    if not spec.gpus:
        raise CouldNotMeasure("nccl-tests measures GPUs and this node has none: use --engine torch")
    left_s, to_go = spec.budget_s, len(spec.collectives) * len(spec.legs)
    hangs = Hangs(driver)
    for collective in spec.collectives:
        bench = Bench(folder, collective, payload)
        largest, why = spec.max_bytes, ""
        for plan in spec.legs:
            share_s = left_s / to_go
            refused = hangs.refuses(plan.name)
            leg = bench.leg(spec, plan, share_s, largest, progress, refused)
            if leg.state == "hang":
                leg = replace(leg, driver=hangs.add(collective, plan.name))
            left_s, to_go = left_s - min(share_s, leg.duration_s), to_go - 1
            if why:
                leg = replace(leg, notes=(*leg.notes, why))
            elif leg.state == "done" and leg.sizes[-1].size_bytes < largest:
                # No leg goes further than the first that was done, so that they can be compared.
                largest = leg.sizes[-1].size_bytes
                why = "stopped at %s, the largest size of leg %s" % (size_text(largest), plan.name)
            yield leg


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
