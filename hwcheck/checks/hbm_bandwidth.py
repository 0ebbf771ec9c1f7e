"""The memory of every GPU is as fast as its model's, and as its neighbors'."""

from __future__ import annotations

from typing import Iterator

from hwcheck.checks.shared.load_summary import Loaded, peers_metric, percent, with_peers
from hwcheck.contract.check import Metric, Remedy, check
from hwcheck.contract.limits import AtLeast, FromModel, Steady
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import NO_VGPU
from hwcheck.node.node import Node

COPY_GBPS = Metric(
    "copy_gbps",
    "GB/s",
    "bytes read and written by a copy within the GPU's memory",
    (
        AtLeast(
            "hwcheck/judge/models, each with its source: what a copy within the memory of "
            "the model reaches. derived: library, size and ECC move it by some %",
            fail=0.8,
            warn=0.9,
            of=FromModel("memory_gbps"),
            confidence="derived",
        ),
    ),
    required=True,
    past=Steady(-1, ratio=True, scatter=0.003, least=0.02),
    drawn_as="GPU memory, copies",
)


@check(
    metrics=[
        COPY_GBPS,
        peers_metric(
            "copy_percent_of_peers",
            "the same",
            "derived: the clock of the memory is the same on like boards and power does not bound "
            "a copy, so they differ by 1 or 2 %",
            warn=95,
            fail=85,
        ),
    ],
    remedy=Remedy(
        cause="memory clocks that a setting or heat holds down, ECC on where the others have it "
        "off, or memory that fails",
        fix="compare memory clock, ECC mode and memory temperature with the other GPUs; with all "
        "alike return the board",
        command="nvidia-smi -q -d CLOCK,ECC,TEMPERATURE",
    ),
    load=True,
    per_gpu=True,
    optional=NO_VGPU,
    group="GPU memory",
)
def hbm_bandwidth(node: Node) -> Iterator[Sample]:
    """Hold the bandwidth of a copy within each GPU's memory against model and neighbors.

    Most of what a model does at inference waits for memory. A stack of memory that runs slower
    than it should costs as much as a slow chip and shows in no counter.
    """
    yield from with_peers(node, _of_gpu, "copy_gbps", percent("copy_percent_of_peers"))


def _of_gpu(loaded: Loaded) -> Iterator[Sample]:
    copied = loaded.figure(loaded.work().copy_gbps, "copy within its memory")
    yield Sample("copy_gbps", copied, "GB/s", loaded.subject)
