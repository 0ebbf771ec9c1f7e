"""The node as it is: what the checks are handed on a real machine."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

from hwcheck.node.check import Gpu
from hwcheck.node.collective.launch import run_legs
from hwcheck.node.host import HostReader
from hwcheck.node.load_watch import LoadWatch
from hwcheck.node.nvml import Nvml
from hwcheck.node.quantities import Reported
from hwcheck.wire import Leg, Request


class LiveNode:
    """Implements ``check.Node`` over NVML, ``/proc``, ``/sys`` and torch."""

    def __init__(self, request: Request, payload: str, progress: Callable[[str], None]) -> None:
        self.request = request
        self.host = HostReader(request.host_root)
        self._payload = payload
        self._progress = progress
        self._nvml = Nvml()
        self._watch: Optional[LoadWatch] = None
        self._loaded = False

    def gpus(self) -> Sequence[Gpu]:
        """See ``check.Node``."""
        return self._nvml.gpus()

    def nvml_status(self) -> str:
        """See ``check.Node``."""
        return self._nvml.status()

    def nvml_driver_version(self) -> str:
        """See ``check.Node``."""
        return self._nvml.driver_version()

    def cuda_driver_version(self) -> str:
        """See ``check.Node``."""
        return self._nvml.cuda_driver_version()

    def legs(self, collective: str) -> Iterator[Leg]:
        """See ``check.Node``."""
        gpus: Sequence[Gpu] = ()
        if self.host.pci_gpus() or self.request.expect.get("gpus"):
            gpus = self.gpus()
        for gpu in gpus:
            gpu.pci_address()  # a lost GPU raises here: the rest would not be this node
        self._watch_load(gpus)
        for leg in run_legs(
            self.request,
            self._payload,
            collective,
            len(gpus),
            self.host.memory_available_bytes(),
            self._progress,
        ):
            self._loaded = self._loaded or leg.state != "not_run"
            yield leg

    def _watch_load(self, gpus: Sequence[Gpu]) -> None:
        # Called before anything loads the GPUs; _loaded says that it did.
        if gpus and self._watch is None:
            self._watch = LoadWatch(self.host, self._nvml.watch_events())

    def reported_under_load(self) -> Optional[Reported]:
        """See ``check.Node``."""
        return self._watch.reported() if self._watch and self._loaded else None

    def busy(self) -> str:
        """Return who works on this node (GPU processes, a scheduler's job), or an empty text.

        Raises CouldNotMeasure when a GPU does not say whether it is in use: what cannot be known
        to be idle is not loaded.
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

    def gpu_facts(self) -> List[Dict[str, Any]]:
        """Return what identifies each GPU; empty where NVML does not answer."""
        return self._nvml.facts()
