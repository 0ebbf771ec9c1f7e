"""What a training benchmark says of each host. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hwcheck.contract import reasons
from hwcheck.contract.reasons import NONE, Reason
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
CODES = {
    "wrong_loss": reasons.WRONG_LOSS,
    "hang": reasons.HANG,
    "failed": reasons.RANK_FAILED,
    "out_of_memory": reasons.OUT_OF_MEMORY,
    "unproven": reasons.OTHER_WAY,
    "not_run": reasons.NOT_MEASURED,
}
"""What a state comes to as the code of a reason."""
CUT_SHORT = "the training benchmark was cut short"
NOTHING = "no strategy that was asked for could be trained"
UNNOTICED = "a strategy that is wrong on purpose was not noticed: parity proves nothing here"
UNPROVEN = "parity is not proven: no strategy that is wrong on purpose has a loss to compare"


def judge_training(host: HostCase) -> Iterator[Finding]:
    """Yield what a training benchmark has against a host; nothing where it had no part."""
    record = host.training
    if record is None:
        return
    if host.name in record.absent:
        began = record.began(host.name)
        code = record.absent[host.name].code if began else reasons.NO_PART
        yield unmeasured(host.name, TRAINING, Reason(code, record.absence(host.name)))
        if not began:
            return
    runs = [run for run in record.runs if host.name in run.hosts]
    for run in runs:
        if run.strategy not in CONTROLS:
            yield from _of_run(host.name, run)
    yield from _of_controls(host.name, [run for run in runs if run.strategy in CONTROLS])
    if host.name not in record.absent and not was_trained(host.name, record):
        why = dict.fromkeys(run.reason for run in runs if run.state == "not_applicable")
        text = ": ".join(filter(None, (NOTHING, "; ".join(why))))
        yield unmeasured(host.name, TRAINING, Reason(reasons.NOTHING_APPLIES, text))
    if not record.finished:
        yield unmeasured(host.name, TRAINING, Reason(reasons.RUNS_CUT_SHORT, CUT_SHORT))


def was_trained(host: str, record: TrainingRecord) -> bool:
    """Whether any strategy that was asked for came to an end on a host."""
    return any(
        host in run.hosts
        and run.state == "done"
        and (not record.strategies or run.strategy in record.strategies)
        for run in record.runs
    )


def _of_run(host: str, run: TrainingRun) -> Iterator[Finding]:
    outcome = OUTCOMES.get(run.state)
    if outcome is None:
        return
    reason = NONE if outcome == "pass" else Reason(CODES.get(run.state, ""), _what_became_of(run))
    yield Finding(host, TRAINING, outcome, subject=_subject(run), reason=reason)


def _of_controls(host: str, runs: Sequence[TrainingRun]) -> Iterator[Finding]:
    """Yield what keeps parity from being proven, where that was asked for.

    A number of ranks on which a control was noticed is enough.
    """
    unnoticed = [run for run in runs if run.state in ("done", "unproven")]  # its loss is right
    for run in unnoticed:
        yield unmeasured(host, TRAINING, Reason(reasons.NOT_MEASURED, UNNOTICED), _subject(run))
    if runs and not unnoticed and not any(run.state == "wrong_loss" for run in runs):
        last = runs[-1]
        text = f"{UNPROVEN}: {_what_became_of(last)}"
        reason = Reason(CODES.get(last.state, reasons.NOT_MEASURED), text)
        yield unmeasured(host, TRAINING, reason, _subject(runs[-1]))


def _subject(run: TrainingRun) -> str:
    return f"{run.strategy} {run.leg} on {run.ranks}"


def _what_became_of(run: TrainingRun) -> str:
    return f"{_subject(run)}: {run.state.replace('_', ' ')}: {run.reason}"
