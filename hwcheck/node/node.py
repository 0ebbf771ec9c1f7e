"""What a check may ask of the node it runs on.

The readings of the host and of its GPUs are the public methods of ``NodeHost`` and of ``Gpu``,
wherever in ``host/`` and ``nvml/`` they stand: a check may ask each, and a case answers each by its
name.
"""

from __future__ import annotations

from typing import Iterator, Optional, Protocol, Sequence

from hwcheck.contract.load_run import CollectiveRun, LoadRun
from hwcheck.contract.nccl_diag import DiagnosticsRun
from hwcheck.contract.pairs_run import PairsRun
from hwcheck.contract.quantities import Reported
from hwcheck.contract.wire import Leg, Request
from hwcheck.node.host.reader import NodeHost as NodeHost
from hwcheck.node.nvml.gpu import Gpu as Gpu


class Node(Protocol):
    """The node as a check sees it."""

    @property
    def request(self) -> Request:
        """What the controller asked."""

    @property
    def host(self) -> NodeHost:
        """The host reader."""

    def gpus(self) -> Sequence[Gpu]:
        """Return what NVML sees. Raises CouldNotMeasure when NVML does not answer."""

    def nvml_status(self) -> str:
        """``ok``, or NVML's own error."""

    def nvml_opening_s(self) -> Optional[float]:
        """How long NVML took to open all GPUs, in s; None where nobody measured it.

        Raises CouldNotMeasure when NVML does not answer.
        """

    def nvml_driver_version(self) -> str:
        """Driver version by NVML. Raises CouldNotMeasure."""

    def cuda_driver_version(self) -> str:
        """Newest CUDA version that the driver runs (``12.8``). Raises CouldNotMeasure."""

    def legs(self, collective: str) -> Iterator[Leg]:
        """Time a collective under every leg; one comes as it ends.

        Raises CouldNotMeasure, NotApplicable where MIG splits a GPU, and ``load_lock.BusyError``
        where the node is at work.
        """

    def broken_legs(self) -> Iterator[Leg]:
        """Run legs that are broken on purpose (see ``collective.gates``).

        Raises what ``legs`` does.
        """

    def pairs(self) -> PairsRun:
        """Have every two GPUs copy to each other. Raises what ``legs`` does."""

    def diagnostics(self) -> DiagnosticsRun:
        """Have NCCL run its own diagnostics. Raises what ``legs`` does."""

    def dcgm_diag(self) -> str:
        """Return the JSON of ``dcgmi diag``. Raises what ``legs`` does."""

    def load(self) -> LoadRun:
        """Return the load of this visit; the first to ask starts it. Raises what ``legs`` does."""

    def collective_run(self) -> Optional[CollectiveRun]:
        """Return what NVML told during this visit's collectives; None where GPUs ran none."""

    def reported_under_load(self) -> Optional[Reported]:
        """Return what the driver reported since this visit first loaded the GPUs.

        None where it did not load them.
        """
