"""GPUs that are only simulated: how long their work takes, and what NVML is to see of it.

``HWLAB_START`` is how slowly a process starts and ends (JSON; all may be left out): seconds of
``import_s`` (torch), ``context_s`` (CUDA on one GPU, in each process), and what ``simulated_nccl``
says of a communicator. With ``scale`` a start takes so much of its time; work takes all of it.

``HWLAB_CUDA`` names a file with what each GPU can do (``tests/lab/loads.py``); the rest, such as
its clock, its memory and its link, is what NVML says.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import time
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

GIGATRANSFERS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
CODING = {1: 8 / 10, 2: 8 / 10, 6: 1.0}
BLOCK_CODING = 128 / 130

CLOCK_EVERY_S = 0.1
NOTICED_S = 0.05
"""What works for less draws no power that anybody sees."""
LINGER_S = 2.0
"""So long after its last work, or after its process was killed, a GPU still counts as working."""
MOST_PEERS = 8
"""Peers that a GPU can have in one process, none of which it gives up (cudaErrorTooManyPeers)."""
FAR_SHARE = 0.6
"""What is left of a copy through the host whose buffers are in the memory of another socket."""
START = json.loads(os.environ.get("HWLAB_START", "{}"))
REST = 0.75
"""After a product the GPU stands still for so many times as long as that took: to ask for thousands
a second keeps this machine's processors busy. The figures are those of the work."""
PAUSE_S = 10.0
"""What goes on within so long is the same work: a busy machine lets nobody run at times."""


class Clock:
    """Time as a device counts it, which only work makes pass.

    A host that comes late lets the device stand still: it does less, and does not look slower. So
    what a busy test machine does to the host's processes is not in the figures.
    """

    def __init__(self) -> None:
        self.done_s = 0.0
        self._zero_s = time.monotonic()

    @property
    def left_s(self) -> float:
        """How long until the work that is queued is done."""
        return self._zero_s + self.done_s - time.monotonic()

    def rest(self, seconds: float) -> None:
        """Stand still for so long, after the work that is queued."""
        self._zero_s += seconds

    def wait(self, until_s: float) -> None:
        """Return when the device has come so far."""
        early_s = self._zero_s + until_s - time.monotonic()
        if early_s > 0:
            time.sleep(early_s)
        else:
            self._zero_s -= early_s


class Gpu:
    """One that this process sees."""

    def __init__(self, handle: Any, says: dict[str, Any]) -> None:
        self.clock = Clock()
        self.says = says
        self.products = 0
        self.copies = 0
        self._peers: set[int] = set()
        self._handle = handle
        self._index = nvml().nvmlDeviceGetIndex(handle)
        self._work_s = self._since_s = self._until_s = self._asked_s = 0.0
        self._mhz = 0

    @property
    def capability(self) -> tuple[int, int]:
        major, minor = nvml().nvmlDeviceGetCudaComputeCapability(self._handle)
        return int(major), int(minor)

    def memory_bytes(self) -> tuple[int, int]:
        """Return what is free and what there is."""
        memory = nvml().nvmlDeviceGetMemoryInfo(self._handle)
        return memory.free, memory.total

    def multiply(self, operations: float) -> bool:
        """Queue a product of so many operations; return whether it comes out wrong."""
        share = self._sm_mhz() / self.says["sm_mhz"]
        seconds = operations / (self.says["tflops"] * 1e12 * share)
        self.clock.done_s += seconds
        self.clock.rest(REST * seconds)
        self._work_s += seconds
        if self._work_s > NOTICED_S:
            self._show_work()
        self.products += 1
        every = self.says["flip_every"]
        return bool(every) and self.products % every == 0

    def copy(self, size_bytes: int) -> None:
        """Queue the copy of so many bytes within the memory."""
        self.clock.done_s += 2 * size_bytes / (self.says["copy_gbps"] * 1e9)

    def transfer(self, size_bytes: int, share: str) -> None:
        """Queue a copy over the link, of whose speed such a share is reached."""
        link_gbps = self.says["link_gbps"] or self._pcie_gbps()
        self.clock.done_s += size_bytes / (link_gbps * self.says[share] * 1e9)

    def _pcie_gbps(self) -> float:
        generation = self.says["pcie_link_generation"]
        lanes = nvml().nvmlDeviceGetCurrPcieLinkWidth(self._handle)
        return float(GIGATRANSFERS[generation] / 8 * CODING.get(generation, BLOCK_CODING) * lanes)

    def send(self, size_bytes: int, other: Gpu) -> bool:
        """Queue a copy to another GPU; return whether it arrives wrong, or never return."""
        fault = self.says["peer_faults"].get(str(other.index), {})
        share = 1.0
        if self.says["peer_access"]:
            self._peers.add(other.index)
            if len(self._peers) > MOST_PEERS:
                raise RuntimeError("CUDA error: peer mapping resources exhausted")
        elif not self._is_near():
            share = FAR_SHARE
        if fault.get("hang"):
            signal.pause()
        self.clock.done_s += size_bytes / (fault.get("gbps", self.says["peer_gbps"]) * share * 1e9)
        self.copies += 1
        every = fault.get("flip_every", 0)
        return bool(every) and self.copies % every == 0

    def _is_near(self) -> bool:
        """Whether this thread runs near the GPU, as far as this machine has such CPUs."""
        cpus = os.cpu_count() or 1
        mask = nvml().nvmlDeviceGetCpuAffinity(self._handle, cpus // 64 + 1)
        near = {cpu for cpu in range(cpus) if mask[cpu // 64] >> cpu % 64 & 1}
        return not near or os.sched_getaffinity(0) <= near

    @property
    def index(self) -> int:
        """NVML's index."""
        return int(self._index)

    def _sm_mhz(self) -> int:
        """Return the clock that NVML shows, which heat and power may hold down."""
        if not self._mhz or self.clock.done_s - self._asked_s > CLOCK_EVERY_S:
            self._asked_s = self.clock.done_s
            idle = time.time() > self._until_s  # at work it will run as its scenario says
            shown = nvml().nvmlDeviceGetClockInfo(self._handle, nvml().NVML_CLOCK_SM)
            self._mhz = int(self.says["sm_mhz"]) if idle else int(shown)
        return self._mhz

    def _show_work(self) -> None:
        """Let NVML see the work: from when to when, in seconds of the epoch."""
        now_s = time.time()
        if now_s > self._until_s + PAUSE_S:
            self._since_s = now_s
        done_s = now_s + max(self.clock.left_s, 0.0)
        if done_s + LINGER_S / 2 > self._until_s:
            self._until_s = done_s + LINGER_S
            path = Path(f"{os.environ['HWLAB_NVML_LOAD']}.{self._index}")
            new = path.with_name(f"{path.name}.new")
            new.write_text(f"{self._since_s!r} {self._until_s!r}", "ascii")
            new.replace(path)


def visible() -> list[str]:
    """Return the identifiers of the GPUs that this process may use."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [each for each in named.split(",") if each]
    handles = map(nvml().nvmlDeviceGetHandleByIndex, range(nvml().nvmlDeviceGetCount()))
    return [nvml().nvmlDeviceGetUUID(handle) for handle in handles]


def start_up(what: str) -> None:
    """Take as long as this part of a start takes."""
    time.sleep(START.get(what, 0.0) * START.get("scale", 1.0))


@cache
def gpu(place: int) -> Gpu:
    """Return one of them, with a context. Raises RuntimeError as torch does where there is none."""
    if not visible():
        raise RuntimeError("No CUDA GPUs are available")
    handle = nvml().nvmlDeviceGetHandleByUUID(visible()[place])
    facts = json.loads(Path(os.environ["HWLAB_CUDA"]).read_text("utf-8"))
    start_up("context_s")
    return Gpu(handle, facts[nvml().nvmlDeviceGetIndex(handle)])


@cache
def nvml() -> Any:
    """Return pynvml, whole and at work: what the payload has of it is what the payload needs."""
    path = metadata.distribution("nvidia-ml-py").locate_file("pynvml.py")
    spec = importlib.util.spec_from_file_location("whole_pynvml", str(path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # it looks itself up there
    spec.loader.exec_module(module)
    module.nvmlInit()
    return module
