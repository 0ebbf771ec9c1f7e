"""ECC is as the board comes, and no change of it waits for a reboot."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Metric, Remedy, check
from hwcheck.contract.limits import Equal, like_most
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import where_supported
from hwcheck.node.node import Gpu, Node


@check(
    metrics=[
        Metric(
            "ecc_enabled",
            "",
            "whether memory errors are corrected and counted",
            (
                like_most(
                    "NVML API Reference Guide, nvmlDeviceGetEccMode: a job spoiled by a flipped "
                    "bit cannot be told from others where one of its nodes does not look"
                ),
            ),
            required=True,
        ),
        Metric(
            "ecc_differs_from_default",
            "",
            "whether somebody switched ECC to the other state than the board comes with",
            (
                Equal(
                    False,
                    source="NVML API Reference Guide, nvmlDeviceGetEccMode against "
                    "nvmlDeviceGetDefaultEccMode",
                    otherwise="warn",
                ),
            ),
        ),
        Metric(
            "ecc_change_pending",
            "",
            "whether ECC changes its state at the next reboot",
            (
                Equal(
                    False,
                    source="NVML API Reference Guide, nvmlDeviceGetEccMode: the pending mode "
                    "is the one after the next reboot",
                    otherwise="warn",
                ),
            ),
            required=True,
        ),
    ],
    remedy=Remedy(
        cause="somebody switched ECC with nvidia-smi -e, for memory or speed, and perhaps did not "
        "reboot since",
        fix="set the mode that all nodes of the cluster should have, then reboot the node",
        command="nvidia-smi -q -d ECC",
    ),
    per_gpu=True,
    optional="ECC",
    group="GPU memory",
)
def ecc_mode(node: Node) -> Iterator[Sample]:
    """Read whether ECC is on, was switched by somebody, or is about to change.

    With ECC off a flipped bit goes unseen into results and checkpoints. A board is held against
    its own default: GeForce boards come with ECC off, and boards without ECC are not asked.
    """
    yield from where_supported(node, _mode, "no GPU of this node has ECC")


def _mode(gpu: Gpu) -> Iterator[Sample]:
    mode = gpu.ecc_mode()
    if mode is None:
        return
    yield Sample("ecc_enabled", mode.current, "", gpu.subject)
    yield Sample("ecc_change_pending", mode.current != mode.pending, "", gpu.subject)
    default = gpu.ecc_default()
    if default is not None:
        yield Sample("ecc_differs_from_default", mode.current != default, "", gpu.subject)
