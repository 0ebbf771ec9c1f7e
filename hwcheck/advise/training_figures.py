"""The figures of a training benchmark, derived from what was measured, and what they say. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median, quantiles

from hwcheck.advise.step_model import ddp_busbw_gbps, gradient_bytes
from hwcheck.judge.models import Models
from hwcheck.node.training.strategies import label_of
from hwcheck.results.training import TrainingRecord, TrainingRun
from hwcheck.text import number

SINGLE = "single"
PEAKS = {"bf16": "bf16_tflops", "tf32": "tf32_tflops", "fp32": "fp32_tflops"}
NOTABLE = 0.02
"""A difference below it is none."""


@dataclass(frozen=True)
class PublishedStep:
    """One row of the table that this benchmark makes general: GPT-2, two TITAN RTX, 200 steps."""

    strategy: str
    leg: str
    words: str
    seconds: float
    source: str


GUIDE = "Hugging Face transformers, docs/source/en/perf_train_gpu_many.md at 032b32abfb"
PUBLISHED = (
    PublishedStep("single", "default", "one GPU", 102.0, "Hugging Face transformers, issue 9371"),
    PublishedStep("dp", "default", "nn.DataParallel, NVLink", 110.5948, GUIDE),
    PublishedStep("ddp", "default", "DDP, NVLink", 101.9003, GUIDE),
    PublishedStep("ddp", "p2p_off", "DDP, NCCL_P2P_DISABLE=1", 131.4367, GUIDE),
)


@dataclass(frozen=True)
class StepFigures:
    """What steps of a run took; times in s, the inter-quartile range beside the median.

    ``exposed_s`` is the step less that of one GPU with the work of one rank, ``ratio`` the step
    over it: None where there is none to compare with. ``mfu`` is model FLOPs over the vendor's
    peak, None where that is not known, ``hfu`` hardware FLOPs over it. ``joules_per_token`` is the
    power of the GPUs at work, None where they do not tell.
    """

    step_s: float
    iqr_s: float
    tokens_per_s: float
    tflops: float
    hardware_tflops: float
    peak_bytes: int
    alone_s: float | None = None
    mfu: float | None = None
    hfu: float | None = None
    joules_per_token: float | None = None

    @property
    def exposed_s(self) -> float | None:
        """The step less that of one GPU with the same work; negative by noise alone."""
        return None if self.alone_s is None else self.step_s - self.alone_s

    @property
    def ratio(self) -> float | None:
        """The step over that of one GPU with the same work."""
        return None if self.alone_s is None else self.step_s / self.alone_s


def figures_of(record: TrainingRecord, run: TrainingRun, models: Models) -> StepFigures | None:
    """Return the figures of a run; None where it has no times."""
    times = [step for repeat in run.times_s for step in repeat]
    if run.state != "done" or not times:
        return None
    step_s = median(times)
    low, _, high = quantiles(times, n=4, method="inclusive") if len(times) > 1 else (0.0, 0.0, 0.0)
    shape, tokens = record.model, run.sequences * record.model.sequence
    tflops, hardware = (
        flops / step_s / run.ranks / 1e12
        for flops in (shape.model_flops(run.sequences), shape.hardware_flops(run.sequences))
    )
    peak = _peak_tflops(record, run, models)
    return StepFigures(
        step_s=step_s,
        iqr_s=high - low,
        tokens_per_s=tokens / step_s,
        tflops=tflops,
        hardware_tflops=hardware,
        peak_bytes=max(run.peak_bytes, default=0),
        alone_s=_alone_s(record, run),
        mfu=tflops / peak if peak else None,
        hfu=hardware / peak if peak else None,
        joules_per_token=_joules(run, step_s, tokens),
    )


def _alone_s(record: TrainingRecord, run: TrainingRun) -> float | None:
    """Return the median step of one GPU with the sequences of one rank, on the same hosts.

    Each global batch and number of ranks has its own, taken just before.
    """
    for each in record.runs:
        batches = (each.sequences * run.ranks, each.parity_sequences)
        same = each.hosts == run.hosts and batches == (run.sequences, run.parity_sequences)
        if each.strategy == SINGLE and same and each.state == "done" and each.times_s:
            return median(step for repeat in each.times_s for step in repeat)
    return None


def _peak_tflops(record: TrainingRecord, run: TrainingRun, models: Models) -> float:
    """Return the vendor's peak of what is computed in (1e12/s); 0 where it is not known."""
    name = next((each.gpu for each in record.sets if each.hosts == run.hosts), "")
    model = models.of(name) if name else None
    kind = "tf32" if record.dtype == "fp32" and record.tf32 else record.dtype
    figure = model.figures.get(PEAKS[kind]) if model else None
    return figure.value if figure else 0.0


def _joules(run: TrainingRun, step_s: float, tokens: int) -> float | None:
    """Return the energy of a token (J): power of the GPUs that had ranks, over the steps' time."""
    here = run.ranks // len(run.hosts) or 1
    powers = [
        gpu.power_w
        for gpu in run.gpus
        if gpu.power_w is not None and int(gpu.subject.removeprefix("gpu")) < here
    ]
    return sum(powers) * step_s / tokens if len(powers) == run.ranks else None


def staged(run: TrainingRun) -> bool:
    """Whether NCCL says that data went through the host's memory and not from GPU to GPU."""
    return any(kind.startswith("SHM") for kind in run.transport) and not any(
        kind.startswith("P2P") for kind in run.transport
    )


def sentences(record: TrainingRecord, models: Models) -> Iterator[str]:
    """Yield what the figures say, a line for each comparison."""
    by_key = {(r.hosts, r.ranks, r.strategy, r.leg): r for r in record.runs if r.state == "done"}
    for (hosts, ranks, strategy, leg), run in by_key.items():
        on = by_key.get((hosts, ranks, strategy, "default"))
        if leg == "default" or on is None:
            continue
        with_p2p, without = (figures_of(record, each, models) for each in (on, run))
        if with_p2p is None or without is None:
            continue
        name = "P2P off" if leg == "p2p_off" else "the network alone"
        cost = without.step_s / with_p2p.step_s - 1
        text = f"{name} costs {label_of(strategy)} on {ranks} GPUs {cost:.0%} of a step"
        if strategy == "ddp" and leg == "p2p_off":
            text += f"; the guide's pair of GPUs with NVLink lost {_published_cost():.0%}"
        yield text + _explained(record, run, without)
    yield from _against_ddp(record, by_key, models)


def _explained(record: TrainingRecord, run: TrainingRun, figures: StepFigures) -> str:
    exposed, alone = figures.exposed_s, figures.alone_s
    if run.strategy != "ddp" or exposed is None or alone is None or exposed < NOTABLE * alone:
        return ""
    low, high = ddp_busbw_gbps(record.model, record.dtype, run.ranks, alone, exposed)
    megabytes = gradient_bytes(record.model, record.dtype) / 1e6
    return (
        f"; {exposed * 1e3:.3g} ms are not hidden, so its {megabytes:.0f} MB of gradients went at "
        f"{number(float(f'{low:.2g}'))} to {number(float(f'{high:.2g}'))} GB/s busbw"
    )


def _published_cost() -> float:
    seconds = {(row.strategy, row.leg): row.seconds for row in PUBLISHED}
    return seconds["ddp", "p2p_off"] / seconds["ddp", "default"] - 1


def _against_ddp(
    record: TrainingRecord,
    by_key: Mapping[tuple[tuple[str, ...], int, str, str], TrainingRun],
    models: Models,
) -> Iterator[str]:
    """Yield which strategy is fastest, and what DDP takes beside it."""
    for hosts, ranks in dict.fromkeys((key[0], key[1]) for key in by_key if key[1] > 1):
        timed = {
            strategy: figures.step_s
            for (where, many, strategy, leg), run in by_key.items()
            if (where, many, leg) == (hosts, ranks, "default")
            if (figures := figures_of(record, run, models)) is not None
        }
        best = min(timed, key=lambda name: timed[name], default="")
        if len(timed) < 2 or "ddp" not in timed:
            continue
        text = f"on {ranks} ranks {label_of(best)} is fastest"
        if best != "ddp":
            text += f"; DDP takes {timed['ddp'] / timed[best] - 1:.0%} longer"
        yield text
