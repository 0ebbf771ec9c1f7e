"""What a training benchmark says of each host. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hwcheck.judge.host_case import HostCase
from hwcheck.judge.records import TRAINING, Finding, unmeasured
from hwcheck.node.training.strategies import CONTROLS
from hwcheck.results.training import TrainingRecord, TrainingRun

OUTCOMES = {
    "done": "pass",
    "wrong_loss": "fail",
    "hang": "fail",
    "failed": "fail",
    "out_of_memory": "warn",
    "unproven": "inconclusive",
    "not_run": "inconclusive",
}
"""What a state comes to; not_applicable is no finding. A model that does not fit is no fault."""
CUT_SHORT = "the training benchmark was cut short"
NOTHING = "no strategy that was asked for could be trained"
UNNOTICED = "a strategy that is wrong on purpose was not noticed: parity proves nothing here"


def judge_training(host: HostCase) -> Iterator[Finding]:
    """Yield what a training benchmark has against a host; nothing where it had no part."""
    record = host.training
    if record is None:
        return
    if host.name in record.absent:
        yield unmeasured(host.name, TRAINING, record.absence(host.name))
        if not record.began(host.name):
            return
    runs = [run for run in record.runs if host.name in run.hosts]
    for run in runs:
        yield from _of_run(host.name, run)
    if host.name not in record.absent and not was_trained(host.name, record):
        yield unmeasured(host.name, TRAINING, NOTHING)
    if not record.finished:
        yield unmeasured(host.name, TRAINING, CUT_SHORT)


def was_trained(host: str, record: TrainingRecord) -> bool:
    """Whether any strategy that was asked for came to an end on a host."""
    return any(
        host in run.hosts
        and run.state == "done"
        and (not record.strategies or run.strategy in record.strategies)
        for run in record.runs
    )


def _of_run(host: str, run: TrainingRun) -> Iterator[Finding]:
    subject = f"{run.strategy} {run.leg} on {run.ranks}"
    if run.strategy in CONTROLS:
        if run.state == "done":
            yield unmeasured(host, TRAINING, UNNOTICED, subject)
        return
    outcome = OUTCOMES.get(run.state)
    if outcome is None:
        return
    reason = f"{subject}: {run.state.replace('_', ' ')}: {run.reason}"
    yield Finding(
        host, TRAINING, outcome, subject=subject, reason="" if outcome == "pass" else reason
    )
