"""No GPU has fallen off the bus or waits for a reset."""

from __future__ import annotations

from typing import Iterator

from hwcheck.checks.shared import xids
from hwcheck.contract.check import CouldNotMeasure, Metric, Remedy, check
from hwcheck.contract.limits import Equal
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import per_gpu
from hwcheck.node.node import Gpu, Node

GPU_ANSWER = Metric(
    "gpu_answer",
    "",
    "ok, or NVML's words for a GPU that nothing can be asked of",
    (
        Equal(
            "ok",
            source="NVML API Reference Guide, nvmlReturn_t: NVML_ERROR_GPU_IS_LOST (the "
            "GPU has fallen off the bus or has otherwise become inaccessible) and "
            "NVML_ERROR_RESET_REQUIRED",
        ),
    ),
    required=True,
)


@check(
    metrics=[
        GPU_ANSWER,
        Metric(
            "recovery_action",
            "",
            "what the driver wants before the GPU is used again",
            (
                Equal(
                    xids.NOTHING,
                    source="NVML API Reference Guide, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION and "
                    "nvmlDeviceGpuRecoveryAction_t",
                ),
            ),
        ),
        Metric(
            "answers_on_the_bus",
            "",
            "whether the configuration space of the device reads as anything but all ones",
            (
                Equal(
                    True,
                    source="PCI Express Base Specification, 2.3.2: a read that no device completes "
                    "returns all ones; vendor 0xffff is never assigned",
                ),
            ),
        ),
    ],
    remedy=Remedy(
        cause="a GPU that overheated, lost power or whose PCIe link went down (Xid 79); a GPU "
        "that needs a reset after an error of its memory or firmware",
        fix="drain the node; reset the GPU, or power the node off and on; when it happens again, "
        "look at power cables, cooling and seating, then have the board replaced",
        command="nvidia-smi -L; dmesg | grep -E 'NVRM: Xid.*: (79|119|154)'",
    ),
    per_gpu=True,
    group="GPUs",
    stage="inventory",
)
def gpu_lost(node: Node) -> Iterator[Sample]:
    """Ask each GPU for a value that only the chip itself can give, and each device for its vendor.

    A GPU that is lost keeps its place in every list until the driver is asked about it, and a
    job that gets it hangs at its first call. NVML knows it of the GPUs it counts; the bus knows
    it of devices that NVML has never seen. A GPU may answer and take no work until it is reset:
    drivers since 2025 tell that as its recovery action.
    """
    for address in node.host.pci_gpus():
        try:
            answers = node.host.pci_answers(address)
        except CouldNotMeasure:
            continue  # NVML's answer counts; without root some kernels hide this one
        yield Sample("answers_on_the_bus", answers, "", "pci " + address)
    yield from per_gpu(node, _answer)


def _answer(gpu: Gpu) -> Iterator[Sample]:
    lost = gpu.loss()
    yield Sample("gpu_answer", lost or "ok", "", gpu.subject)
    action = None if lost else gpu.recovery_action()
    if action is not None:
        wanted = xids.RECOVERY_ACTIONS.get(action, xids.WATCH)
        yield Sample("recovery_action", wanted, "", gpu.subject)
