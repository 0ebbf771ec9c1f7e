"""Runs of nccl-tests as the legs of a node, so that they can be compared as ours are. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from hwcheck.contract.busbw import busbw_factor
from hwcheck.contract.collective_spec import SITE, LegPlan
from hwcheck.contract.reasons import NONE, NOT_MEASURED, Reason
from hwcheck.contract.wire import Leg, SizeTiming
from hwcheck.explain.command_line import CommandLine
from hwcheck.explain.environment import of_leg
from hwcheck.explain.records import BenchmarkRun, Benchmarks
from hwcheck.judge.legs import planned_env, wrong_elements
from hwcheck.node.collective import proof
from hwcheck.node.collective.nccl_info import NcclInfo
from hwcheck.node.nccl_tests.outcome import timing

STATES = {
    "done": "done",
    "unchecked": "done",
    "corrupt": "done",
    "single-rank": "done",
    "hang": "hang",
    "launch-failed": "failed",
    "damaged": "not_run",
}
WORST = ("hang", "failed", "not_engaged", "not_run", "done")
USUAL_ITERATIONS = 20
"""nccl-tests' own (README.md, -n), where a log does not say it."""

UNCHECKED = "nobody compared its data (-c 0), so it is taken for right"


def legs_of(name: str, logs: Sequence[Benchmarks], reference: Sequence[Leg] = ()) -> Iterator[Leg]:
    """Yield one leg of this name for each collective that the logs have.

    Several runs of one collective are turns of one leg. What a run that broke off does not say
    (its collective, its ranks) is taken from ``reference``, the legs it is to be compared with.
    """
    by_collective: dict[tuple[str, int], list[Leg]] = {}
    for log in logs:
        for place, run in enumerate(log.runs):
            collective, ranks = run.collective or "", run.ranks or 0
            alike = [leg for leg in reference if collective in ("", leg.collective)]
            if len(alike) == 1 and not (run.collective and run.ranks):
                collective, ranks = alike[0].collective, ranks or alike[0].ranks
            if collective:
                env = of_leg(name, log.info, _command(log, place))
                leg = _leg(name, env, collective, ranks, run, log.info)
                by_collective.setdefault((collective, ranks), []).append(leg)
    yield from (_merged(legs) for legs in by_collective.values())


def _command(log: Benchmarks, place: int) -> CommandLine | None:
    """Return the command that started a run of a log; None where it shows none.

    Where they are not as many as the runs, all have to count: one that sets more tells of it.
    """
    if len(log.commands) == len(log.runs):
        return log.commands[place]
    return max(log.commands, key=lambda command: len(command.env), default=None)


def _leg(
    name: str,
    env: Mapping[str, str],
    collective: str,
    ranks: int,
    run: BenchmarkRun,
    info: NcclInfo,
) -> Leg:
    plan = LegPlan(name, planned_env(name) or {})
    state, reason = STATES[run.state], run.no_proof or run.notes[0]
    if run.no_proof and run.state in ("done", "unchecked"):
        state, reason = "failed", run.no_proof
    if state == "done" and ranks > 1 and info.transports:
        problem = proof.problem(plan, info, read_env=bool(info.env_set))
        state, reason = ("not_engaged", problem.text) if problem else (state, reason)
    version = info.version or run.table.library or "of a version not named"
    return Leg(
        collective=collective,
        leg=name,
        backend="nccl",
        ranks=ranks,
        state=state,
        reason=NONE if state == "done" else Reason(NOT_MEASURED, reason),
        library=f"NCCL {version}",
        env=env,
        sizes=tuple(_sizes(collective, ranks, run)) if ranks else (),
        notes=(UNCHECKED,) if run.state == "unchecked" else (),
        transport=proof.facts(info),
        dtype=_dtype(run),
    )


def _dtype(run: BenchmarkRun) -> str:
    """Return the type of the elements; several of them as one text, which equals no other."""
    return "+".join(sorted({row.dtype for row in run.table.rows})) or Leg.dtype


def _sizes(collective: str, ranks: int, run: BenchmarkRun) -> Iterator[SizeTiming]:
    factor = busbw_factor(collective, ranks)
    iterations = run.table.iterations or USUAL_ITERATIONS
    by_size: dict[int, SizeTiming] = {}
    for row in run.table.timed:
        timed = timing(row, factor, iterations, unchecked=0)
        if timed is not None:
            by_size[row.size_bytes] = timed
    sizes = [by_size[size] for size in sorted(by_size)]
    if run.state == "corrupt" and sizes and not any(size.all_wrong for size in sizes):
        # Where no row counts wrong elements, the largest size stands for the check that failed.
        sizes[-1] = replace(sizes[-1], wrong=1)
    yield from sizes


def _merged(legs: Sequence[Leg]) -> Leg:
    """Return several turns of one leg as one; a turn that broke stands for all."""
    planned = planned_env(legs[0].leg)
    other = next((leg for leg in legs if leg.leg != SITE and leg.env != planned), None)
    if other is not None:
        return other  # It is another leg, and what it shows is not to be mixed with the rest.
    worst = min(legs, key=lambda leg: (WORST.index(leg.state), not wrong_elements(leg)))
    if worst.state != "done" or wrong_elements(worst) or len(legs) == 1:
        return worst
    turns = [{size.size_bytes: size for size in leg.sizes} for leg in legs]
    common = sorted(set.intersection(*(set(turn) for turn in turns)))
    return replace(worst, sizes=tuple(_middle([turn[size] for turn in turns]) for size in common))


def _middle(turns: Sequence[SizeTiming]) -> SizeTiming:
    times = [turn.time_us for turn in turns]
    middle = median(times)
    algbw = turns[0].size_bytes / middle / 1e3
    return replace(
        turns[0],
        iterations=sum(turn.iterations for turn in turns),
        time_us=middle,
        time_p95_us=max(times),
        spread=max(turn.spread for turn in turns),
        algbw_gbps=algbw,
        busbw_gbps=algbw * turns[0].busbw_gbps / turns[0].algbw_gbps,
        passes=len(turns),
        pass_spread=(max(times) - min(times)) / middle,
        in_place=None,
    )
