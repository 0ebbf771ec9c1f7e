"""What an operator sees on the terminal: the verdict, the hosts, what to do."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hwcheck.fold import fold
from hwcheck.judge.records import Judgement
from hwcheck.recommend.records import Action, Advice
from hwcheck.render import words
from hwcheck.render.view import HostView, busbw_range, host_views
from hwcheck.results import Run
from hwcheck.text import line

STYLES = {
    "fail": "bold red",
    "inconclusive": "bold magenta",
    "warn": "bold yellow",
    "pass": "green",
}
MOST_ROWS = 20
MOST_ACTIONS = 12


def terminal(run: Run, judgement: Judgement, advice: Advice) -> RenderableType:
    """Return what Rich prints. All text is ``Text``, so markup from a node stays text."""
    parts: list[RenderableType] = [
        Text(words.verdict(judgement), style=STYLES[judgement.outcome]),
        Text(f"Coverage: {words.coverage(judgement)}."),
        *(Text(f"Note: {note}", style="yellow") for note in words.notes(run)),
        Text(),
        _hosts(run, judgement),
    ]
    if advice.actions:
        parts += [Text(), Text("What to do", style="bold"), *_actions(advice)]
    parts += [
        Text(),
        Text.assemble(("NCCL: ", "bold"), line(advice.nccl.summary, 1000)),
        Text(f"Report: {run.path / 'report.html'}", no_wrap=True, overflow="fold"),
    ]
    return Group(*parts)


def _hosts(run: Run, judgement: Judgement) -> Table:
    """Return a row for each kind of outcome: hosts that say the same are folded into one."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("outcome", "hosts", "measured", "GPUs", "busbw, default leg", "why"):
        table.add_column(column, overflow="fold")
    rows: dict[tuple[str, ...], list[HostView]] = {}
    for view in host_views(run, judgement):
        verdict = view.verdict
        measured = f"{verdict.measured} of {verdict.asked}"
        key = (verdict.outcome, measured, view.gpus, line(view.why, 160))
        rows.setdefault(key, []).append(view)
    for (outcome, measured, gpus, why), views in list(rows.items())[:MOST_ROWS]:
        table.add_row(
            Text(words.OUTCOME_WORDS[outcome], style=STYLES[outcome]),
            Text(fold(view.name for view in views)),
            Text(measured),
            Text(gpus),
            Text(busbw_range(views)),
            Text(why),
        )
    if len(rows) > MOST_ROWS:
        left = sum(len(views) for views in list(rows.values())[MOST_ROWS:])
        table.add_row(Text("..."), Text(f"{left} more hosts, see the report"))
    return table


def _actions(advice: Advice) -> Iterator[RenderableType]:
    for index, action in enumerate(advice.actions[:MOST_ACTIONS], 1):
        yield Text.assemble(
            f"{index}. ",
            (words.OUTCOME_WORDS[action.outcome], STYLES[action.outcome]),
            f" {line(action.check or 'no whole answer', 80)} on {fold(action.hosts)}",
        )
        yield Padding(Group(*_action_lines(action)), (0, 0, 0, 3))
    left = len(advice.actions) - MOST_ACTIONS
    if left > 0:
        yield Text(f"and {left} more, see the report")


def _action_lines(action: Action) -> Iterator[Text]:
    for text in action.evidence[:3]:
        yield Text(line(text.partition("; source: ")[0], 400))
    if len(action.evidence) > 3:
        yield Text(f"and {len(action.evidence) - 3} more lines, see the report")
    yield Text(f"Likely cause: {line(action.cause, 400)}")
    yield Text(f"Do: {line(action.fix, 400)}")
    if action.command:
        yield Text(f"Look with: {line(action.command, 400)}")
    if action.role:
        yield Text(f"Ansible role: {line(action.role, 100)}")
