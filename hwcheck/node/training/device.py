"""What differs for a training step between CUDA and the CPU: time, memory, threads."""

from __future__ import annotations

import gc
import time
from typing import Any, Callable, List, Optional

from hwcheck.node import torch_runtime
from hwcheck.node.collective.runtime import nccl_version
from hwcheck.node.torch_runtime import torch


class CpuDevice:
    """gloo on the CPU: exercises the path, says nothing about GPUs."""

    name = "cpu"
    cuda = False
    ids: Optional[List[int]] = None

    def __init__(self) -> None:
        torch.set_num_threads(1)  # as many for one rank as for each of several: steps compare

    def library(self) -> str:
        """Return the library's name and version."""
        return "gloo (torch %s)" % torch_runtime.version()

    def release(self) -> None:
        """Give back what the last strategy had."""
        gc.collect()

    def forget_peak(self) -> None:
        """Have the peak of memory begin anew: proc(5), clear_refs."""
        with open("/proc/self/clear_refs", "w", encoding="ascii") as stream:
            stream.write("5")

    def peak_bytes(self) -> int:
        """Return the peak of resident memory since then, torch's libraries among it."""
        with open("/proc/self/status", encoding="ascii", errors="replace") as stream:
            line = next(line for line in stream if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024

    def times_s(self, step: Callable[[], Any], count: int, ran: Callable[[], None]) -> List[float]:
        """Return the time of each of so many steps; ``ran`` is called after each."""
        stamps = [time.perf_counter()]
        for _ in range(count):
            step()
            stamps.append(time.perf_counter())
            ran()
        return [after - before for before, after in zip(stamps, stamps[1:])]


class CudaDevice:
    """One GPU."""

    cuda = True

    def __init__(self, index: int) -> None:
        self.name = "cuda:%d" % index
        self.ids: Optional[List[int]] = [index]
        torch.cuda.set_device(index)

    def library(self) -> str:
        """Return NCCL's version, the one in torch's wheel, and torch's."""
        return "NCCL %s (torch %s)" % (".".join(map(str, nccl_version())), torch_runtime.version())

    def release(self) -> None:
        """Give back what the last strategy had: the ranks of other legs wait on the same GPU."""
        gc.collect()
        torch.cuda.empty_cache()

    def forget_peak(self) -> None:
        """Have the peak of memory begin anew."""
        torch.cuda.reset_peak_memory_stats()

    def peak_bytes(self) -> int:
        """Return the peak of what torch's allocator had in use since then."""
        return int(torch.cuda.max_memory_allocated())

    def times_s(self, step: Callable[[], Any], count: int, ran: Callable[[], None]) -> List[float]:
        """Return the time of each of so many steps, by events on the device.

        Steps are queued with no wait between them, as in training; ``ran`` is called as each ends.
        """
        events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        events[0].record()
        for event in events[1:]:
            step()
            event.record()
        for event in events:
            event.synchronize()
            ran()
        torch.cuda.synchronize()
        return [before.elapsed_time(after) / 1e3 for before, after in zip(events, events[1:])]


def device(index: int, *, cuda: bool) -> Any:
    """Return this rank's ``CudaDevice`` or ``CpuDevice``."""
    return CudaDevice(index) if cuda else CpuDevice()
