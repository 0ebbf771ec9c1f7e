"""All GPUs of the node are of the model that they should be."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional

from hwcheck.contract.check import CouldNotMeasure, Metric, Remedy, check
from hwcheck.contract.limits import Equal, FromInventory, FromSample, like_most
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import Survey, majority
from hwcheck.node.node import Gpu, Node

GIB = float(1 << 30)


class _Kind(NamedTuple):
    name: str
    board: str
    memory_gib: Optional[int]


@check(
    metrics=[
        Metric(
            "gpu_model",
            "",
            "model by its name in NVML",
            (
                Equal(
                    FromInventory("gpu_model"),
                    source="the inventory's hwcheck_gpu_model",
                    confidence="inventory",
                ),
                Equal(
                    FromSample("gpu_model_of_most"),
                    source="derived from NVML API Reference Guide, nvmlDeviceGetName: a "
                    "collective over unlike GPUs is as slow as the slowest, and unlike GPUs get "
                    "no peer access to each other",
                    confidence="derived",
                    otherwise="warn",
                ),
            ),
            required=True,
        ),
        Metric("gpu_model_of_most", "", "model that most GPUs of this node are of"),
        Metric("gpu_board_id", "", "PCI device and subsystem id of the board", required=True),
        Metric(
            "memory_gib",
            "GiB",
            "memory of the GPU, in whole GiB",
            (
                like_most(
                    "NVML API Reference Guide, nvmlDeviceGetMemoryInfo; NVIDIA Xid catalog, Xid "
                    "168: boards of one model and PCI subsystem id have the same memory, unless "
                    "ECC takes a part or a part is lost"
                ),
            ),
        ),
    ],
    remedy=Remedy(
        cause="a board of another model, for example after a repair, or a workstation's own "
        "display adapter beside its compute boards",
        fix="have the board exchanged for the model of the others; leave a display adapter out of "
        "jobs with CUDA_VISIBLE_DEVICES",
        command="nvidia-smi -L && lspci -nn -d 10de:",
    ),
    per_gpu=True,
    group="GPUs",
    explains_silence=True,
    stage="inventory",
)
def gpu_model(node: Node) -> Iterator[Sample]:
    """Read the model of each GPU, and hold it against the inventory and the rest of the node.

    The name alone does not tell variants of one model apart that differ in memory or power, so
    the board's PCI ids are recorded beside it, and its memory is compared over the fleet.
    """
    models = Survey(node, _identify)
    if models.answers:
        yield Sample("gpu_model_of_most", majority([kind.name for _, kind in models.answers]))
    for gpu, kind in models.answers:
        yield Sample("gpu_model", kind.name, "", gpu.subject)
        yield Sample("gpu_board_id", kind.board, "", gpu.subject)
        if kind.memory_gib is not None:
            yield Sample("memory_gib", kind.memory_gib, "GiB", gpu.subject)
    models.conclude("NVML sees no GPU")


def _identify(gpu: Gpu) -> _Kind:
    return _Kind(gpu.name(), gpu.board_id(), _memory_gib(gpu))


def _memory_gib(gpu: Gpu) -> Optional[int]:
    try:
        return round(gpu.memory_total_bytes() / GIB)
    except CouldNotMeasure:
        return None  # it has no memory of its own; the model is known all the same
