"""What differs for the burn between a GPU and the CPU that stands in for one."""

from __future__ import annotations

import time
from typing import Any, Sequence, Tuple

from hwcheck.node.load.cublas import cublas_version
from hwcheck.node.load.spec import MIB, BurnSpec
from hwcheck.node.torch_process import ADVICE
from hwcheck.node.torch_runtime import torch, version

BF16_CAPABILITY = (8, 0)  # CUDA C++ Programming Guide, "Compute Capabilities": bf16 and tf32
TENSOR_CAPABILITY = (7, 0)  # the first tensor cores; fp16 only


class Cpu:
    """The exercise: the same code at a small size, on one thread.

    One thread, because with several the order of summing, and so the bits, may depend on what else
    the machine does.
    """

    name = "cpu"
    dtype = "fp32"
    size_limit = 512
    copy_bytes = 64 * MIB
    link_bytes = 16 * MIB

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.processors = 128
        self.free_bytes = 512 * MIB
        self.library = "torch %s on the CPU" % version()

    def mark(self) -> Any:
        """Return a point in time that work queued so far has reached."""
        return time.perf_counter()

    def wait(self, mark: Any) -> None:
        """Wait until ``mark`` is reached."""

    def span_s(self, start: Any, end: Any) -> float:
        """Return the seconds between two marks that were reached."""
        return float(end - start)

    def host_buffer(self, size_bytes: int) -> Any:
        """Return host memory that the device can be handed."""
        return torch.empty(size_bytes, dtype=torch.uint8)


class Cuda:
    """The one GPU that this process sees. Raises RuntimeError where CUDA does not start."""

    name = "cuda:0"
    size_limit = 16384

    def __init__(self, spec: BurnSpec) -> None:
        torch.cuda.set_device(0)
        facts = torch.cuda.get_device_properties(0)
        capability = (facts.major, facts.minor)
        if not has_code(torch.cuda.get_arch_list(), capability):
            built = " ".join(torch.cuda.get_arch_list())
            text = "torch %s has code for %s and none for this GPU (sm_%d%d): %s code for it"
            raise RuntimeError(text % (version(), built, *capability, ADVICE))
        self.dtype = arithmetic(spec.dtype, capability)
        torch.set_float32_matmul_precision("high" if self.dtype == "tf32" else "highest")
        self.processors = int(facts.multi_processor_count)
        self.free_bytes = int(torch.cuda.mem_get_info()[0])
        self.copy_bytes = min(4096 * MIB, self.free_bytes // 4)
        # Pinned memory cannot be swapped out: an eighth of what the host has, over all workers.
        pinned_bytes = spec.memory_available_bytes // 8 // len(spec.subjects)
        self.link_bytes = max(MIB, min(256 * MIB, self.free_bytes // 8, pinned_bytes))
        # Whole versions: hosts whose products are compared must have one and the same library.
        names = (torch.__version__, torch.version.cuda, cublas_version() or "of unknown version")
        self.library = "torch %s, CUDA %s, cuBLAS %s" % names

    def mark(self) -> Any:
        # Waiting for it blocks: a spinning wait would take a core for each GPU.
        event = torch.cuda.Event(enable_timing=True, blocking=True)
        event.record()
        return event

    def wait(self, mark: Any) -> None:
        mark.synchronize()

    def span_s(self, start: Any, end: Any) -> float:
        return float(start.elapsed_time(end)) / 1e3

    def host_buffer(self, size_bytes: int) -> Any:
        """Return memory of the host: pinned, so that a copy runs at the speed of the link."""
        return torch.empty(size_bytes, dtype=torch.uint8, pin_memory=True)


def open_device(spec: BurnSpec) -> Any:
    """Return this worker's ``Cuda``, or the ``Cpu`` of an exercise."""
    return Cuda(spec) if spec.gpus else Cpu()


def has_code(built: Sequence[str], capability: Tuple[int, int]) -> bool:
    """Whether what torch was built for (``sm_90a``, ``compute_80``) runs on this GPU.

    CUDA C++ Programming Guide, "Application Compatibility": code of a GPU runs on later ones of the
    same major number, PTX on all later ones. What is not told counts as built.
    """
    for name in built:
        kind, _, number = name.partition("_")
        built_for = divmod(int(number.rstrip("af")), 10)
        if built_for <= capability and (kind == "compute" or built_for[0] == capability[0]):
            return True
    return not built


def arithmetic(wanted: str, capability: Tuple[int, int]) -> str:
    """Return bf16, fp16, tf32 or fp32: what was asked for, or what this GPU has in its place."""
    if wanted == "auto":
        wanted = "bf16" if capability >= TENSOR_CAPABILITY else "fp32"
    if capability >= BF16_CAPABILITY:
        return wanted
    return {"bf16": "fp16", "tf32": "fp32"}.get(wanted, wanted)
