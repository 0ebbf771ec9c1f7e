"""A node made from the JSON of a case: what its bus, its kernel, NVML and NCCL would say.

``node`` holds the keys of the host that ``hwcheck/testing/fake_host.py`` lists, ``nvml_status``,
``nvml_opening_s``, ``nvml_driver_version``, ``cuda_driver_version``, ``gpus``, ``legs``, ``pairs``
(the record ``hwcheck/contract/pairs_run.py``), ``diagnostics`` (the record ``DiagnosticsRun``; its
``report`` may be a list of lines), ``dcgm_diag`` (its JSON; absent: not installed), ``load``
(``hwcheck/testing/fake_load.py``; absent: a load would be a mistake), ``collectives`` (there too;
absent: none ran) and ``reported_under_load`` (absent: nothing loaded the GPUs). Each of ``gpus``
overrides the quantities in ``gpu``; ``hwcheck/testing/fake_gpu.py`` says how they are written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from hwcheck.contract.check import CouldNotMeasure, NotApplicable
from hwcheck.contract.facts import KernelMessage
from hwcheck.contract.load_run import CollectiveRun, LoadRun
from hwcheck.contract.nccl_diag import DiagnosticsRun
from hwcheck.contract.pairs_run import PairsRun
from hwcheck.contract.quantities import GpuEvent, Reported
from hwcheck.contract.reasons import Reason, of_former_run
from hwcheck.contract.wire import Leg, Request
from hwcheck.node import load_lock
from hwcheck.node.gpus import mig_is_on
from hwcheck.testing.fake_gpu import FakeGpu
from hwcheck.testing.fake_host import HOST_KEYS
from hwcheck.testing.fake_host import FakeHost as FakeHost
from hwcheck.testing.fake_load import fake_collectives, fake_load

NVML_KEYS = {
    *("nvml_status", "nvml_opening_s", "nvml_driver_version", "cuda_driver_version"),
    *("gpus", "gpu"),
}
OF_LOADS = {
    "legs",
    "legs_error",
    "broken_legs",
    "pairs",
    "diagnostics",
    "dcgm_diag",
    "load",
    "collectives",
    "reported_under_load",
}
NODE_KEYS = HOST_KEYS | NVML_KEYS | OF_LOADS


class FakeNode:
    """Implements ``node.Node``."""

    def __init__(
        self, says: Mapping[str, Any], expect: Mapping[str, Any] | None = None, **request: Any
    ) -> None:
        assert set(says) <= NODE_KEYS, f"unknown in a case's node: {sorted(set(says) - NODE_KEYS)}"
        self._says = says
        self.request = Request("0", checks=(), expect=dict(expect or {}), **request)
        self.host = FakeHost(says)

    def gpus(self) -> list[FakeGpu]:
        self._nvml_or_raise()
        common = self._says.get("gpu", {})
        of_gpus = enumerate(self._says.get("gpus", []))
        return [
            FakeGpu(index, gpu if "error" in gpu else {**common, **gpu}) for index, gpu in of_gpus
        ]

    def nvml_status(self) -> str:
        return str(self._says.get("nvml_status", "ok"))

    def nvml_opening_s(self) -> float | None:
        return self._says.get("nvml_opening_s")

    def nvml_driver_version(self) -> str:
        self._nvml_or_raise()
        if "nvml_driver_version" not in self._says:
            raise CouldNotMeasure("Not Supported")
        return str(self._says["nvml_driver_version"])

    def cuda_driver_version(self) -> str:
        self._nvml_or_raise()
        if "cuda_driver_version" not in self._says:
            raise CouldNotMeasure("Not Supported")
        return str(self._says["cuda_driver_version"])

    def legs(self, collective: str) -> Iterator[Leg]:
        if any(map(mig_is_on, self.gpus() if "gpus" in self._says else ())):
            raise NotApplicable("MIG is on")
        self._refuse_at_work()
        for leg in self._says.get("legs", []):
            yield Leg.from_dict({"collective": collective, **leg})
        if "legs_error" in self._says:
            raise CouldNotMeasure(self._says["legs_error"])

    def broken_legs(self) -> Iterator[Leg]:
        if any(map(mig_is_on, self.gpus() if "gpus" in self._says else ())):
            raise NotApplicable("MIG is on")
        self._refuse_at_work()
        for leg in self._says.get("broken_legs", []):
            yield Leg.from_dict(leg)
        if "legs_error" in self._says:
            raise CouldNotMeasure(self._says["legs_error"])

    def pairs(self) -> PairsRun:
        if any(map(mig_is_on, self.gpus())):
            raise NotApplicable("MIG is on")
        self._refuse_at_work()
        assert "pairs" in self._says, "nothing may copy between the GPUs of this node"
        return PairsRun.from_dict(self._says["pairs"])

    def diagnostics(self) -> DiagnosticsRun:
        if any(map(mig_is_on, self.gpus())):
            raise NotApplicable("MIG is on")
        self._refuse_at_work()
        assert "diagnostics" in self._says, "NCCL has no diagnostics on this node"
        case = dict(self._says["diagnostics"])
        if isinstance(case.get("report"), list):
            case["report"] = "\n".join(case["report"])
        return DiagnosticsRun.from_dict(case)

    def dcgm_diag(self) -> str:
        self._refuse_at_work()
        if "dcgm_diag" not in self._says:
            raise NotApplicable("DCGM is not installed")
        case = self._says["dcgm_diag"]
        return case if isinstance(case, str) else json.dumps(case)

    def load(self) -> LoadRun:
        assert "load" in self._says, "nothing may load this node"
        if "not_applicable" in self._says["load"]:
            raise NotApplicable(self._says["load"]["not_applicable"])
        self._refuse_at_work()
        return fake_load(self._says["load"])

    def collective_run(self) -> CollectiveRun | None:
        case = self._says.get("collectives")
        return fake_collectives(case) if case else None

    def reported_under_load(self) -> Reported | None:
        if "reported_under_load" not in self._says:
            return None
        case = dict(self._says["reported_under_load"])
        case["messages"] = tuple(KernelMessage(**each) for each in case.get("messages", ()))
        case["events"] = tuple(GpuEvent(**each) for each in case.get("events", ()))
        for name in {"log_problem", "events_problem"} & case.keys():
            case[name] = Reason.from_json(case[name])
        return Reported(**case)

    def _refuse_at_work(self) -> None:
        pids = [pid for gpu in self.gpus() for pid in gpu.compute_processes()]
        if pids and not self.request.force:
            raise load_lock.BusyError(f"process {pids[0]} uses a GPU")

    def _nvml_or_raise(self) -> None:
        if self.nvml_status() != "ok":
            raise CouldNotMeasure.of(of_former_run(self.nvml_status()))
