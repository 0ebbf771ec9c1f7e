"""What an operator sees on the terminal: the verdict, the hosts, what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hwcheck.advise.assessment import Assessment
from hwcheck.advise.records import Action, Advice
from hwcheck.fold import fold
from hwcheck.report import words
from hwcheck.report.decision import decide, decision
from hwcheck.report.gates import gate_line, gate_views
from hwcheck.report.multi_host import multi_host_line, multi_host_view
from hwcheck.report.training import COLUMNS, TrainingTable, TrainingView, training_view
from hwcheck.report.view import HostView, busbw_range, host_views
from hwcheck.report.waivers import waiver_views
from hwcheck.report.wrap import Wrapped
from hwcheck.text import line

MOST_ROWS = 20
MOST_ACTIONS = 12
MOST_TABLES = 3
STEP_COLUMNS = ("strategy", "ranks", "step", "of one GPU", "exposed", "peak memory")
TABLE_COLUMNS = 85
"""So wide must a terminal be, besides the names of the hosts, for a table that can be read."""


def terminal(assessment: Assessment, folder: Path | None = None) -> RenderableType:
    """Return what Rich prints; the reports are in ``folder``, or else in the run folder.

    All text is ``Text``, so markup from a node stays text.
    """
    run, judgement, advice = assessment.run, assessment.judgement, assessment.advice
    groups = decide(run, judgement, assessment.catalogue.checks)
    parts: list[RenderableType] = [
        Wrapped((decision(groups, judgement.fabric), words.STYLES[judgement.outcome])),
        Wrapped(words.verdict(judgement)),
        Wrapped(f"Coverage: {words.coverage(judgement)}."),
        *(Wrapped((f"Note: {note}", "yellow")) for note in words.notes(run)),
        Text(),
        _Hosts(tuple(_rows(assessment))),
    ]
    if advice.causes.diagnoses:
        parts += [Text(), Text("Causes", style="bold"), *_causes(advice)]
    if advice.open_actions:
        besides = " besides" if advice.causes.diagnoses else ""
        parts += [Text(), Text(f"What to do{besides}", style="bold"), *_actions(advice)]
    waivers = waiver_views(judgement)
    if waivers:
        parts += [Text(), Text("Waivers", style="bold")]
        parts += [Wrapped(line(waiver.text, 1000), indent=3) for waiver in waivers[:MOST_ACTIONS]]
        if len(waivers) > MOST_ACTIONS:
            parts.append(
                Wrapped(f"and {len(waivers) - MOST_ACTIONS} more, see the report", indent=3)
            )
    if assessment.multi_host is not None:
        findings = assessment.judgement.findings
        text = multi_host_line(multi_host_view(assessment.multi_host, findings))
        parts += [Text(), Wrapped(("Between hosts: ", "bold"), text)]
    if assessment.training is not None:
        parts += _training(training_view(assessment.training, assessment.catalogue.models))
    gates = gate_views(run)
    if gates:
        parts += [Text(), Text("Proven gates", style="bold")]
        parts += [Wrapped(line(gate_line(gate), 400), indent=3) for gate in gates]
    parts += [
        Text(),
        Wrapped(("NCCL: ", "bold"), line(advice.nccl.summary, 1000)),
        *_nccl_groups(advice),
        Wrapped(f"Report: {(folder or run.path) / 'report.html'}"),
    ]
    return Group(*parts)


def _training(view: TrainingView) -> Iterator[RenderableType]:
    for table in view.tables[:MOST_TABLES]:
        yield from (Text(), Wrapped(("Training on ", "bold"), table.title))
        yield from _steps(table)
        yield from (Wrapped(f"not applicable: {each}", indent=3) for each in table.not_applicable)
    yield from (Text(),) if view.tables else (Text(), Text("Training", style="bold"))
    if len(view.tables) > MOST_TABLES:
        yield Wrapped(f"and on {len(view.tables) - MOST_TABLES} more, see the report", indent=3)
    texts = (*view.sentences, *view.controls, *view.remarks, view.exercise)
    yield from (Wrapped(text, indent=3) for text in texts if text)


def _steps(table: TrainingTable) -> Iterator[RenderableType]:
    """Yield the strategies that have a time as a table, and why each other one has none."""
    steps = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in STEP_COLUMNS:
        steps.add_column(name, justify="left" if name == STEP_COLUMNS[0] else "right")
    for row in table.rows:
        if not row.state:
            steps.add_row(*(Text(row.cells[COLUMNS.index(name)]) for name in STEP_COLUMNS))
    if steps.row_count:
        yield Padding(steps, (0, 0, 0, 3))
    for row in table.rows:
        if row.state:
            style = words.STYLES["fail"] if row.bad else ""
            yield Wrapped((f"{row.cells[0]} on {row.cells[1]}: ", style), row.state, indent=3)


@dataclass(frozen=True)
class _Row:
    """Hosts that say the same, folded into one."""

    outcome: str
    word: str
    hosts: str
    measured: str
    gpus: str
    busbw: str
    why: str


def _rows(assessment: Assessment) -> Iterator[_Row]:
    rows: dict[tuple[str, ...], list[HostView]] = {}
    for view in host_views(assessment):
        verdict = view.verdict
        measured = f"{verdict.measured} of {verdict.asked}"
        outcome = words.with_waived(words.OUTCOME_WORDS[verdict.outcome], verdict)
        key = (verdict.outcome, outcome, measured, view.gpus, line(view.why, 160))
        rows.setdefault(key, []).append(view)
    for (outcome, word, measured, gpus, why), views in list(rows.items())[:MOST_ROWS]:
        names = fold(view.name for view in views)
        yield _Row(outcome, word, names, measured, gpus, busbw_range(views), why)
    if len(rows) > MOST_ROWS:
        left = sum(len(views) for views in list(rows.values())[MOST_ROWS:])
        yield _Row("", "...", f"{left} more hosts, see the report", "", "", "", "")


@dataclass(frozen=True)
class _Hosts:
    """A table where there is room for one, otherwise a block for each row."""

    rows: Sequence[_Row]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield one or the other."""
        names = max(cell_len(row.hosts) for row in self.rows)
        if options.max_width >= TABLE_COLUMNS + names:
            yield _table(self.rows)
        else:
            for row in self.rows:
                yield from _block(row)


def _table(rows: Sequence[_Row]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("outcome", "hosts", "measured"):
        table.add_column(column, no_wrap=True)
    for column in ("GPUs", "busbw, default leg", "why"):
        table.add_column(column, overflow="fold")
    for row in rows:
        outcome = Text(row.word, words.STYLES.get(row.outcome, ""))
        rest = (row.hosts, row.measured, row.gpus, row.busbw, row.why)
        table.add_row(outcome, *map(Text, rest))
    return table


def _block(row: _Row) -> Iterator[Wrapped]:
    if not row.outcome:
        yield Wrapped(f"and {row.hosts}")
        return
    yield Wrapped((row.word, words.STYLES[row.outcome]), f" {row.hosts}")
    for name, text in (
        ("measured", row.measured),
        ("GPUs:", row.gpus),
        ("busbw, default leg:", row.busbw),
        ("why:", row.why),
    ):
        if text:
            yield Wrapped(f"{name} {text}", indent=3)


def _causes(advice: Advice) -> Iterator[Wrapped]:
    for index, cause in enumerate(advice.causes.diagnoses[:MOST_ACTIONS], 1):
        yield Wrapped(
            f"{index}. ",
            (words.OUTCOME_WORDS[cause.outcome], words.STYLES[cause.outcome]),
            f" ({cause.confidence}) {cause.title}, on {fold(cause.hosts)}",
        )
        for text in cause.observed[:3]:
            yield Wrapped(line(text, 400), indent=3)
        for name, text in (
            ("What follows", cause.effect),
            ("Do", cause.fix),
            ("Confirm with", cause.command),
            ("Ansible role", cause.role),
            ("Explains", words.explains(cause)),
        ):
            if text:
                yield Wrapped(f"{name}: {text}", indent=3)
    left = len(advice.causes.diagnoses) - MOST_ACTIONS
    if left > 0:
        yield Wrapped(f"and {left} more, see the report")


def _actions(advice: Advice) -> Iterator[Wrapped]:
    for index, action in enumerate(advice.open_actions[:MOST_ACTIONS], 1):
        yield Wrapped(
            f"{index}. ",
            (words.OUTCOME_WORDS[action.outcome], words.STYLES[action.outcome]),
            f" {line(action.title, 80)} on {fold(action.hosts)}",
        )
        for text in _action_lines(action):
            yield Wrapped(text, indent=3)
    left = len(advice.open_actions) - MOST_ACTIONS
    if left > 0:
        yield Wrapped(f"and {left} more, see the report")


def _nccl_groups(advice: Advice) -> Iterator[Wrapped]:
    for group in advice.groups[:MOST_ACTIONS]:
        who = f"{line(group.alike, 200)} ({fold(group.hosts)})"
        yield Wrapped(f"nccl/{group.name}: {who}: {line(group.nccl.summary, 400)}", indent=3)
    left = len(advice.groups) - MOST_ACTIONS
    if left > 0:
        yield Wrapped(f"and {left} more groups, see the report", indent=3)


def _action_lines(action: Action) -> Iterator[str]:
    for text in action.evidence[:3]:
        yield line(text.partition("; source: ")[0], 400)
    if len(action.evidence) > 3:
        yield f"and {len(action.evidence) - 3} more lines, see the report"
    yield f"Likely cause: {line(action.cause, 400)}"
    yield f"Do: {line(action.fix, 400)}"
    if action.command:
        yield f"Look with: {line(action.command, 400)}"
    if action.role:
        yield f"Ansible role: {line(action.role, 100)}"
