"""From how a program ended and what it printed to the state and the figures of a leg.

The turns of a leg, each a run of the program, are one record in the end.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from typing import Dict, List, Optional, Tuple

from hwcheck.contract.busbw import busbw_factor
from hwcheck.contract.collective_spec import TOO_SMALL, CollectiveSpec, size_text
from hwcheck.contract.wire import Leg, SizeTiming
from hwcheck.node.nccl_tests.process import MOST_BYTES, ProgramResult
from hwcheck.node.nccl_tests.records import (
    Half,
    Table,
    TableRow,
    computed_ranks,
    listed_ranks,
)

# NVIDIA/nccl-tests, README.md, "Exit codes" (2.17.6 on); wrong data was 6 in 2.17.6 and 1 before.
CODES = {
    1: "an internal error",
    2: "a CUDA error",
    3: "an NCCL error",
    4: "its own timeout",
    5: "too few GPUs, or not implemented",
    6: "invalid usage",
    7: "wrong data",
    127: "the program could not be started",
    255: "bad arguments",
}
RAN_INTO = "other output runs into them"


@dataclass(frozen=True)
class ProgramOutcome:
    """The leg's state (done, hang, not_started, failed, not_run), the reason, its sizes and notes.

    A size stands there once for each cycle of the program, in the order in which it printed them.
    """

    state: str
    reason: str = ""
    sizes: Tuple[SizeTiming, ...] = ()
    notes: Tuple[str, ...] = ()


def outcome(
    collective: str,
    spec: CollectiveSpec,
    ended: ProgramResult,
    table: Table,
    *,
    has_started: bool = True,
) -> ProgramOutcome:
    """Return what became of a leg. A leg with wrong data is done: its wrong elements say it.

    ``has_started``: there was a communicator or a row.
    """
    sizes, problem = _sizes(collective, spec, table)
    notes = _notes(ended, table)
    where = _where(sizes)
    if ended.why == "time" and not has_started:
        reason = "no communicator after %.0f s, %s" % (ended.duration_s, where)
        return ProgramOutcome("not_started", reason, sizes, notes)
    if ended.why == "time":
        return ProgramOutcome(
            "hang", "killed after %.0f s, %s" % (ended.duration_s, where), sizes, notes
        )
    if ended.why == "output":
        reason = "ended: it wrote more than %d MiB" % (MOST_BYTES >> 20)
        return ProgramOutcome("failed", reason, sizes, notes)
    if problem:
        return ProgramOutcome("failed", problem, (), notes)
    wrong = any(size.all_wrong for size in sizes)
    if table.bounds_failed and sizes and not wrong:
        largest = max(range(len(sizes)), key=lambda place: sizes[place].size_bytes)
        one_wrong = replace(sizes[largest], wrong=1)
        wrong, sizes = True, (*sizes[:largest], one_wrong, *sizes[largest + 1 :])
        words = (
            "the footer counts %d failed checks and no row says where: noted at the largest size"
        )
        notes = (*notes, words % table.bounds_failed)
    if ended.code and not ended.why and not wrong:
        reason = "%s, %s%s" % (_ending(ended.code), where, _first_failure(table))
        return ProgramOutcome("failed", reason, sizes, notes)
    if not sizes and table.rows and not table.timed:
        return ProgramOutcome("not_run", TOO_SMALL, (), notes)
    if not sizes:
        how = "a table without a row" if table.columns else "no table"
        end = "was stopped" if ended.why else "ended with code 0"
        reason = "it %s and printed %s%s" % (end, how, _first_failure(table))
        return ProgramOutcome("failed", reason, (), notes)
    return ProgramOutcome("done", "", sizes, notes)


def _notes(ended: ProgramResult, table: Table) -> Tuple[str, ...]:
    notes = []
    if ended.why == "" and table.rows and not table.ended:
        notes.append("no footer follows the table")
    if table.damaged:
        notes.append("rows left out: %d (%s)" % (table.damaged, table.misfit or RAN_INTO))
    if ended.stuck:
        notes.append("the program does not die: it is stuck in the kernel")
    return tuple(notes)


def _where(sizes: Tuple[SizeTiming, ...]) -> str:
    if not sizes:
        return "before the first size was finished"
    return "after %s was finished" % size_text(sizes[-1].size_bytes)


def _first_failure(table: Table) -> str:
    return ": " + table.failures[0] if table.failures else ""


def _ending(code: int) -> str:
    if code < 0:
        signals = {each.value for each in signal.Signals}
        name = signal.Signals(-code).name if -code in signals else "signal %d" % -code
        return "it was killed by %s" % name
    return "it ended with code %d (%s)" % (code, CODES.get(code, "not documented"))


def _sizes(
    collective: str, spec: CollectiveSpec, table: Table
) -> Tuple[Tuple[SizeTiming, ...], str]:
    """Return the sizes and why they are not of this leg, or an empty text."""
    computed, listed = computed_ranks(table, collective), listed_ranks(table)
    if computed and not computed[0] <= spec.ranks <= computed[1]:
        return (), "it measured %d ranks, not %d" % (computed[0], spec.ranks)
    if not computed and listed is not None and listed != spec.ranks:
        return (), "it lists %d ranks, not %d" % (listed, spec.ranks)
    sizes = []
    factor, iterations = busbw_factor(collective, spec.ranks), table.iterations or spec.iterations
    for row in table.timed:
        timed = timing(row, factor, iterations)
        if timed is None:
            return (), "its figures at %s are not checked, or are none" % size_text(row.size_bytes)
        sizes.append(timed)
    return tuple(sizes), ""


def timing(
    row: TableRow, factor: float, iterations: int, unchecked: Optional[int] = None
) -> Optional[SizeTiming]:
    """Return a row out of place, with its in-place half where that was checked.

    ``factor`` is busbw over algbw, ``unchecked`` what counts as wrong elements where nobody
    compared the data; with None such a half is none. nccl-tests gives the mean of its iterations
    and no spread; how far the two halves are apart stands for it, since they move the same data.
    Rates are worked out from the time: in print they have two decimals.
    """
    times = [half.time_us for half in row.halves if half.time_us]
    spread = max(times) / min(times) - 1 if times else 0.0

    def of(half: Optional[Half]) -> Optional[SizeTiming]:
        wrong = half.wrong if half and half.wrong is not None else unchecked
        if half is None or not half.time_us or wrong is None:
            return None
        algbw = row.size_bytes / half.time_us / 1e3
        return SizeTiming(
            size_bytes=row.size_bytes,
            iterations=iterations,
            time_us=half.time_us,
            time_p95_us=None,
            spread=spread,
            algbw_gbps=algbw,
            busbw_gbps=algbw * factor,
            wrong=wrong,
        )

    main = of(row.out_of_place)
    return replace(main, in_place=of(row.in_place)) if main else None


def together(turns: List[Leg]) -> Leg:
    """Return what the turns of a leg came to: one that broke is what the leg came to.

    A turn has a size once for each cycle of its program.
    """
    sizes: Dict[int, List[SizeTiming]] = {}
    for turn in turns:
        for size in turn.sizes:
            sizes.setdefault(size.size_bytes, []).append(size)
    return replace(
        turns[0] if turns[-1].state == "done" else turns[-1],
        sizes=tuple(_middle(sizes[each]) for each in sorted(sizes)),
        duration_s=sum(turn.duration_s for turn in turns),
        start_s=turns[0].start_s,
        first_failure=turns[0].first_failure,
    )


def _middle(turns: List[SizeTiming]) -> SizeTiming:
    """Return the turn in the middle, with all iterations and the most that was wrong in a turn."""
    ordered = sorted(turns, key=lambda turn: turn.time_us)
    middle = ordered[len(turns) // 2]
    inside = [turn.in_place for turn in turns if turn.in_place]
    return replace(
        middle,
        iterations=sum(turn.iterations for turn in turns),
        wrong=max(turn.wrong for turn in turns),
        passes=len(turns),
        pass_spread=(ordered[-1].time_us - ordered[0].time_us) / middle.time_us,
        in_place=_middle(inside) if inside else None,
    )
