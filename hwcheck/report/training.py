"""A training benchmark, for every report: steps by strategy and leg beside the published table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hwcheck.advise.training_figures import (
    PUBLISHED,
    SINGLE,
    StepFigures,
    figures_of,
    sentences,
    staged,
)
from hwcheck.contract import load_run
from hwcheck.fold import fold
from hwcheck.judge.models import Models
from hwcheck.node.training.strategies import CONTROLS, label_of
from hwcheck.report.multi_host import left_over
from hwcheck.report.svg import INK, Plot, drawing, inline_svg
from hwcheck.report.words import EXERCISE
from hwcheck.results.training import TrainingRecord, TrainingRun
from hwcheck.text import count, line, number

LEGS = {"default": "", "p2p_off": "P2P off", "net": "network only"}
GUIDE_STEPS = 200
MOST_BARS = 40
CONTROL_WORDS = {
    "wrong_loss": "noticed",
    "done": "not noticed",
    "unproven": "not noticed",
    "not_applicable": "not tried",
    "not_run": "not tried",
}
COLUMNS = (
    "strategy",
    "ranks",
    "groups",
    "step",
    "IQR",
    "of one GPU",
    "exposed",
    "tokens/s",
    "TFLOP/s per GPU (model, hardware)",
    "MFU (HFU)",
    "peak memory",
    "J/token",
)


@dataclass(frozen=True)
class StepRow:
    """One run in words; ``cells`` are those of ``COLUMNS``, the figures empty where it has none."""

    cells: tuple[str, ...]
    state: str
    bad: bool


@dataclass(frozen=True)
class InapplicableRuns:
    """Runs of so many ranks that do not apply for one reason."""

    names: tuple[str, ...]
    ranks: int
    reason: str

    def __str__(self) -> str:
        return f"{'; '.join(self.names)} on {count(self.ranks, 'rank')}: {self.reason}"


@dataclass(frozen=True)
class GuideRow:
    """A published row beside ours: seconds of 200 steps, and the ratio to one GPU."""

    words: str
    published: str
    published_ratio: str
    ours: str
    our_ratio: str


@dataclass(frozen=True)
class TrainingTable:
    """The runs of one set of hosts; of those that do not apply only why, by ranks and reason."""

    title: str
    rows: tuple[StepRow, ...]
    not_applicable: tuple[InapplicableRuns, ...]
    guide: tuple[GuideRow, ...]


@dataclass(frozen=True)
class TrainingView:
    """What reports show of a training benchmark."""

    asked: str
    exercise: str
    tables: tuple[TrainingTable, ...]
    sentences: tuple[str, ...]
    remarks: tuple[str, ...]
    controls: tuple[str, ...]
    columns: tuple[str, ...] = COLUMNS
    source: str = f"{PUBLISHED[-1].source}; the row of one GPU by {PUBLISHED[0].source}"


def training_view(record: TrainingRecord, models: Models) -> TrainingView:
    """Return the view of a record; deterministic."""
    shape = record.model
    tf32 = f", TF32 {'on' if record.tf32 else 'off'}" if record.dtype == "fp32" else ""
    return TrainingView(
        asked=(
            f"{line(shape.name, 80)}: {count(shape.layers, 'layer')}, hidden {shape.hidden}, "
            f"{shape.heads} heads, vocabulary {shape.vocabulary}, sequence {shape.sequence}, "
            f"{shape.parameters / 1e6:.4g} million parameters; {record.dtype}{tf32}, micro-batch "
            f"{record.micro_batch}, {record.repeats} x {record.steps} steps after {record.warmup}; "
            f"a loss may differ by {record.tolerance:g} of that of one process"
        ),
        exercise=EXERCISE if any(not each.gpus for each in record.sets) else "",
        tables=tuple(_tables(record, models)),
        sentences=tuple(sentences(record, models)),
        remarks=tuple(_remarks(record)),
        controls=tuple(_controls(record)),
    )


def _tables(record: TrainingRecord, models: Models) -> Iterator[TrainingTable]:
    for each in record.sets:
        runs = [run for run in record.runs if run.hosts == each.hosts]
        asked = [run for run in runs if run.strategy not in CONTROLS]
        what = f"{each.gpus} x {line(each.gpu, 80)}" if each.gpus else "CPU"
        yield TrainingTable(
            f"{fold(each.hosts)}: {what}, torch {line(each.torch, 40)}",
            tuple(_row(record, run, models) for run in asked if run.state != "not_applicable"),
            tuple(_not_applicable([run for run in asked if run.state == "not_applicable"])),
            tuple(_guide(record, runs, models)),
        )


def _not_applicable(runs: list[TrainingRun]) -> Iterator[InapplicableRuns]:
    names: dict[tuple[int, str], dict[str, None]] = {}
    for run in runs:
        reason = line(run.reason, 1000).removeprefix(f"{label_of(run.strategy)} ")
        names.setdefault((run.ranks, reason), {})[_name(run)] = None
    for (ranks, reason), of_these in names.items():
        yield InapplicableRuns(tuple(of_these), ranks, reason)


def _row(record: TrainingRecord, run: TrainingRun, models: Models) -> StepRow:
    figures = figures_of(record, run, models)
    name, groups = _name(run), str(run.degrees) if run.sequences else ""
    if figures is None:
        reason = f"{run.state.replace('_', ' ')}: {line(run.reason, 1000)}"
        cells = (name, str(run.ranks), groups, *[""] * (len(COLUMNS) - 3))
        bad = run.state in ("wrong_loss", "hang", "failed")
        return StepRow(cells, reason, bad)
    return StepRow((name, str(run.ranks), groups, *_cells(figures)), "", False)


def _cells(figures: StepFigures) -> Iterator[str]:
    yield _milliseconds(figures.step_s)
    yield _milliseconds(figures.iqr_s)
    yield f"{figures.ratio:.2f}" if figures.ratio is not None else ""
    yield _milliseconds(figures.exposed_s) if figures.exposed_s is not None else ""
    yield f"{float(f'{figures.tokens_per_s:.4g}'):,.15g}"
    yield f"{figures.tflops:.3g}, {figures.hardware_tflops:.3g}"
    has_peak = figures.mfu is not None and figures.hfu is not None
    yield f"{figures.mfu:.1%} ({figures.hfu:.1%})" if has_peak else ""
    yield f"{figures.peak_bytes / 2**30:.2f} GiB" if figures.peak_bytes else ""
    joules = figures.joules_per_token
    yield f"{joules:.3g}" if joules is not None else ""


def _name(run: TrainingRun) -> str:
    leg = LEGS.get(run.leg, run.leg)
    if leg and staged(run):
        leg += ", host-staged"
    label = label_of(run.strategy)
    return f"{label}, {leg}" if leg else label


def _milliseconds(seconds: float) -> str:
    return f"{number(float(f'{seconds * 1e3:.3g}'))} ms"


def _guide(record: TrainingRecord, runs: list[TrainingRun], models: Models) -> Iterator[GuideRow]:
    """Yield the published rows beside ours of the fewest ranks."""
    alone = PUBLISHED[0].seconds
    ranks = min((run.ranks for run in runs if run.ranks > 1), default=0)
    for row in PUBLISHED:
        many = 1 if row.strategy == SINGLE else ranks
        ours = next(
            (
                figures
                for run in runs
                if (run.strategy, run.leg, run.ranks) == (row.strategy, row.leg, many)
                and (figures := figures_of(record, run, models)) is not None
            ),
            None,
        )
        yield GuideRow(
            row.words,
            f"{row.seconds:.1f} s",
            f"{row.seconds / alone:.2f}",
            f"{ours.step_s * GUIDE_STEPS:.4g} s" if ours else "",
            f"{ours.ratio:.2f}" if ours and ours.ratio is not None else "",
        )


def _controls(record: TrainingRecord) -> Iterator[str]:
    """Yield whether each strategy that is wrong on purpose was noticed, or why it has no loss."""
    for run in record.runs:
        if run.strategy in CONTROLS:
            word = CONTROL_WORDS.get(run.state, f"it has no loss: {run.state.replace('_', ' ')}")
            reason = f": {line(run.reason, 400)}" if run.reason else ""
            yield f"{label_of(run.strategy)} on {run.ranks}, wrong on purpose: {word}{reason}"


def _remarks(record: TrainingRecord) -> Iterator[str]:
    if not record.finished:
        yield "The training benchmark was cut short; what follows is what was measured."
    for host in record.absent:
        yield f"{host} {line(record.absence(host))}"
    yield from _held_down(record)
    yield from (line(text) for text in record.notes)
    yield from left_over(record.runs)


HELD_DOWN = {
    load_run.SW_POWER_CAP: "the power cap",
    load_run.HW_SLOWDOWN: "a hardware slowdown",
    load_run.SW_THERMAL: "heat",
    load_run.HW_THERMAL: "heat (hardware)",
    load_run.HW_POWER_BRAKE: "the power brake",
}


def _held_down(record: TrainingRecord) -> Iterator[str]:
    """Yield what held the clocks of GPUs down while steps were timed, and of which."""
    runs: dict[str, dict[str, None]] = {}
    for run in record.runs:
        for gpu in run.gpus:
            for bit, words in HELD_DOWN.items():
                if (gpu.clock_events or 0) & bit:
                    runs.setdefault(words, {})[f"{gpu.host} {gpu.subject}"] = None
    for words, gpus in runs.items():
        shown = ", ".join(list(gpus)[:8]) + (" ..." if len(gpus) > 8 else "")
        yield f"Clocks were held down by {words} in timed steps: {line(shown)}"


COMPUTE, EXPOSED, MEMORY = "#000021", "#000022", "#000023"


def step_plot(record: TrainingRecord, models: Models) -> Plot | None:
    """Return bars of a step by strategy and leg, computing and exposed communication, and memory.

    None where nothing was timed. Of many sets of hosts the first is drawn.
    """
    bars = [
        (_name(run), run.ranks, figures)
        for run in record.runs
        if record.sets and run.hosts == record.sets[0].hosts and run.strategy not in CONTROLS
        if (figures := figures_of(record, run, models)) is not None
    ][:MOST_BARS]
    if not bars:
        return None
    with drawing(7.6, 1.4 + 0.27 * len(bars)) as figure:
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
        places = range(len(bars))
        alone = [min(each.step_s, each.alone_s or each.step_s) * 1e3 for _, _, each in bars]
        exposed = [
            each.step_s * 1e3 - alone_ms for (_, _, each), alone_ms in zip(bars, alone, strict=True)
        ]
        left.barh(places, alone, color=COMPUTE, label="one GPU's step")
        left.barh(places, exposed, left=alone, color=EXPOSED, label="exposed communication")
        left.set_yticks(places, [f"{name} on {ranks}" for name, ranks, _ in bars], fontsize=9)
        left.invert_yaxis()
        left.set_xlabel("ms a step")
        left.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=9)
        right.barh(places, [each.peak_bytes / 2**30 for _, _, each in bars], color=MEMORY)
        right.set_xlabel("peak GiB")
        for axes in (left, right):
            axes.grid(visible=True, axis="x", color=INK, alpha=0.15, linewidth=0.8)
        colors = {COMPUTE: "leg-default", EXPOSED: "leg-p2p-off", MEMORY: "leg-p2p-sys"}
        svg = inline_svg(figure, colors)
    mark = f". E{EXERCISE[1:]}" if not record.sets[0].gpus else ""
    where = fold(record.sets[0].hosts)
    return Plot(f"A step by strategy and leg, {where}; peak memory of a rank{mark}", svg)
