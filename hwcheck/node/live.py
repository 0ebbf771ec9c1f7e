"""The node as it is: what the checks are handed on a real machine."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Callable, Iterator, List, Optional, Sequence, Union

from hwcheck.contract import reasons
from hwcheck.contract.check import CouldNotMeasure, NotApplicable
from hwcheck.contract.load_run import CollectiveRun, LoadRun
from hwcheck.contract.nccl_diag import DiagnosticsRun
from hwcheck.contract.pairs_run import PairsRun
from hwcheck.contract.quantities import Reported
from hwcheck.contract.wire import GpuFacts, Leg, Request
from hwcheck.node import load_lock
from hwcheck.node.affinity import near_cpus
from hwcheck.node.gpus import mig_is_on
from hwcheck.node.host.reader import NodeHost
from hwcheck.node.node import Gpu
from hwcheck.node.nvml.nvml import Nvml, opening_timeout_s

if TYPE_CHECKING:  # what only a load needs is imported by it: a node compiles what it imports
    from hwcheck.node.load.sampler import Sampler
    from hwcheck.node.load_watch import LoadWatch
    from hwcheck.node.together.launch import Collectives

Recorded = Union[LoadRun, CollectiveRun]
"""What NVML was read through."""
LOOK_S = 0.5


class LiveNode:
    """Implements ``node.Node`` over NVML, ``/proc``, ``/sys`` and torch.

    ``progress`` is told what goes on, ``recorded`` the load, and the collectives, as soon as they
    are over.
    """

    def __init__(
        self,
        request: Request,
        payload: str,
        progress: Callable[[str], None],
        recorded: Callable[[Recorded], None] = lambda _: None,
    ) -> None:
        self.request = request
        self.host = NodeHost(request.host_root)
        self._payload = payload
        self._progress = progress
        self._recorded = recorded
        self._nvml = Nvml(opening_s=lambda: opening_timeout_s(len(self.host.pci_gpus())))
        self._watch: Optional[LoadWatch] = None
        self._loaded = False
        self._collectives: Optional[Collectives] = None
        self._collective_run: Optional[CollectiveRun] = None
        self._load: Optional[LoadRun] = None
        self._load_problem: Optional[Exception] = None

    def gpus(self) -> Sequence[Gpu]:
        return self._nvml.gpus()

    def nvml_status(self) -> str:
        return self._nvml.status()

    def nvml_opening_s(self) -> Optional[float]:
        return self._nvml.opening_took_s()

    def nvml_driver_version(self) -> str:
        return self._nvml.driver_version()

    def cuda_driver_version(self) -> str:
        return self._nvml.cuda_driver_version()

    def legs(self, collective: str) -> Iterator[Leg]:
        # All of the visit are timed when the first is asked for.
        yield from self._together().legs(collective)

    def broken_legs(self) -> Iterator[Leg]:
        from hwcheck.node.collective.hangs import problem_of
        from hwcheck.node.together import gates

        gpus, memory = self._gpus_to_load(), self.host.memory_available_bytes()
        orders = (self.request.torch_python or sys.executable, self._payload, len(gpus), memory)
        with self._alone():
            yield from gates.run(*orders, self._note_progress, lambda: problem_of(gpus))

    def pairs(self) -> PairsRun:
        # The copies are made before the legs of the visit.
        return self._together().pairs()

    def diagnostics(self) -> DiagnosticsRun:
        # NCCL is asked after the legs of the visit.
        return self._together().diagnostics()

    def dcgm_diag(self) -> str:
        from hwcheck.node import dcgm

        gpus = self._gpus_to_load()
        if not gpus:
            raise NotApplicable("the node has no GPU")
        with self._alone():
            self._note_progress("dcgmi diag -r %d" % dcgm.LEVEL)
            return dcgm.diagnose(self._payload)

    def _together(self) -> Collectives:
        """Have the GPUs do what needs them all, once in a visit. Raises what ``legs`` does."""
        from hwcheck.node.collective.choose_legs import choose
        from hwcheck.node.collective.hangs import problem_of
        from hwcheck.node.load.sampler import Sampler
        from hwcheck.node.together import launch
        from hwcheck.node.together.launch import Collectives

        if self._collectives is None:
            gpus, memory = self._gpus_to_load(), self.host.memory_available_bytes()
            plans = choose(self, len(gpus), self.request.timing.legs)
            orders = (self.request, self._payload, len(gpus), memory, self._note_progress, plans)
            with self._alone():
                collectives = self._collectives = Collectives()
                sampler, begin_s = Sampler(self._nvml.sampled() if gpus else ()), time.monotonic()
                sampler.start()
                try:
                    near = tuple(near_cpus(gpu) for gpu in gpus)
                    legs = launch.run_legs(*orders, lambda: problem_of(gpus), near)
                    collectives.take(legs)
                finally:
                    sampler.stop()
                self._loaded = self._loaded or collectives.started
                if gpus and collectives.started:
                    took_s = time.monotonic() - begin_s
                    self._collective_run = CollectiveRun(sampler.series(begin_s), took_s)
                    self._recorded(self._collective_run)
        return self._collectives

    def sampler(self) -> Sampler:
        """Return what samples the GPUs over time; it has not begun."""
        from hwcheck.node.load.sampler import Sampler

        return Sampler(self._nvml.sampled())

    def collective_run(self) -> Optional[CollectiveRun]:
        return self._collective_run

    def _note_progress(self, text: str) -> None:
        """Pass on what a collective has come to: it has loaded the GPUs, however it ends."""
        self._loaded = True
        self._progress(text)

    def load(self) -> LoadRun:
        # A load that could not be run is not tried again.
        if self._load is None and self._load_problem is None:
            try:
                self._load = self._run_load()
            except (CouldNotMeasure, load_lock.BusyError) as error:
                self._load_problem = error.of(error.reason)  # without its frames
            else:
                self._recorded(self._load)
        if self._load is None:
            assert self._load_problem is not None
            raise self._load_problem
        return self._load

    def _run_load(self) -> LoadRun:
        from hwcheck.node.load.launch import Burn
        from hwcheck.node.load.run import Load, orders, times
        from hwcheck.node.load.sampler import Sampler

        gpus = self._gpus_to_load()
        spec = orders(self.request, gpus, self.host.memory_available_bytes())
        burn = Burn(spec, self.request.torch_python, self._payload)
        sampler = Sampler(self._nvml.sampled() if gpus else ())
        duration = times(self.request, len(gpus))
        try:
            with self._alone():
                force = self.request.force
                return Load(gpus, burn, sampler, duration, self._progress, force=force).run()
        finally:
            # It names its library once a GPU works: what the driver says since may be due to it.
            self._loaded = self._loaded or bool(gpus and burn.library)

    @contextmanager
    def reserved(self) -> Iterator[int]:
        """Keep the node for the length of the block; yields its number of GPUs.

        Raises what ``legs`` does.
        """
        gpus = self._gpus_to_load()
        with self._alone():
            yield len(gpus)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the load lock for the length of the block.

        Raises BusyError where another process holds it, whatever is asked for, and where somebody
        works on the node, unless the request has ``force``.
        """
        with load_lock.held():
            why = "" if self.request.force else self._busy_with_others() or self._in_use()
            if why:
                raise load_lock.BusyError(why)
            yield

    def _gpus_to_load(self) -> Sequence[Gpu]:
        """Return all GPUs, and listen from now on to what the driver reports.

        ``_loaded`` says whether they were loaded then.
        """
        gpus: Sequence[Gpu] = ()
        if self.host.pci_gpus() or self.request.expect.get("gpus"):
            gpus = self.gpus()
        for gpu in gpus:
            gpu.pci_address()  # a lost GPU raises here: the rest would not be this node
        if any(mig_is_on(gpu) for gpu in gpus):
            # NVIDIA MIG User Guide: a process is given one instance, and no peer access.
            raise NotApplicable(
                "MIG is on: an instance stands for neither the GPU nor the node", reasons.MIG
            )
        if gpus and self._watch is None:
            from hwcheck.node.load_watch import LoadWatch

            self._watch = LoadWatch(self.host, self._nvml.watch_events())
        return gpus

    def reported_under_load(self) -> Optional[Reported]:
        return self._watch.reported() if self._watch and self._loaded else None

    def busy(self) -> str:
        """Return who works on this node (GPU processes, a scheduler's job), or an empty text.

        Raises CouldNotMeasure when a GPU does not say whether it is in use, or processes of others
        are hidden: what cannot be known to be idle is not loaded.
        """
        job = self.host.scheduler_job()
        if job:
            return "a scheduler's job is running: %s" % job
        if self.nvml_status() != "ok":
            return ""
        for gpu in self.gpus():
            pids = gpu.compute_processes()
            if pids:
                return "%s is in use by process %s" % (gpu.subject, ", ".join(map(str, pids[:5])))
        return ""

    def _busy_with_others(self) -> str:
        """Return ``busy()``, having waited a while for what this visit has ended to leave."""
        end_s = time.monotonic() + load_lock.LEAVE_S
        while True:
            why = self.busy()
            if not why or time.monotonic() >= end_s or not self._only_ours_leave():
                return why
            time.sleep(LOOK_S)

    def _only_ours_leave(self) -> bool:
        """Whether all processes on the GPUs are of this visit, or have ended but for the driver."""
        if not self._loaded:
            return False
        pids = {pid for gpu in self.gpus() for pid in gpu.compute_processes()}
        return all(map(load_lock.is_ours_or_gone, pids))

    def _in_use(self) -> str:
        """Return which GPU is at work for nobody that NVML names, or an empty text."""
        gpus: Sequence[Gpu] = self.gpus() if self.nvml_status() == "ok" else ()
        end_s = time.monotonic() + load_lock.TRAIL_S
        while True:
            gpus = [gpu for gpu in gpus if _use_percent(gpu) > load_lock.IDLE_PERCENT]
            if not gpus:
                return ""
            if time.monotonic() >= end_s:
                return load_lock.IN_USE % (gpus[0].subject, _use_percent(gpus[0]))
            time.sleep(LOOK_S)

    def gpu_facts(self) -> List[GpuFacts]:
        """Return what identifies each GPU; empty where NVML does not answer."""
        return self._nvml.facts()


def _use_percent(gpu: Gpu) -> int:
    try:
        return gpu.utilization_percent()
    except CouldNotMeasure:
        return 0  # it does not tell: the processes that NVML names are all that is known
