"""All GPUs of the node are of the model that they should be."""

from __future__ import annotations

from typing import Iterator

from hwcheck.limits import Equal, FromInventory, FromSample
from hwcheck.node.check import Metric, Node, Remedy, check
from hwcheck.node.supported import Survey, majority
from hwcheck.wire import Sample


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
        ),
        Metric("gpu_model_of_most", "", "model that most GPUs of this node are of"),
        Metric("gpu_board_id", "", "PCI device and subsystem id of the board"),
    ],
    remedy=Remedy(
        cause="a board of another model, for example after a repair, or a workstation's own "
        "display adapter beside its compute boards",
        fix="have the board exchanged for the model of the others; leave a display adapter out of "
        "jobs with CUDA_VISIBLE_DEVICES",
        command="nvidia-smi -L && lspci -nn -d 10de:",
    ),
    per_gpu=True,
)
def gpu_model(node: Node) -> Iterator[Sample]:
    """Read the model of each GPU, and hold it against the inventory and the rest of the node.

    The name alone does not tell variants of one model apart that differ in memory or power, so
    the board's PCI ids are recorded beside it.
    """
    models = Survey(node, lambda gpu: (gpu.name(), gpu.board_id()))
    if models.found:
        yield Sample("gpu_model_of_most", majority([name for _, (name, _) in models.found]))
    for gpu, (name, board) in models.found:
        yield Sample("gpu_model", name, "", gpu.subject)
        yield Sample("gpu_board_id", board, "", gpu.subject)
    models.conclude("NVML sees no GPU")
