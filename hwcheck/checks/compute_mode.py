"""Every GPU takes the processes of a job."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Metric, Remedy, check
from hwcheck.contract.limits import Equal, FromInventory
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import where_supported
from hwcheck.node.node import Gpu, Node

MODES = "NVML API Reference Guide, nvmlComputeMode_t: "


@check(
    metrics=[
        Metric(
            "compute_mode",
            "",
            "default, exclusive_process, exclusive_thread or prohibited",
            (
                Equal(
                    FromInventory("compute_mode"),
                    source="the inventory's hwcheck_compute_mode",
                    confidence="inventory",
                ),
            ),
            required=True,
        ),
        Metric(
            "takes_work",
            "",
            "whether a process may compute on the GPU at all",
            (Equal(True, source=MODES + "PROHIBITED allows no context on the device"),),
            required=True,
        ),
        Metric(
            "takes_several_processes",
            "",
            "whether several processes may, by themselves or by way of the Multi-Process Service; "
            "only where the inventory declares no mode",
            (
                Equal(
                    True,
                    source=MODES + "EXCLUSIVE_PROCESS allows one context on the device. Some "
                    "sites want that, so it is no fault by itself; NVIDIA's Multi-Process Service "
                    "guide recommends it where that service runs",
                    confidence="derived",
                    otherwise="warn",
                ),
            ),
        ),
    ],
    remedy=Remedy(
        cause="a mode that somebody, or the prolog of a scheduler, set and did not take back",
        fix="nvidia-smi -c 0 sets the default mode; declare the mode as hwcheck_compute_mode when "
        "it is meant",
        command="nvidia-smi --query-gpu=index,compute_mode --format=csv",
        role="gpu_settings",
    ),
    per_gpu=True,
    optional="GPUs that have a compute mode",
    group="GPUs",
)
def compute_mode(node: Node) -> Iterator[Sample]:
    """Read which processes each GPU lets compute.

    On a GPU that prohibits compute every job ends at its first call, with an error that speaks of
    busy devices. One that is exclusive to a process refuses the second: a debugger, a monitor that
    computes, or two ranks that share the GPU. The mode outlives the job that set it. Where the
    Multi-Process Service runs it is the one process, and shares the GPU out.
    """
    declared = "compute_mode" in node.request.expect
    shared_out = bool(node.host.mps_runs())
    missing = "no GPU of this node has a compute mode"
    yield from where_supported(node, lambda gpu: _mode(gpu, declared, shared_out), missing)


def _mode(gpu: Gpu, declared: bool, shared_out: bool) -> Iterator[Sample]:
    mode = gpu.compute_mode()
    if mode is None:
        return
    yield Sample("compute_mode", mode, "", gpu.subject)
    yield Sample("takes_work", mode != "prohibited", "", gpu.subject)
    if not declared:
        exclusive = mode in ("exclusive_process", "exclusive_thread")
        yield Sample("takes_several_processes", shared_out or not exclusive, "", gpu.subject)
