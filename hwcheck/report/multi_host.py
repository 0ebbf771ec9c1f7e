"""Runs over several hosts, for every report: the whole set, the matrix of pairs, the suspects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hwcheck.fold import fold
from hwcheck.judge.published import METRIC as PUBLISHED
from hwcheck.judge.records import Finding
from hwcheck.report.pair_matrix import PairMatrix, pair_matrix
from hwcheck.report.topology import aligned
from hwcheck.report.words import EXERCISE
from hwcheck.results.multi_host import MNNVL_OFF, MultiHostRecord, MultiHostRun, Suspect
from hwcheck.results.training import TrainingRun
from hwcheck.results.transport import in_words
from hwcheck.text import binary_size, count, line, number

MATRIX_HOSTS = 32
"""The pairs of more hosts are not shown; ``group.json`` has them."""

MOST_WAYS = 4


@dataclass(frozen=True)
class RunView:
    """One run over more than a pair, in words."""

    why: str
    hosts: str
    figure: str
    bad: bool


@dataclass(frozen=True)
class MultiHostView:
    """What reports show of runs over several hosts.

    ``matrix`` (text) and ``matrices`` (cells) are empty where no pairs were run, or too many.
    """

    scopes: str
    hosts: str
    exercise: str
    runs: tuple[RunView, ...]
    matrix: str
    matrices: tuple[PairMatrix, ...]
    matrix_note: str
    suspects: tuple[tuple[str, str, tuple[str, ...]], ...]
    remarks: tuple[str, ...]


def multi_host_view(record: MultiHostRecord, findings: Iterable[Finding] = ()) -> MultiHostView:
    """Return the view of a record; deterministic. Of the findings it shows published figures."""
    pairs = [run for run in record.runs if run.why == "pairs"]
    timed = {
        run.collective: [each for each in pairs if each.collective == run.collective]
        for run in pairs
    }
    larger = [run for run in record.runs if run.why in ("all", MNNVL_OFF) or run.why[:5] == "rail "]
    paired = {name for run in pairs for name in run.hosts}
    names = [name for name in record.hosts if name in paired]
    shown = 0 < len(names) <= MATRIX_HOSTS
    note = ""
    if pairs:
        sizes = {binary_size(run.sizes[-1].size_bytes) for run in pairs if run.sizes}
        note = (
            f"busbw in GB/s of {', '.join(timed)} between two hosts at {', '.join(sorted(sizes))}"
        )
        note += "" if shown else f"; {len(names)} hosts are too many to show, see group.json"
    return MultiHostView(
        scopes=", ".join(record.scopes),
        hosts=fold(record.hosts),
        exercise=EXERCISE if record.backend == "gloo" else "",
        runs=tuple(_run_view(run) for run in larger),
        matrix="\n\n".join(_matrices(names, timed)) if shown else "",
        matrices=tuple(_pair_matrices(names, timed)) if shown else (),
        matrix_note=note,
        suspects=tuple(_suspect(suspect) for suspect in record.suspects),
        remarks=(*_remarks(record), *_published(findings)),
    )


def multi_host_line(view: MultiHostView) -> str:
    """Return the result in one line, for a terminal."""
    parts = [f"{name} {kind}" for name, kind, _ in view.suspects] or ["nothing stands out"]
    parts += [f"{run.why} {run.figure}" for run in view.runs]
    parts += [view.exercise] if view.exercise else []
    return f"{view.scopes} over {view.hosts}: " + "; ".join([*parts, *view.remarks])


def _run_view(run: MultiHostRun) -> RunView:
    outcome = run.outcome
    figure = outcome.kind
    if outcome.kind == "ok":
        size = run.sizes[-1]
        figure = f"{number(size.busbw_gbps)} GB/s at {binary_size(size.size_bytes)}"
    names = {"all": "all hosts", MNNVL_OFF: "without MNNVL"}
    why = f"{names.get(run.why, run.why)}, {run.collective}"
    why += f" {run.dtype}" if run.dtype != "float" else ""
    reason = f" ({line(run.reason)})" if run.reason else ""
    return RunView(why, fold(run.hosts), f"{figure}{reason}", outcome.kind != "ok")


def _matrices(names: list[str], timed: dict[str, list[MultiHostRun]]) -> Iterator[str]:
    for collective, pairs in timed.items():
        title = [f"{collective}:"] if len(timed) > 1 else []
        yield "\n".join([*title, *aligned(_matrix(names, pairs))])


def _pair_matrices(names: list[str], timed: dict[str, list[MultiHostRun]]) -> Iterator[PairMatrix]:
    for collective, pairs in timed.items():
        figures: dict[tuple[str, str], float | str] = {}
        for run in pairs:
            outcome, (one, other) = run.outcome, run.hosts[:2]
            figure = float(outcome.busbw_gbps) if outcome.kind == "ok" else outcome.kind
            figures[one, other] = figures[other, one] = figure
        yield pair_matrix(collective, names, figures)


def _matrix(names: list[str], pairs: list[MultiHostRun]) -> list[list[str]]:
    cells = {frozenset(run.hosts): _cell(run) for run in pairs}
    rows = [["", *names]]
    for one in names:
        busbw = ["." if one == other else cells.get(frozenset((one, other)), "") for other in names]
        rows.append([one, *busbw])
    return rows


def _cell(run: MultiHostRun) -> str:
    outcome = run.outcome
    return number(float(f"{outcome.busbw_gbps:.3g}")) if outcome.kind == "ok" else outcome.kind


def _suspect(suspect: Suspect) -> tuple[str, str, tuple[str, ...]]:
    name = " with ".join(suspect.hosts)
    return name, suspect.kind, tuple(line(text) for text in suspect.evidence)


def _published(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return the comparisons with published figures, each once."""
    texts = (f"{one.subject}: {one.reason}" for one in findings if one.metric == PUBLISHED)
    return tuple(dict.fromkeys(map(line, texts)))


def _remarks(record: MultiHostRecord) -> Iterator[str]:
    if not record.finished:
        yield "The runs over several hosts were cut short; what follows is what was measured."
    for host, reason in record.absent.items():
        yield f"{host} took no part: {line(reason.text)}"
    for text, hosts in (*_by_text(record.warnings), *_by_text(record.not_compared)):
        yield f"{fold(hosts)}: {line(text)}"
    yield from _settings_and_ways(record)
    yield from (line(reason.text) for reason in record.unresolved)
    yield from (line(text) for text in record.notes)
    yield from left_over(record.runs)


def left_over(runs: Iterable[MultiHostRun] | Iterable[TrainingRun]) -> Iterator[str]:
    """Yield what runs could not end or remove."""
    for run in runs:
        for host, several in run.left_over.items():
            yield from (f"left over: {host}: {line(reason.text)}" for reason in several)


def _settings_and_ways(record: MultiHostRecord) -> Iterator[str]:
    """Say which NCCL settings were in force, and which way the data took."""
    if record.backend != "nccl":
        return
    legs = {
        "site": "Leg site: NCCL as the hosts are set",
        "default": "Leg default: no NCCL setting of the hosts, but the interface to meet over",
    }
    if record.leg:
        yield legs[record.leg] + ("" if record.settings or record.leg != "site" else "; none is")
    for text, hosts in _by_text(record.settings):
        yield f"{fold(hosts)}: {line(text)}"
    ways: dict[str, int] = {}
    for run in record.runs:
        for text in dict.fromkeys(in_words(each.facts) for each in run.transport):
            ways[text] = ways.get(text, 0) + 1
    shown = sorted(ways, key=lambda text: (-ways[text], text))[:MOST_WAYS]
    yield from (f"{line(text)} (in {count(ways[text], 'run')})" for text in shown)
    if len(ways) > MOST_WAYS:
        yield f"and {len(ways) - MOST_WAYS} more ways of the data, see group.json"


def _by_text(texts: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    for text in dict.fromkeys(texts.values()):
        yield text, [host for host, each in texts.items() if each == text]
