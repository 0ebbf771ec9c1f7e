"""NCCL over simulated GPUs: a communicator that takes its time, and collectives that move samples.

A rank's buffer has the length that it was asked for, and holds its values at some places only: the
first two and the last of every rank's chunk. These are really sent, over gloo, so what is compared
is what arrived; how long it takes is what the whole would take at ``gbps``. Only what was filled
since the last run is sent again. The collectives are those of the quick profile.

More ranks than GPUs are on several hosts: leg ``hosts``, as slow as the slowest of them.

``HWLAB_START`` (see ``simulated_gpu``) has for each leg or all of them: ``communicator_s``, which
passes at the first collective, as torch has it; ``connect_s``, after NCCL's ``Init COMPLETE``;
``exit_s``, a rank's way out; ``gbps`` (busbw) by leg. ``faults`` are by leg ``{kind, rank}``: the
rank stops (``stop at start``, ``stop at connect``, ``stop in the middle``), dies (``die``) or is
slow (``drag``); of kind ``plugin`` no rank gets a communicator, but over sockets.
``nccl`` is the version. From 2.31 on ``NCCL_RUN_DIAGNOSTICS=1`` has rank 0 report before ``Init
COMPLETE``, while all log what they do (NVIDIA/nccl, src/diagnostics.cc). ``diagnostics`` has the
pairs that it calls ``failed`` (``2-5: write mismatch``), and ``breaks``: ``torn`` (another line is
within its own, and the rest is lost) or ``hangs`` (a rank stops in the middle). With
``NCCL_RUN_RAS_DIAGNOSTICS=1`` RAS reports after it; ``ras`` are complaints by check.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import simulated_gpu

VERSION = tuple(simulated_gpu.START.get("nccl", (2, 27, 5)))
DIAGNOSTICS = (2, 31)
GBPS = {"default": 450.0, "p2p_off": 40.0, "net": 40.0, "hosts": 340.0}
LATENCY_S = 30e-6
MIDDLE_BYTES = 2 * 1024 * 1024
DRAG_S = 0.05
WAYS = {
    "default": "P2P/CUMEM",
    "p2p_off": "SHM/direct/direct",
    "net": "NET/IB/0/GDRDMA",
    "hosts": "NET/IB/0/GDRDMA",
}


class Memory:
    """What was allocated: values at some places, and whether they were sent since they changed."""

    def __init__(self, torch: ModuleType, length: int, dtype: Any, ranks: int, place: int) -> None:
        chunk = max(1, length // ranks)
        firsts = range(0, length, chunk)
        places = {first + rest for first in firsts for rest in (0, 1, chunk - 1)}
        self.torch = torch
        self.places = torch.tensor(sorted(at for at in {*places, length - 1} if 0 <= at < length))
        self.values = torch.zeros(len(self.places), dtype=dtype)
        self.changed = False
        self.gpu = simulated_gpu.gpu(place)


class Buffer:
    """A part of a memory, flat or as rows of so many ``columns``."""

    def __init__(self, memory: Memory, start: int, length: int, columns: int = 0) -> None:
        self.memory, self._start, self._length, self._columns = memory, start, length, columns
        self.dtype = memory.values.dtype

    def numel(self) -> int:
        return self._length

    def element_size(self) -> int:
        return int(self.memory.values.element_size())

    def __getitem__(self, key: Any) -> Buffer:
        if isinstance(key, slice):
            begin, end, _ = key.indices(self._length)
            return Buffer(self.memory, self._start + begin, max(0, end - begin))
        return Buffer(self.memory, self._start + key * self._columns, self._columns)

    def __setitem__(self, key: Any, part: Buffer) -> None:
        """A part that was changed in place is part of this already."""

    def view(self, rows: int, columns: int) -> Buffer:
        columns = columns if rows == -1 else self._length // rows
        return Buffer(self.memory, self._start, self._length, columns)

    def split(self, rows: int) -> Iterator[Buffer]:
        yield self

    def _inside(self) -> tuple[Any, Any]:
        """Return the indexes of the values inside, and where in a row each of them is."""
        places = self.memory.places - self._start
        index = ((places >= 0) & (places < self._length)).nonzero().flatten()
        within = places[index]
        return index, within % self._columns if self._columns else within

    def copy_(self, period: Any) -> Buffer:
        index, within = self._inside()
        self.memory.values[index] = period[within]
        self.memory.changed = True
        self.memory.gpu.copy(self._length * self.element_size())
        return self

    def zero_(self) -> Buffer:
        self.memory.values[self._inside()[0]] = 0
        return self

    def __iadd__(self, summand: int) -> Buffer:
        self.memory.values[self._inside()[0]] += summand
        return self

    def __ne__(self, period: object) -> Any:
        index, within = self._inside()
        clock = self.memory.gpu.clock
        self.memory.gpu.copy(self._length * self.element_size())
        clock.wait(clock.done_s)
        return self.memory.values[index] != period[within]  # type: ignore[index]


class Communicator:
    """The ranks of this process's group. NCCL makes it at the first collective."""

    def __init__(self, torch: ModuleType, form: Callable[..., None], rank: int, ranks: int) -> None:
        self._torch, self._form, self.rank, self.ranks = torch, form, rank, ranks
        self._is_there = False
        off = {name for name in ("P2P", "SHM") if os.environ.get(f"NCCL_{name}_DISABLE") == "1"}
        self._leg = "net" if "SHM" in off else "p2p_off" if off else "default"
        self._gpus = len(simulated_gpu.visible())
        if ranks > self._gpus:
            self._leg = "hosts"
        fault = simulated_gpu.START.get("faults", {}).get(self._leg, {})
        self._kind = fault.get("kind", "") if fault.get("rank", rank) == rank else ""

    def buffer(self, length: int, dtype: Any, place: int) -> Buffer:
        return Buffer(Memory(self._torch, length, dtype, self.ranks, place), 0, length)

    def run(self, name: str, source: Buffer, target: Buffer, factor: float, send: Any) -> None:
        """Queue a collective; ``send`` moves the values of a source that has changed."""
        if not self._is_there:
            self._is_there = True
            self._begin()
        size_bytes = target.numel() * target.element_size()
        if self.rank == 0:
            self._say(
                f"{name}: {size_bytes} Bytes -> Algo RING proto SIMPLE channel{{Lo..Hi}}={{0..15}}"
            )
        if size_bytes >= MIDDLE_BYTES:
            self._fault("stop in the middle", "die")
        self._fault("drag")
        if source.memory.changed:
            send()
            source.memory.changed = False
        gbps = {**GBPS, **simulated_gpu.START.get("gbps", {})}[self._leg]
        target.memory.gpu.clock.done_s += LATENCY_S + size_bytes * factor / (gbps * 1e9)

    def _begin(self) -> None:
        for name in sorted(os.environ):
            if name.startswith("NCCL_"):
                self._say(f"{name} set by environment to {os.environ[name]}")
        self._say(f"NCCL version {'.'.join(map(str, VERSION))}+cuda12.9")
        comm = f"ncclCommInitRankConfig comm 0x5 rank {self.rank} nranks {self.ranks}"
        device = self.rank % self._gpus
        self._say(f"{comm} cudaDev {device} nvmlDev {device} - Init START")
        self._fault("stop at start")
        sockets = os.environ.get("NCCL_NET") == "Socket"
        if self._kind == "plugin" and not sockets:
            raise RuntimeError(
                "NCCL error: unhandled system error. Last error: NET/Plugin : no usable device"
            )
        simulated_gpu.start_up("communicator_s")
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        self._form()
        if VERSION >= DIAGNOSTICS and os.environ.get("NCCL_RUN_DIAGNOSTICS") == "1":
            self._diagnose(**simulated_gpu.START.get("diagnostics", {}))
        self._say(f"{comm} cudaDev {device} nvmlDev {device} - Init COMPLETE")
        if VERSION >= DIAGNOSTICS and os.environ.get("NCCL_RUN_RAS_DIAGNOSTICS") == "1":
            self._compare(**simulated_gpu.START.get("diagnostics", {}))
        self._fault("stop at connect")
        simulated_gpu.start_up("connect_s")
        way = "NET/Socket/0" if self._leg == "net" and sockets else WAYS[self._leg]
        after = (self.rank + 1) % self.ranks
        ends = f"{self.rank}[{device}] -> {after}[{after % self._gpus}]"
        self._say(f"Channel 00/0 : {ends} via {way}")

    def _compare(self, ras: Mapping[str, str] | None = None, **_: object) -> None:
        """Report as RAS does, of all ranks."""
        if self.rank != 0:
            return
        across = f"across {self.ranks} ranks in comm 0x5"
        fine = {
            "GPU inventory": f"{self.ranks}x NVIDIA H100 per node consistent {across}",
            "CUDA driver version": f"12090 consistent {across}",
            "ECC": f"no uncorrected volatile errors {across}",
            "NVLink": f"found 18 link(s) per device, all active {across}",
            "NCCL environment": f"NCCL_* env vars consistent {across}",
        }
        self._report("=== RAS Diagnostics ===")
        for check, text in fine.items():
            words = (ras or {}).get(check)
            self._report(
                f"[INFO] {check}: {words} {across}" if words else f"[OK]   {check}: {text}"
            )
        self._report(f"RAS diagnostics completed in 12.3 ms across {self.ranks} ranks")

    def _diagnose(
        self, failed: Mapping[str, str] | None = None, breaks: str = "", **_: object
    ) -> None:
        begin_s = time.monotonic()
        if self.rank == 0:
            self._report("=== NCCL Diagnostics ===")
            self._report("[OK] net bw: skipped (single host or no network transport)")
        granted = simulated_gpu.gpu(self.rank).says["peer_access"]
        peers = [peer for peer in range(self.ranks) if peer != self.rank] if granted else []
        for way in ("write", "read"):
            for peer in peers:
                self._say(f"Diagnostics P2P {way} {_edge(self.rank, peer)} topoRead=0")
        if breaks == "hangs" and self.rank == self.ranks - 1:
            signal.pause()
        self._meet()
        if self.rank == 0 and peers:
            if breaks == "torn":
                self._report("[INFO] p2p: only 55/56 GPU-to-GPU peer acc", end="")
                self._say("Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM")
                return
            self._summarize(failed or {})
        if self.rank == 0:
            took_ms = (time.monotonic() - begin_s) * 1e3
            self._report(
                f"NCCL diagnostics completed in {took_ms:.1f} ms across {self.ranks} ranks"
            )

    def _summarize(self, failed: Mapping[str, str]) -> None:
        tested = self.ranks * (self.ranks - 1)
        if not failed:
            self._report(
                "[OK]   p2p: verified P2P access in both directions between every GPU pair "
                f"({tested} peer accesses)"
            )
            return
        passed = f"{tested - len(failed)}/{tested}"
        self._report(f"[INFO] p2p: only {passed} GPU-to-GPU peer accesses passed verification")
        for pair, words in failed.items():
            edge = _edge(*map(int, pair.split("-")))
            got = "expected=0x0000d1a600020005 got=0x0000000000000000"
            self._report(f"[INFO] p2p: {words} {edge} {got}; check the single-node NVLink topology")

    def _meet(self) -> None:
        """Wait for every rank, as a barrier of NCCL's bootstrap does."""
        self._torch.distributed.barrier()

    def _report(self, text: str, end: str = "\n") -> None:
        os.write(1, f"node:{os.getpid()} NCCL DIAG {text}{end}".encode())

    def _fault(self, *kinds: str) -> None:
        if self._kind not in kinds:
            return
        if self._kind == "drag":
            time.sleep(DRAG_S)
        elif self._kind == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            signal.pause()

    def _say(self, text: str) -> None:
        line = f"node:{os.getpid()}:{os.getpid()} [{self.rank}] NCCL INFO {text}\n"
        os.write(1, line.encode())


def _edge(source: int, target: int) -> str:
    ends = zip(("src", "dst"), (source, target), strict=True)
    fields = [f"{end}Rank={gpu} {end}CudaDev={gpu} {end}NvmlDev={gpu}" for end, gpu in ends]
    return f"{' '.join(fields)} path=NVL handle=CUMEM_POSIX_FD"


def install(torch: ModuleType) -> None:
    """Let this torch have NCCL."""
    import torch.distributed as dist

    group: list[Communicator] = []
    whole_init, whole_reduce, whole_gather = (
        dist.init_process_group,
        dist.all_reduce,
        dist.all_gather,
    )
    empty, arange = torch.empty, torch.arange

    def init_process_group(
        backend: str, *, store: Any, rank: int, world_size: int, **how: Any
    ) -> None:
        def form() -> None:
            whole_init("gloo", store=store, rank=rank, world_size=world_size, **how)

        if backend != "nccl":
            form()
            return
        group.append(Communicator(torch, form, rank, world_size))
        torch.set_num_threads(1)  # threads that wait for each other take the ranks' processors
        leave = os._exit

        def leave_slowly(code: int) -> None:
            sys.stdout.flush()
            simulated_gpu.start_up("exit_s")
            leave(code)

        os._exit = leave_slowly  # type: ignore[assignment]

    def all_reduce(tensor: Any, *args: Any, **how: Any) -> Any:
        if not isinstance(tensor, Buffer):
            return whole_reduce(tensor, *args, **how)
        ranks = group[0].ranks
        send = lambda: whole_reduce(tensor.memory.values)  # noqa: E731
        return group[0].run("AllReduce", tensor, tensor, 2 * (ranks - 1) / ranks, send)

    def all_to_all_single(target: Buffer, source: Buffer) -> None:
        ranks, rank, chunk = group[0].ranks, group[0].rank, source.numel() // group[0].ranks

        def send() -> None:
            sent = [torch.empty_like(source.memory.values) for _ in range(ranks)]
            whole_gather(sent, source.memory.values)
            places = {int(at): index for index, at in enumerate(source.memory.places)}
            for index, at in enumerate(target.memory.places.tolist()):
                sender, within = divmod(at, chunk)
                target.memory.values[index] = sent[sender][places[rank * chunk + within]]

        group[0].run("AlltoAll", source, target, (ranks - 1) / ranks, send)

    def make(*size: Any, **how: Any) -> Any:
        device = str(how.get("device", ""))
        if not group or not device.startswith("cuda"):
            return empty(*size, **how)
        return group[0].buffer(size[0], how["dtype"], int(device.rpartition(":")[2]))

    def small_range(*bounds: int, **how: Any) -> Any:
        """What a rank works out of such is small: it may be on the CPU."""
        if group:
            how.pop("device", None)
        return arange(*bounds, **how)

    dist.init_process_group = init_process_group
    dist.is_nccl_available = lambda: True
    dist.all_reduce, dist.all_to_all_single = all_reduce, all_to_all_single
    torch.empty, torch.arange = make, small_range
    torch.cuda.nccl.version = lambda: VERSION
