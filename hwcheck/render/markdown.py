"""``report.md``: for a ticket or a merge request. GitHub's Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from hwcheck.advise.nccl_files import nccl_env
from hwcheck.advise.records import Action, Advice
from hwcheck.fold import fold
from hwcheck.judge.coverage import gaps
from hwcheck.judge.legs import wrong_elements
from hwcheck.judge.records import Judgement
from hwcheck.render import words
from hwcheck.render.causes import CONFIRM, cause_parts, explained_in_a_line
from hwcheck.render.gates import gate_lines
from hwcheck.render.legs import leg_figure
from hwcheck.render.multi_host import GroupView, group_view
from hwcheck.render.topology import topologies
from hwcheck.render.view import CheckView, HostView, host_views
from hwcheck.results.multi_host import GroupRecord
from hwcheck.results.run_folder import Run
from hwcheck.text import block, line

MOST_HOSTS = 64
"""Hosts that passed are folded into one line in a larger run."""

LOGS = 10
LOG_CHARACTERS = 1500

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|~$:@^=])")


def markdown(
    run: Run, judgement: Judgement, advice: Advice, group: GroupRecord | None = None
) -> str:
    """Return the report as Markdown; ``group`` is what was run over several hosts."""
    parts = [
        *_summary(run, judgement),
        *_causes(advice),
        *_actions(advice),
        *_nccl(advice),
        *(_group(group_view(group)) if group else ()),
        *_gates(run),
        *_coverage(judgement),
        *_topology(run),
        *_hosts(run, judgement),
        *_asked(run, judgement),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _summary(run: Run, judgement: Judgement) -> Iterator[str]:
    yield f"# hwcheck: {_escape(words.verdict(judgement))}"
    yield ""
    yield f"Coverage: {_escape(words.coverage(judgement))}\\."
    for note in words.notes(run):
        yield f"\n> {_escape(note)}"
    yield ""
    rows = [(g.word, str(g.amount), g.hosts) for g in words.outcome_groups(judgement)]
    yield from _table(("outcome", "hosts", "names"), rows)


def _causes(advice: Advice) -> Iterator[str]:
    if advice.causes.diagnoses:
        yield "\n## Causes\n"
    for index, cause in enumerate(advice.causes.diagnoses, 1):
        word = words.OUTCOME_WORDS[cause.outcome]
        yield f"### {index}\\. {word}: {_escape(cause.title)}\n"
        yield f"- hosts: {_escape(fold(cause.hosts), 4000)}"
        yield from (f"- observed: {_escape(text, 400)}" for text in cause.observed)
        for name, text in cause_parts(cause):
            if name != CONFIRM:
                yield f"- {name.lower()}: {_escape(text, 1000)}"
        yield from _code(cause.command)


def _actions(advice: Advice) -> Iterator[str]:
    yield "\n## What to do\n"
    explained = explained_in_a_line(advice)
    if explained:
        yield f"The causes above explain: {_escape(explained, 1000)}\\.\n"
    if not advice.open_actions:
        yield f"Nothing{' besides' if explained else ''}\\."
    for index, action in enumerate(advice.open_actions, 1):
        yield from _action(index, action)


def _action(index: int, action: Action) -> Iterator[str]:
    name = _escape(action.title)
    word = words.OUTCOME_WORDS[action.outcome]
    yield f"### {index}\\. {word}: {name} on {_escape(fold(action.hosts), 4000)}\n"
    for text in action.evidence:
        yield f"- evidence: {_escape(text, 1000)}"
    yield f"- likely cause: {_escape(action.cause, 1000)}"
    yield f"- do: {_escape(action.fix, 1000)}"
    if action.role:
        yield f"- Ansible role: {_escape(action.role)}"
    if action.command:
        yield from _code(action.command)
    yield ""


def _nccl(advice: Advice) -> Iterator[str]:
    yield "\n## NCCL settings\n"
    yield _escape(advice.nccl.summary, 2000)
    yield ""
    yield from (f"- {_escape(text, 1000)}" for text in advice.nccl.evidence)
    yield from (f"- {_escape(text, 1000)}" for text in advice.nccl.unset)
    if advice.nccl.settings:
        yield from _code(nccl_env(advice.nccl))
    if advice.groups:
        yield "\n" + _escape(words.GROUPS, 1000) + "\n"
    for group in advice.groups:
        yield f"### {_escape(group.name)}: {_escape(group.alike, 400)}\n"
        yield f"- hosts: {_escape(fold(group.hosts), 4000)}"
        yield f"- {_escape(group.nccl.summary, 2000)}"
        if group.nccl.settings:
            yield from _code(nccl_env(group.nccl))


def _group(view: GroupView) -> Iterator[str]:
    yield "\n## Between hosts\n"
    yield f"Scopes {_escape(view.scopes)} over {_escape(view.hosts, 4000)}\\."
    for text in (view.exercise, *view.remarks):
        if text:
            yield f"\n> {_escape(text, 1000)}"
    for name, kind, evidence in view.suspects:
        yield f"\n### {_escape(name)}: {kind}\n"
        yield from (f"- {_escape(text, 1000)}" for text in evidence)
    if not view.suspects:
        yield "\nNo host and no link stands out\\."
    if view.runs:
        yield ""
        rows = ((run.why, run.hosts, run.figure) for run in view.runs)
        yield from _table(("run", "hosts", "busbw"), rows)
    if view.matrix:
        yield from _code(view.matrix)
    if view.matrix_note:
        yield _escape(view.matrix_note)


def _gates(run: Run) -> Iterator[str]:
    lines = [f"- {_escape(text, 1000)}" for text in gate_lines(run)]
    if lines:
        yield "\n## Proven gates\n"
        yield from lines


def _coverage(judgement: Judgement) -> Iterator[str]:
    yield "\n## Coverage\n"
    yield _escape(words.coverage(judgement), 2000) + "\\."
    rows = [(fold(gap.hosts), ", ".join(gap.checks), words.why_not(gap)) for gap in gaps(judgement)]
    if rows:
        yield ""
        yield from _table(("hosts", "not measured", "why"), rows)


def _topology(run: Run) -> Iterator[str]:
    found = topologies(run)
    if not found.matrices:
        return
    yield "\n## Topology\n"
    for matrix in found.matrices:
        yield f"{_escape(matrix.hosts, 4000)}:"
        yield f"\n```text\n{matrix.text}\n```\n"  # nothing in it means anything to Markdown
    if found.left_out:
        yield f"Other matrices, in the run folder: {_escape(found.left_out, 4000)}\n"
    yield f"```text\n{found.legend}\n```"


def _hosts(run: Run, judgement: Judgement) -> Iterator[str]:
    yield "\n## Hosts\n"
    views = list(host_views(run, judgement))
    passed = [view for view in views if view.verdict.outcome == "pass"]
    shown = views
    if len(views) > MOST_HOSTS:
        shown = [view for view in views if view.verdict.outcome != "pass"]
        yield f"Passed: {_escape(fold(view.name for view in passed), 4000)}\n"
    header = ("host", "outcome", "measured", "GPUs", "busbw, default leg", "why")
    yield from _table(header, (_host_row(view) for view in shown))
    logs_left = LOGS
    for view in shown:
        lines = list(_host_details(view, logs=logs_left > 0))
        if lines:
            logs_left -= any(leg.log_tail for check in view.checks for leg in check.legs)
            yield f"\n### {_escape(view.name)}\n"
            yield from lines


def _host_row(view: HostView) -> tuple[str, ...]:
    verdict = view.verdict
    measured = f"{verdict.measured} of {verdict.asked}"
    word = words.OUTCOME_WORDS[verdict.outcome]
    return view.name, word, measured, view.gpus, view.busbw, line(view.why, 160)


def _host_details(view: HostView, *, logs: bool) -> Iterator[str]:
    """Yield what did not pass, what does not apply, and the legs."""
    if view.record.report is None:  # the same reason stands for every check
        yield f"- {_escape(view.verdict.reason)}; no check was measured"
        return
    for check in view.checks:
        if check.outcome == "not applicable":
            yield f"- {_escape(check.check)}: not applicable \\({_escape(check.reason)}\\)"
        elif check.outcome not in ("pass", "recorded"):
            yield from _bad_check(check)
    for check in view.checks:
        if check.exercise:
            yield f"- {_escape(check.check)}: {_escape(words.EXERCISE)}"
        for leg in check.legs:
            name = f"{_escape(leg.collective, 60)}, leg {_escape(leg.leg, 60)}"
            yield f"- {name}: {_escape(leg_figure(leg))}"
            bad = leg.state in ("hang", "failed") or wrong_elements(leg) > 0
            if bad and leg.log_tail and logs:
                yield from _code(block(leg.log_tail, LOG_CHARACTERS))


def _bad_check(check: CheckView) -> Iterator[str]:
    reason = f": {_escape(check.reason)}" if check.reason else ""
    yield f"- {_escape(check.check)} {words.OUTCOME_WORDS[check.outcome]}{reason}"
    for row in check.rows:
        if row.outcome not in ("pass", "recorded"):
            text = f"{row.metric} {row.value} of {row.subjects}; {row.limit}; {row.source}"
            yield f"  - {_escape(text, 1000)}"


def _asked(run: Run, judgement: Judgement) -> Iterator[str]:
    meta = run.meta
    yield "\n## What was asked\n"
    rows = (
        ("run", meta.id),
        ("time", f"{meta.started} to {meta.finished or 'not finished'} (UTC)"),
        ("inventory", meta.inventory + (f", limit {meta.limit}" if meta.limit else "")),
        ("profile", meta.profile),
        ("checks", ", ".join(meta.checks)),
        ("payload", meta.payload_sha256 or "none sent"),
        ("version", f"hwcheck {meta.version}"),
        ("exit code", str(judgement.exit_code)),
    )
    yield from _table(("what", "value"), rows)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(_escape(cell, 4000) for cell in row)} |"


def _code(text: str) -> Iterator[str]:
    """Fence a text; the fence is longer than any run of backticks in it."""
    longest = max((len(found) for found in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"\n{fence}text\n{block(text).rstrip()}\n{fence}\n"


def _escape(text: str, limit: int = 300) -> str:
    """Return one line in which no character means anything to Markdown or HTML."""
    plain = line(text, limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", plain)
