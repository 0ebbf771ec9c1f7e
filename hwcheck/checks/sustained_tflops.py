"""Every GPU computes as fast as its model does, and as its neighbors."""

from __future__ import annotations

from typing import Iterator

from hwcheck.checks.shared.load_summary import Loaded, peers_metric, percent, with_peers
from hwcheck.contract.check import CouldNotMeasure, Metric, Remedy, check
from hwcheck.contract.limits import AtLeast, FromModel, Steady
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import NO_VGPU
from hwcheck.node.node import Node

DTYPES = ("bf16", "fp16", "tf32", "fp32")

OF_MODEL = (
    "hwcheck/judge/models, each with its source: what one healthy GPU of the model reached in a "
    "large product, as a rule alone and at its best shape. No steady figure of all GPUs of a node "
    "at once is published, so a GPU below it warns; below half of it, which no heat and no power "
    "of a healthy node explain, it fails"
)


def _of_model(dtype: str) -> Metric:
    name = dtype + "_tflops"
    limit = AtLeast(OF_MODEL, warn=0.9, fail=0.5, of=FromModel(name), confidence="derived")
    return Metric(
        name,
        "TFLOP/s",
        "median over the load, products of %s matrices" % dtype,
        (limit,),
        of_some="goes by its power limit and by the product that it was given",
    )


BF16_TFLOPS = _of_model("bf16")


@check(
    metrics=[
        BF16_TFLOPS,
        *map(_of_model, DTYPES[1:]),
        Metric(
            "tflops",
            "TFLOP/s",
            "the same, whatever the matrices are of",
            required=True,
            past=Steady(-1, ratio=True, scatter=0.005, least=0.035),
            drawn_as="matrix products",
        ),
        Metric("tflops_low", "TFLOP/s", "5th percentile over windows of a second"),
        peers_metric(
            "tflops_percent_of_peers",
            "the same figure",
            "derived: GPUs of one node differ by 5 % and more when all is well (ml-engineering, "
            "Not all accelerators are created equal); 8 % is more than that, 15 % three times as "
            "much",
            warn=92,
            fail=85,
        ),
    ],
    remedy=Remedy(
        cause="clocks that heat, power or a setting hold down, or a chip with a fault",
        fix="look at the other findings of this GPU first: temperature, power, clocks and throttle "
        "reasons under load say why; with none of them, swap the board to see whether it follows",
        command="nvidia-smi -q -d CLOCK,PERFORMANCE,POWER,TEMPERATURE",
    ),
    load=True,
    per_gpu=True,
    optional=NO_VGPU,
    group="GPUs",
)
def sustained_tflops(node: Node) -> Iterator[Sample]:
    """Hold the floating-point rate of each GPU against its model and against its neighbors.

    A job that spreads over GPUs goes as fast as the slowest of them. All GPUs of the node are
    loaded at once, as a job does: alone, a GPU has the air and the power of all, and the models'
    figures were taken so; a GPU below them is warned of, and one at less than half of them, or
    below its neighbors, fails. A GPU whose power limit was lowered is held against its neighbors
    only: the model's figure is that of the board's own limit, and the lowered limit has a check of
    its own.
    """
    yield from with_peers(node, _of_gpu, "tflops", percent("tflops_percent_of_peers"))


def _of_gpu(loaded: Loaded) -> Iterator[Sample]:
    work, subject = loaded.work(), loaded.subject
    tflops = loaded.figure(work.tflops, "TFLOP/s")
    if work.dtype not in DTYPES:
        raise CouldNotMeasure("%s: matrices of %s are not known" % (subject, work.dtype[:20]))
    if not _capped(loaded):
        yield Sample(work.dtype + "_tflops", tflops, "TFLOP/s", subject)
    yield Sample("tflops", tflops, "TFLOP/s", subject)
    if work.tflops_low is not None:
        yield Sample("tflops_low", work.tflops_low, "TFLOP/s", subject)


def _capped(loaded: Loaded) -> bool:
    try:
        return loaded.gpu.power_limit_w() < 0.99 * loaded.gpu.power_limit_default_w()
    except CouldNotMeasure:
        return False  # it has no power limit to lower
