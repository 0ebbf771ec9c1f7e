"""Nobody is on the GPUs of a node that should be idle."""

from __future__ import annotations

from typing import Iterator

from hwcheck.node.check import Gpu, Metric, Node, Remedy, check
from hwcheck.node.gpus import per_gpu
from hwcheck.node.limits import AtMost
from hwcheck.node.wire import Sample


@check(
    metrics=[
        Metric(
            "compute_processes",
            "processes",
            "processes with a compute context on the GPU",
            (
                AtMost(
                    "derived from NVML API Reference Guide, nvmlDeviceGetComputeRunningProcesses, "
                    "and NVIDIA DCGM, Software Deployment Checks (conflicting processes): what "
                    "runs beside a measurement falsifies it",
                    warn=0,
                    confidence="derived",
                ),
            ),
            required=True,
        ),
        Metric(
            "graphics_processes",
            "processes",
            "processes that draw, a display server say",
            required=True,
        ),
        Metric("process_name", "", "name of the process"),
        Metric("process_memory_bytes", "bytes", "GPU memory of the process"),
        Metric("memory_used_bytes", "bytes", "GPU memory in use, whoever uses it"),
    ],
    remedy=Remedy(
        cause="a job that is running, or one that ended and left a process behind",
        fix="find the owner; where the job is over, end the process and see that its memory is "
        "free",
        command="nvidia-smi --query-compute-apps=gpu_uuid,pid,name,used_memory --format=csv && "
        "sudo fuser -v /dev/nvidia*",
    ),
    per_gpu=True,
)
def stray_processes(node: Node) -> Iterator[Sample]:
    """List who is on each GPU, with the memory that each process holds.

    A process left behind by a job takes memory and time from the next one, and makes every figure
    of this report doubtful. Processes that draw are recorded, also those that compute as well, as
    a desktop on Wayland does (C+G in nvidia-smi). In a container NVML does not show the processes
    of others, and their memory shows all the same.
    """
    yield from per_gpu(node, _processes)


def _processes(gpu: Gpu) -> Iterator[Sample]:
    processes = gpu.processes()
    for kind in ("compute", "graphics"):
        count = sum(process.kind == kind for process in processes)
        yield Sample(kind + "_processes", count, "processes", gpu.subject)
    for process in processes:
        subject = "%s process %d" % (gpu.subject, process.pid)
        yield Sample("process_name", process.name or "unknown", "", subject)
        if process.memory_bytes is not None:
            yield Sample("process_memory_bytes", process.memory_bytes, "bytes", subject)
    used = gpu.memory_used_bytes()
    if used is not None:
        yield Sample("memory_used_bytes", used, "bytes", gpu.subject)
