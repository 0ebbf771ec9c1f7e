"""What differs for a collective between CUDA and the CPU."""

from __future__ import annotations

import ctypes
import os
import time
from datetime import timedelta
from typing import Any, Callable, List, Tuple

from hwcheck.contract.collective_spec import CollectiveSpec
from hwcheck.node import torch_runtime
from hwcheck.node.collective import flight
from hwcheck.node.torch_runtime import dist, torch

__all__ = [
    "GlooDevice",
    "NcclDevice",
    "device",
    "dist",
    "join",
    "missing_cuda",
    "nccl_version",
    "one_of",
    "torch",
]

EVENT_RESOLUTION_US = 0.5  # CUDA Runtime API, cudaEventElapsedTime
LINE_BUFFERED = 1  # _IOLBF of glibc's stdio.h


def _mute() -> None:
    """Say nothing after a run."""


class GlooDevice:
    """gloo on the CPU: exercises the path, says nothing about GPUs."""

    def __init__(self, spec: CollectiveSpec) -> None:
        self.name = "cpu"
        self.free_bytes = spec.memory_available_bytes // spec.ranks
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // spec.ranks))

    def release(self) -> None:
        """Give back what is not used; the allocator of the CPU has done it."""

    def library(self) -> str:
        """Return the library's name and version."""
        return "gloo (torch %s)" % torch_runtime.version()

    def time_us(
        self,
        run: Callable[[], None],
        warmups: int,
        iterations: int,
        ran: Callable[[], None] = _mute,
    ) -> List[float]:
        """Return the time of every iteration in microseconds; ``run`` returns when it is done.

        ``ran`` is called after each run.
        """
        for _ in range(warmups):
            run()
            ran()
        stamps = [time.perf_counter()]
        for _ in range(iterations):
            run()
            stamps.append(time.perf_counter())
            ran()
        return [(stamps[i + 1] - stamps[i]) * 1e6 for i in range(iterations)]


class NcclDevice:
    """NCCL on one GPU for each rank."""

    def __init__(self, spec: CollectiveSpec, rank: int) -> None:
        index = 0 if spec.one_gpu else rank
        self.name = "cuda:%d" % index
        torch.cuda.set_device(index)
        self._sharers = spec.ranks if spec.one_gpu else 1

    @property
    def free_bytes(self) -> int:
        """Memory that is free now, for this rank."""
        return int(torch.cuda.mem_get_info()[0]) // self._sharers

    def release(self) -> None:
        """Give back what is not used: the ranks of other legs wait on the same GPU."""
        torch.cuda.empty_cache()

    def library(self) -> str:
        """Return the library's name and version: the one in torch's wheel, which jobs use."""
        return "NCCL " + ".".join(map(str, nccl_version()))

    def time_us(
        self,
        run: Callable[[], None],
        warmups: int,
        iterations: int,
        ran: Callable[[], None] = _mute,
    ) -> List[float]:
        """Return the time of every iteration in microseconds.

        Iterations are queued with no wait between them, so that the ranks' skew on the host is
        not counted as transfer time. ``ran`` is called once for each that has ended.
        """
        events = [torch.cuda.Event(enable_timing=True) for _ in range(iterations + 1)]
        for _ in range(warmups):
            run()
        events[0].record()
        for event in events[1:]:
            run()
            event.record()
        for event in events:
            event.synchronize()
            ran()
        torch.cuda.synchronize()
        spans = [events[i].elapsed_time(events[i + 1]) * 1e3 for i in range(iterations)]
        return [max(span, EVENT_RESOLUTION_US) for span in spans]


def one_of(*names: str) -> Callable[..., Any]:
    """Return the first function of torch.distributed that this torch has: some were renamed."""
    return next(getattr(dist, name) for name in names if hasattr(dist, name))  # type: ignore[no-any-return]


def record_flight(spec: CollectiveSpec, rank: int) -> None:
    """Let this rank tell what it enqueued last. Gloo's work ends on the host, as stacks show."""
    if spec.gpus:
        flight.listen(rank, torch_runtime.nccl_record())


def log_line_by_line() -> None:
    """Have the C library write each line at once: NCCL logs to its stdout, a file here.

    Otherwise the last lines of a rank that is killed would be lost.
    """
    libc = ctypes.CDLL(None)
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, LINE_BUFFERED, 0)


def missing_cuda() -> str:
    """Return why this torch cannot measure GPUs, or an empty text. Touches no device."""
    problem = torch_runtime.missing_cuda()
    if not problem and not dist.is_nccl_available():
        return "torch %s has no NCCL" % torch.__version__
    return problem


def nccl_version() -> Tuple[int, ...]:
    """Return the version of the NCCL that torch has loaded. Touches no device."""
    return tuple(torch.cuda.nccl.version())


def device(spec: CollectiveSpec, rank: int) -> Any:
    """Return this rank's ``GlooDevice`` or ``NcclDevice``."""
    return NcclDevice(spec, rank) if spec.gpus else GlooDevice(spec)


def join(spec: CollectiveSpec, rank: int, store_fd: int, timeout_s: float) -> Any:
    """Meet the other ranks and return a store for agreements outside the collective.

    ``store_fd`` is an unlinked file that all ranks inherited: nothing is left of it, however the
    ranks end. ``timeout_s`` lies beyond the leg's wall clock, so that the launcher sees a hang
    before torch does.
    """
    store = dist.FileStore("/proc/self/fd/%d" % store_fd, spec.ranks)
    store.set_timeout(timedelta(seconds=timeout_s))
    dist.init_process_group(
        spec.backend,
        store=store,
        rank=rank,
        world_size=spec.ranks,
        timeout=timedelta(seconds=timeout_s),
    )
    return dist.PrefixStore("hwcheck", store)
