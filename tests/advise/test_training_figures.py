"""Figures of a training benchmark, and the sentences that they make."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.advise.training_figures import figures_of, sentences, staged
from hwcheck.contract.model_shape import MODELS
from hwcheck.node.training.strategy import Degrees
from hwcheck.results.training import GpuAtWork, TrainingRecord, TrainingRun, TrainingSet

TITAN = "NVIDIA TITAN RTX"


def a_run(strategy: str, step_s: float, leg: str = "default", ranks: int = 2) -> TrainingRun:
    gpus = tuple(GpuAtWork("a", f"gpu{index}", power_w=250.0) for index in range(2))
    return TrainingRun(
        hosts=("a",),
        strategy=strategy,
        leg=leg,
        ranks=ranks,
        state="done",
        degrees=Degrees(replicate=ranks),
        sequences=4 * ranks,
        parity_sequences=8,
        losses=(2.0, 1.0),
        expected=(2.0, 1.0),
        times_s=((step_s, step_s * 1.02), (step_s * 0.98, step_s)),
        peak_bytes=(6 << 30,) * ranks,
        gpus=gpus,
        transport={"SHM": 2} if leg == "p2p_off" else {"P2P/IPC": 2},
    )


def the_guide() -> TrainingRecord:
    """The published table as this benchmark would have measured it."""
    return TrainingRecord(
        model=MODELS["gpt2"],
        dtype="fp32",
        tf32=False,
        micro_batch=4,
        warmup=10,
        steps=2,
        repeats=2,
        tolerance=1e-4,
        hosts=("a",),
        sets=(TrainingSet(("a",), TITAN, 2, "2.13.0"),),
        runs=(
            a_run("single", 0.51, ranks=1),
            a_run("ddp", 0.5095),
            a_run("ddp", 0.6572, "p2p_off"),
        ),
        finished=True,
    )


def test_figures_of_one_gpu() -> None:
    record = the_guide()
    figures = figures_of(record, record.runs[0], shipped().models)
    assert figures is not None
    assert figures.step_s == pytest.approx(0.51)
    assert figures.iqr_s == pytest.approx(0.51 * 0.01)
    assert figures.ratio == pytest.approx(1.0)
    assert figures.tokens_per_s == pytest.approx(4 * 1024 / 0.51)
    assert figures.tflops == pytest.approx(MODELS["gpt2"].model_flops(4) / 0.51 / 1e12)
    assert figures.hardware_tflops < figures.tflops
    assert figures.mfu is None  # no fp32 peak of this GPU is on record
    assert figures.joules_per_token == pytest.approx(250 * 0.51 / (4 * 1024))


def test_mfu_is_of_the_vendors_peak() -> None:
    guide = the_guide()
    a100 = (replace(guide.sets[0], gpu="NVIDIA A100-SXM4-80GB"),)
    record = replace(guide, sets=a100, dtype="bf16")
    figures = figures_of(record, record.runs[0], shipped().models)
    assert figures is not None
    assert figures.mfu == pytest.approx(figures.tflops / 312)
    assert figures.hfu == pytest.approx(figures.hardware_tflops / 312)


def test_exposed_is_what_one_gpu_with_the_same_work_does_not_take() -> None:
    record = the_guide()
    figures = figures_of(record, record.runs[2], shipped().models)
    assert figures is not None
    assert figures.exposed_s == pytest.approx(0.1472)
    assert figures.joules_per_token == pytest.approx(500 * 0.6572 / (8 * 1024))
    alone = replace(record, runs=record.runs[1:])
    figures = figures_of(alone, record.runs[2], shipped().models)
    assert figures is not None
    assert figures.exposed_s is None


def test_of_one_global_batch_each_number_of_ranks_has_its_one_gpu() -> None:
    """Two ranks have 4 of 8 sequences each, four have 2."""
    record = the_guide()
    halves = replace(a_run("single", 0.26, ranks=1), sequences=2)
    four = replace(a_run("ddp", 0.39, ranks=4), sequences=8)
    every = replace(record, runs=(*record.runs, halves, four))
    for run, ratio in ((record.runs[1], 0.5095 / 0.51), (halves, 1.0), (four, 1.5)):
        figures = figures_of(every, run, shipped().models)
        assert figures is not None
        assert figures.ratio == pytest.approx(ratio)


def test_what_did_not_end_well_has_none() -> None:
    record = the_guide()
    assert figures_of(record, replace(record.runs[1], state="hang"), shipped().models) is None
    assert figures_of(record, replace(record.runs[1], times_s=()), shipped().models) is None


def test_a_gpu_that_does_not_tell_its_power_costs_the_energy() -> None:
    record = the_guide()
    quiet = replace(record.runs[1], gpus=(GpuAtWork("a", "gpu0", power_w=250.0),))
    figures = figures_of(record, quiet, shipped().models)
    assert figures is not None
    assert figures.joules_per_token is None


def test_p2p_off_is_said_in_an_engineers_words() -> None:
    first = next(iter(sentences(the_guide(), shipped().models)))
    assert first == (
        "P2P off costs DDP on 2 GPUs 29% of a step; the guide's pair of GPUs with NVLink lost 29%; "
        "147 ms are not hidden, so its 498 MB of gradients went at 1 to 3.4 GB/s busbw"
    )


def test_the_fastest_is_named() -> None:
    record = the_guide()
    runs = (*record.runs, a_run("zero1", 0.4))
    assert "on 2 ranks ZeRO-1 is fastest; DDP takes 27% longer" in list(
        sentences(replace(record, runs=runs), shipped().models)
    )


def test_host_staged_is_the_word_of_nccl() -> None:
    record = the_guide()
    assert [staged(run) for run in record.runs] == [False, False, True]
