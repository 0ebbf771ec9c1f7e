"""Which NCCL legs of a host count as evidence about its GPUs, and why others do not. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hwcheck.judge.evidence import Known, contradictions
from hwcheck.judge.legs import leg_problem, planned_env
from hwcheck.node.wire import CheckResult, Leg
from hwcheck.results.run_folder import HostRecord
from hwcheck.text import count, line

ANSWERED = ("reported", "partial")


@dataclass(frozen=True)
class Counted:
    """The legs of one collective by name, and by name why a leg does not count."""

    collective: str
    legs: Mapping[str, Leg] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


def counted(record: HostRecord, known: Known, double: str = "") -> Sequence[Counted]:
    """Return what counts of a host's NCCL legs, one record for each collective that it reports.

    A leg counts as part of a whole answer of the check that is named as its collective, on every
    GPU that the host names, where nothing speaks against the host: neither what it says of its
    GPUs nor ``double``, why it may be the same machine as another (``fleet.same_machine``).
    """
    doubt = double or _doubt(record, known)
    legs: dict[str, dict[str, Leg]] = {}
    problems: dict[str, dict[str, str]] = {}
    for result, leg in _nccl_legs(record):
        named = legs.setdefault(leg.collective, {})
        faults = problems.setdefault(leg.collective, {})
        problem = doubt or _leg_doubt(result, leg, known)
        if leg.leg in named or leg.leg in faults:
            problem = problem or "it was sent twice"
        if problem:
            faults[leg.leg] = problem
            named.pop(leg.leg, None)
        else:
            named[leg.leg] = leg
    return [Counted(name, legs[name], problems[name]) for name in legs]


def _nccl_legs(record: HostRecord) -> Iterator[tuple[CheckResult, Leg]]:
    for result in record.report.results if record.report else ():
        for leg in result.legs:
            if leg.backend == "nccl":
                yield result, leg


def _doubt(record: HostRecord, known: Known) -> str:
    if record.state not in ANSWERED:
        return f"the visit ended as {record.state.replace('_', ' ')}"
    # A visit that was cut off has told all about its GPUs, or nothing.
    return next(contradictions(record, replace(known, whole=True)), "")


def _leg_doubt(result: CheckResult, leg: Leg, known: Known) -> str:
    if result.check != leg.collective:
        return f"it came as an answer of {line(result.check, 60)}"
    if result.state != "done":
        return f"the answer is {result.state.replace('_', ' ')}: {line(result.reason, 120)}"
    if leg.ranks != len(known.models):
        gpus = count(len(known.models), "GPU")
        return f"it ran on {count(leg.ranks, 'rank')}, and the node names {gpus}"
    if leg.state == "not_engaged":
        return f"it did not use what it is to measure: {line(leg.reason, 120)}"
    return leg_problem(leg, planned_env(leg.leg))
