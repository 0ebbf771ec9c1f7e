"""What a sweep does about hosts that failed: drains them, and gives them back when well."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hwcheck.errors import UsageError
from hwcheck.exit_codes import FAILED as HOST_FAILED
from hwcheck.exit_codes import NOT_MEASURED, PASS, combine
from hwcheck.fleet.sweep.drains import PURPOSE, is_well, of_evidence, why_not_released
from hwcheck.fleet.sweep.visits import PastVisit
from hwcheck.inventory.expectations import SCHEDULERS
from hwcheck.inventory.inventory import Host
from hwcheck.scheduler.actions import (
    LOG,
    Drains,
    by_scheduler,
    drain,
    drained_for,
    refuse_unusable,
    resume,
)
from hwcheck.scheduler.actions import states as ask_scheduler
from hwcheck.scheduler.records import (
    DONE,
    DRAIN,
    DRAINED,
    FAILED,
    UNKNOWN,
    WOULD,
    Amount,
    NodeAction,
)

DRY_RUN = "dry-run"


@dataclass(frozen=True)
class DrainFailed:
    """That hosts which fail are drained: at most so many nodes; with ``dry_run`` only said."""

    at_most: Amount
    dry_run: bool


@dataclass(frozen=True)
class Drained:
    """What became of the hosts that failed.

    ``now`` are those drained for what this sweep measured; ``undrained`` are those that are still
    to be drained, each with its evidence, and ``why_not`` says what kept hwcheck from it. ``lines``
    is what there is to say.
    """

    now: tuple[str, ...] = ()
    undrained: Mapping[str, str] = field(default_factory=dict)
    why_not: Mapping[str, str] = field(default_factory=dict)
    lines: tuple[str, ...] = ()


def read_drain_failed(drain_failed: str | None, max_drained: Amount | None) -> DrainFailed | None:
    """Return what the flags ask for; None where nothing is drained. Raises UsageError."""
    if drain_failed is None:
        if max_drained:
            raise UsageError("--max-drained: it goes with --drain-failed")
        return None
    return DrainFailed(max_drained or Amount(share=0.1), drain_failed == DRY_RUN)


def refuse(hosts: Sequence[Host], runs: Path, asked: DrainFailed, *, dry_run: bool) -> None:
    """Raise UsageError where hosts that fail could not be drained."""
    its = by_scheduler(hosts)
    if not its:
        raise UsageError(
            "--drain-failed: hwcheck_scheduler is not set for any host; it is "
            f"{' or '.join(SCHEDULERS)}"
        )
    for kind in its:
        is_preview = dry_run or asked.dry_run
        refuse_unusable(_drains(kind, "", runs), asked.at_most, dry_run=is_preview)


def drain_failed(
    hosts: Sequence[Host],
    runs: Path,
    asked: DrainFailed,
    evidence: Mapping[str, str],
    runs_of_sweep: Iterable[str],
) -> Drained:
    """Drain the hosts that failed, by their evidence.

    ``runs_of_sweep`` are those of this sweep; what was drained for an older one, and given back by
    somebody since, is left as it is. A host that takes no jobs since somebody else drained it, or
    since it is down, is not ours to drain.
    """
    recent = set(runs_of_sweep)
    now: list[str] = []
    why_not: dict[str, str] = {}
    lines: list[str] = []
    for kind, its in by_scheduler(hosts).items():
        try:
            actions, others = _drain(kind, its, runs, asked, evidence, recent)
        except UsageError as error:
            why_not |= {host.name: str(error) for host in its if host.name in evidence}
            lines.append(f"{error}; no host that failed is drained")
            continue
        lines += others
        for action in actions:
            of_sweep = of_evidence(action.why.removeprefix(_drains(kind, "", runs).prefix))[1]
            if action.outcome == DONE and of_sweep in recent:
                now.append(action.host)
            elif action.outcome not in (DONE, WOULD):
                why_not[action.host] = action.why
            if action.outcome != DONE or of_sweep in recent:
                lines.append(action.line())
    if asked.dry_run:
        return Drained(lines=tuple(lines))
    undrained = {host: evidence[host] for host in why_not}
    return Drained(tuple(now), undrained, why_not, tuple(lines))


def _drain(
    kind: str,
    hosts: Sequence[Host],
    runs: Path,
    asked: DrainFailed,
    evidence: Mapping[str, str],
    recent: set[str],
) -> tuple[list[NodeAction], list[str]]:
    """Drain hosts of one scheduler, run by run; return also a line for each that takes no jobs.

    Raises UsageError where it cannot be asked.
    """
    states = ask_scheduler(kind, hosts)
    done = drained_for(runs / LOG)
    by_run: dict[str, dict[str, str]] = {}
    others = []
    for name in (host.name for host in hosts if host.name in evidence):
        run, state = of_evidence(evidence[name])[1], states[name]
        if state.takes_jobs and run not in recent and (run, name) in done:
            continue
        if state.takes_jobs or state.state in (DRAINED, UNKNOWN):
            by_run.setdefault(run, {})[name] = evidence[name]
        else:
            others.append(f"{name}: it failed; it takes no jobs: it is {state.line()}")
    actions: list[NodeAction] = []
    for run, why in by_run.items():
        drains = _drains(kind, run, runs)
        try:
            actions += drain(drains, hosts, why, asked.at_most, dry_run=asked.dry_run)
        except UsageError as error:
            actions += [NodeAction(host, "", DRAIN, FAILED, str(error)) for host in why]
    return actions, others


def release(
    hosts: Sequence[Host], runs: Path, visits: Sequence[PastVisit], *, dry_run: bool
) -> tuple[str, int]:
    """Give back what sweeps drained and what measured well since. Raises UsageError.

    Returns what was done, a line for each host, and the exit code: 1 where one stays drained.
    """
    its = by_scheduler(hosts)
    if not its:
        raise UsageError(f"hwcheck_scheduler is not set; it is {' or '.join(SCHEDULERS)}")
    lines: list[str] = []
    codes: list[int] = [PASS]
    for kind, of_kind in its.items():
        drains = _drains(kind, "", runs)
        well: dict[str, list[str]] = {}
        for name, state in ask_scheduler(kind, of_kind).items():
            if state.state != DRAINED or not state.reason.startswith(drains.prefix):
                continue
            reason = state.reason.removeprefix(drains.prefix)
            why_not = why_not_released(reason, [each for each in visits if each.host == name])
            if why_not:
                lines.append(f"{name}: stays drained: {why_not}")
                codes.append(HOST_FAILED)
            else:
                measured = [each.run for each in visits if each.host == name and is_well(each)]
                well.setdefault(max(measured), []).append(name)
        for run, names in well.items():
            of_run = _drains(kind, run, runs)
            for action in resume(of_run, of_kind, names, dry_run=dry_run):
                lines.append(action.line())
                codes.append(NOT_MEASURED if action.outcome == FAILED else PASS)
    return "".join(f"{each}\n" for each in lines or ["no sweep has drained any of these"]), combine(
        codes
    )


def _drains(kind: str, run: str, runs: Path) -> Drains:
    return Drains(kind, PURPOSE, run, runs / LOG)
