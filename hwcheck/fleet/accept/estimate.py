"""How long the stages of an acceptance take, by what they took here or by their plans. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from types import MappingProxyType

from hwcheck.fleet.accept.criteria import Criteria
from hwcheck.fleet.accept.evidence import NOT_MEASURED, StageResult
from hwcheck.fleet.accept.progress import HostProgress
from hwcheck.fleet.accept.stages import STAGES, STATE

VISIT_S = 12.0
"""Connecting, the payload and every idle check: 3 to 12 s on nodes with 8 GPUs in the lab."""
STATE_S = 60.0
"""Ansible templates the variables, then a session with each host asserts them."""
START_S = 45.0
"""Two imports of torch and the start of the legs (``CollectiveSpec.start_s``)."""
PROVE_S = 60.0
COOL_DOWN_S = 120.0
COPIES_S = 180.0
"""What the stage load does beside the burn-in: copies, every pair of GPUs."""
COLLECTIVES_S = 240.0
"""The budget of the profile standard."""
DCGM_S = 5400.0
"""``dcgmi diag -r 4`` on eight GPUs: one to two hours."""
GROUP_S = 20.0
"""One collective over several hosts."""
CALL_S = 2.0
JUDGED_S = 0.1
"""What a call takes to start, and to judge again what one host answered in one run: 9 s of one core
for 8 hosts and 10 runs (``benchmarks/acceptance.py`` times a call from its start as a process)."""
CALL = "start"

SAME_CALL_S = 60.0
"""A run that begins so soon after another was made by the same call, which judged in between."""

PLANNED = {"dcgm": "as planned; no time where DCGM is not installed"}


@dataclass(frozen=True)
class StageEstimate:
    """``seconds`` that a stage (or the start of a call) takes, once for all ``hosts``.

    ``by`` says what that is known by.
    """

    stage: str
    hosts: int
    seconds: float
    by: str


def estimates_left(
    criteria: Criteria,
    hosts: Mapping[str, HostProgress],
    forks: int,
    results: Sequence[StageResult],
    *,
    of_this_call: bool = False,
) -> list[StageEstimate]:
    """Return how long each stage takes that is left, with those that every call repeats.

    Before them stands what the next call takes to start and to judge its former runs. Empty where
    no host has a stage left. With ``of_this_call`` what the call has left that is at work: nothing
    is repeated in it, and a host that failed waits for the next one. A run over hosts is made of
    all that are ready, also those that were in the last.
    """
    left: dict[str, int] = {}
    done: dict[str, int] = {}
    for host in hosts.values():
        stage = host.next if of_this_call else host.next or host.blocked
        for name in criteria.stages[criteria.stages.index(stage) :] if stage else ():
            left[name] = left.get(name, 0) + 1
            runs = host.stages[name].runs
            done[name] = min(done.get(name, runs), runs)
    takes_part = sum(
        bool(host.accepted or host.next or not of_this_call) for host in hosts.values()
    )
    left |= {name: takes_part for name in left if STAGES[name].over_hosts}
    if of_this_call or not left:
        return estimates(criteria, left, forks, results, done)
    left |= {name: len(hosts) for name in criteria.stages if not STAGES[name].void_by}
    answers = sum(len(result.hosts) for result in results)
    start = StageEstimate(CALL, len(hosts), CALL_S + JUDGED_S * answers, "former runs are judged")
    return [start, *estimates(criteria, left, forks, results, done)]


def estimates(
    criteria: Criteria,
    left: Mapping[str, int],
    forks: int,
    results: Sequence[StageResult] = (),
    done: Mapping[str, int] = MappingProxyType({}),
) -> list[StageEstimate]:
    """Return how long each stage takes that ``left`` has hosts for.

    ``done`` is how many runs of a stage stand already, of those that the criteria want. What the
    last run of a stage took here, against its plan, comes before the plan.
    """
    of_plan: dict[str, float] = {}
    for result, took_s in zip(results, _took_s(results), strict=True):
        if result.stage in left and _tells_time(result):
            planned_s = _planned(criteria, result.stage, len(result.hosts), forks)
            of_plan[result.stage] = took_s / planned_s
    made = []
    for name in criteria.stages:
        hosts = left.get(name, 0)
        if not hosts:
            continue
        planned_s = _planned(criteria, name, hosts, forks)
        planned_s *= criteria.repeats - done.get(name, 0) if name == "collectives" else 1
        by = "as the last took here" if name in of_plan else PLANNED.get(name, "as planned")
        made.append(StageEstimate(name, hosts, planned_s * of_plan.get(name, 1.0), by))
    return made


def _tells_time(result: StageResult) -> bool:
    """Whether a run went to its end, and measured anything: hosts that are down take no time."""
    states = {each.state for host in result.hosts.values() for each in host.evidence}
    return bool(result.finished and not result.interrupted and states - {NOT_MEASURED})


def _planned(criteria: Criteria, stage: str, hosts: int, forks: int) -> float:
    """Return the seconds of a stage once on so many hosts, by what its visits are given."""
    batches = 1 if STAGES[stage].over_hosts or stage == STATE else -(-hosts // forks)
    rounds = hosts - 1 + hosts % 2
    return (
        batches
        * {
            "inventory": VISIT_S,
            "state": STATE_S,
            "idle": VISIT_S,
            "prove": VISIT_S + START_S + PROVE_S,
            "load": VISIT_S + START_S + criteria.burn_in_s + COOL_DOWN_S + COPIES_S,
            "dcgm": VISIT_S + DCGM_S,
            "collectives": VISIT_S + START_S + COLLECTIVES_S,
            "pairs": VISIT_S + START_S + GROUP_S * rounds,
            "rails": VISIT_S + START_S + GROUP_S,
            "all": VISIT_S + START_S + GROUP_S,
        }[stage]
    )


def _took_s(results: Sequence[StageResult]) -> Iterator[float]:
    """Yield what each run took, with the judging after it, which ends where the next one begins."""
    for result, following in zip_longest(results, results[1:]):
        start_s, end_s = _seconds(result.started), _seconds(result.finished)
        next_s = _seconds(following.started) if following else 0.0
        yield (next_s if 0 <= next_s - end_s < SAME_CALL_S else end_s) - start_s


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() if time else 0.0
