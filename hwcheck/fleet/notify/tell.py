"""The end of a sweep: what is open is kept, who is told is told, metrics are written.

In this order, so that nothing is told twice and nothing is lost wherever it is killed: the messages
into the outbox under the sweep's id, then the file of open problems, then the messages out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hwcheck.fleet.notify import metrics, state
from hwcheck.fleet.notify.bodies import alerts, body
from hwcheck.fleet.notify.changes import Message, OpenProblem, State, Sweep, changes
from hwcheck.fleet.notify.config import Notify, Receiver
from hwcheck.fleet.notify.outbox import Outbox
from hwcheck.fleet.notify.problems import RunProblems
from hwcheck.results.files import replace_file


def tell(
    notify: Notify,
    folder: Path,
    sweep: Sweep,
    observed: Sequence[RunProblems],
    deliver: Callable[[Outbox, Sequence[Receiver]], list[str]] = Outbox.deliver,
) -> list[str]:
    """Tell what changed and write the metrics; return in words what went wrong.

    ``folder`` is there and the sweep's own. Nothing is raised for a receiver that is gone, a full
    disk or a damaged file: the next sweep tells it.
    """
    lines: list[str] = []
    outbox = Outbox(folder)
    sweep = replace(sweep, reports=tuple(_address(notify, each) for each in sweep.reports))
    try:
        former = _former(folder, lines)
        now, message = changes(former, sweep, observed, notify.remind_days)
        if former.sweep != sweep.id:
            still = {(each.problem.host, each.problem.check) for each in now.open}
            before = ((each, (each.problem.host, each.problem.check)) for each in former.open)
            ended = [each for each, key in before if key not in still]
            for receiver in notify.receivers:
                _put(outbox, receiver, sweep, message, now, ended)
            state.write(folder, now)
    except OSError as error:
        return [*lines, f"what changed cannot be kept: {folder}: {error.strerror}; nobody is told"]
    try:
        lines += deliver(outbox, notify.receivers)
    except OSError as error:
        lines.append(f"nobody is told: {error.filename or outbox.path}: {error.strerror}")
    lines += write_metrics(notify, folder, sweep, now)
    return lines


def write_metrics(notify: Notify, folder: Path, sweep: Sweep, now: State) -> list[str]:
    """Write the file for node_exporter; return in words why it could not be."""
    if notify.metrics is None:
        return []
    amounts = dict.fromkeys((receiver.name for receiver in notify.receivers), 0)
    try:
        waiting = {**amounts, **Outbox(folder).waiting()}
        text = metrics.metrics(now, sweep.inventory, sweep.hosts, waiting)
        replace_file(notify.metrics, text.encode(), mode=metrics.FILE_MODE)
    except OSError as error:
        return [f"no metrics: {notify.metrics}: {error.strerror}"]
    return []


def _former(folder: Path, lines: list[str]) -> State:
    try:
        return state.read(folder)
    except state.DamagedStateError as error:
        kept = state.put_aside(folder)
        lines.append(f"{error}; it is kept as {kept.name}, and all that is open is told again")
        return State()


def _put(
    outbox: Outbox,
    receiver: Receiver,
    sweep: Sweep,
    message: Message | None,
    now: State,
    ended: Sequence[OpenProblem],
) -> None:
    if receiver.kind == "alertmanager":
        listed = alerts(now, ended, sweep.inventory, sweep.finished, sweep.reports)
        if listed:
            outbox.put(sweep.id, receiver, listed)
    elif message is not None:
        doubtful = outbox.in_doubt(receiver.name)
        notes = tuple(f"the message of sweep {each} may not have come" for each in doubtful)
        made: Any = body(receiver.kind, replace(message, notes=(*message.notes, *notes)))
        outbox.put(sweep.id, receiver, made)
        outbox.named(receiver.name)


def _address(notify: Notify, report: str) -> str:
    if not notify.reports:
        return report
    return f"{notify.reports.rstrip('/')}/{Path(report).name}/report.html"
