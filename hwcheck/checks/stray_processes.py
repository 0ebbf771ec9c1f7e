"""Nobody is on the GPUs of a node that should be idle."""

from __future__ import annotations

from typing import Iterator, Optional

from hwcheck.contract.check import BY_USE, Metric, Remedy, check
from hwcheck.contract.limits import AtMost
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import mig_is_on, per_gpu
from hwcheck.node.node import Gpu, Node
from hwcheck.node.pcie import is_coherent

SHARED = ("vgpu", "host_vgpu", "host_vsga")
"""Virtualization modes in which guests share a GPU."""


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
            at_work=True,
        ),
        Metric(
            "graphics_processes",
            "processes",
            "processes that draw, a display server say",
            required=True,
            at_work=True,
        ),
        Metric("process_name", "", "name of the process"),
        Metric(
            "process_memory_bytes",
            "bytes",
            "GPU memory of the process",
            varies=BY_USE,
        ),
        Metric(
            "memory_used_bytes",
            "bytes",
            "GPU memory in use, whoever uses it",
            varies=BY_USE,
        ),
        Metric(
            "memory_held_bytes",
            "bytes",
            "GPU memory in use on a GPU on which nobody is, without what the driver reserves",
            (
                AtMost(
                    "derived from facebookresearch/gcm, gpu_mem_usage (an idle GPU has at most "
                    "15 MiB in use): ours leaves room for a text console and for what drivers "
                    "keep, and lies below what one CUDA context takes",
                    warn=256 << 20,
                    confidence="derived",
                ),
            ),
            varies=BY_USE,
            of_some="goes by its work",
        ),
    ],
    remedy=Remedy(
        cause="a job that is running, or one that ended and left a process behind",
        fix="find the owner; where the job is over, end the process and see that its memory is "
        "free",
        command="nvidia-smi --query-compute-apps=gpu_uuid,pid,name,used_memory --format=csv && "
        "sudo fuser -v /dev/nvidia*",
    ),
    per_gpu=True,
    group="host",
)
def stray_processes(node: Node) -> Iterator[Sample]:
    """List who is on each GPU, with the memory that each process holds.

    A process left behind by a job takes memory and time from the next one, and makes every figure
    of this report doubtful. Processes that draw are recorded, also those that compute as well, as
    a desktop on Wayland does (C+G in nvidia-smi). Memory in use with nobody on the GPU is a context
    that its process left behind, as one that is killed and cannot end does; only a reset frees it.
    That is not judged where NVML does not show who is there: in a container it shows nobody else's
    processes, on a shared GPU not those of other guests, with MIG on none of the whole GPU; nor
    where the kernel keeps pages of its own in the GPU's memory (GH200, GB200), nor with drivers
    that do not tell what they reserve (before R510).
    """
    hidden = node.host.in_container()
    yield from per_gpu(node, lambda gpu: _processes(gpu, hidden))


def _processes(gpu: Gpu, hidden: bool) -> Iterator[Sample]:
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
        held = None if hidden or processes else _held_bytes(gpu, used)
        if held is not None:
            yield Sample("memory_held_bytes", held, "bytes", gpu.subject)


def _held_bytes(gpu: Gpu, used: int) -> Optional[int]:
    reserved = gpu.memory_reserved_bytes()
    if reserved is None or gpu.virtualization_mode() in SHARED or is_coherent(gpu):
        return None
    if mig_is_on(gpu):
        return None
    return max(0, used - reserved)
