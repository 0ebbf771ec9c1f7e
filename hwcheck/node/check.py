"""What a check is, and what it may ask of the node it runs on."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Callable, Iterator, Optional, Protocol, Sequence, Tuple, Type, TypeVar, Union

from hwcheck.node import reasons
from hwcheck.node.collective.nccl_diag import DiagnosticsRun
from hwcheck.node.host.protocol import NodeHost as NodeHost
from hwcheck.node.limits import AbovePeers, Limit
from hwcheck.node.load.records import CollectiveRun, LoadRun
from hwcheck.node.nvml.protocol import Gpu as Gpu
from hwcheck.node.pairs.records import PairsRun
from hwcheck.node.quantities import Reported
from hwcheck.node.reasons import Reason
from hwcheck.node.wire import Leg, Request, Sample

A = TypeVar("A", bound="Unanswered")

WITHOUT_MIG = "GPUs without MIG"
"""What a check of whole GPUs names as optional; believed only of a node that names one with MIG."""


class Unanswered(Exception):  # noqa: N818 - an answer, not an error
    """An answer of its own kind: its text is for the operator, its code for what decides.

    Without a code (one of ``reasons.CODES``) it has that of its kind.
    """

    CODE = reasons.UNREADABLE

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.reason = Reason(code or self.CODE, text)

    @classmethod
    def of(cls: Type[A], reason: Reason) -> A:
        """Return the answer with this reason."""
        return cls(reason.text, reason.code)

    def about(self: A, subject: object) -> A:
        """Return it as said of something: ``gpu3: ECC errors: Not Supported``."""
        return self.of(self.reason.about(subject))


class CouldNotMeasure(Unanswered):
    """A quantity cannot be read here. Never a pass or a fail.

    Without a code the text is all that says what to do (``reasons.UNREADABLE``).
    """


class NotApplicable(Unanswered):
    """The check has no meaning on this node; it does not count against coverage."""

    CODE = reasons.NOT_APPLICABLE


@dataclass(frozen=True)
class Metric:
    """One quantity of a check: its unit, what it means and what it is held against.

    A metric with no limit is recorded, and may serve others as their reference. An answer that
    claims to be done has a ``required`` one, for every GPU where the check is ``per_gpu``. A
    percentage may name the two metrics of the check that it is the ``ratio`` of, which say more.
    """

    name: str
    unit: str
    meaning: str
    limits: Tuple[Union[Limit, AbovePeers], ...] = ()
    required: bool = False
    ratio: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Remedy:
    """What to do when a check fails: likely cause, fix, a command that shows it, a role."""

    cause: str
    fix: str
    command: str = ""
    role: str = ""


Function = Callable[["Node"], Iterator[Union[Sample, Leg]]]


@dataclass(frozen=True)
class Check:
    """A registered check; ``id`` is the stem of its file and the name of its function.

    ``gpu``: it needs an NVIDIA GPU, and is not applicable on a node that has none and should have
    none. ``load``: it loads the node, so it does not run on a node at work. ``after_load``: it
    looks back on what those checks did, so it comes after them. The rest says what an answer has to
    hold to be taken for one: with ``per_gpu`` something of every GPU; ``legs`` are the legs that it
    times; ``optional`` names what a node may lack for the check not to apply (an
    empty text: it applies everywhere).
    """

    id: str
    function: Function
    metrics: Tuple[Metric, ...]
    remedy: Remedy
    gpu: bool
    load: bool
    doc: str
    per_gpu: bool = False
    legs: Tuple[str, ...] = ()
    optional: str = ""
    after_load: bool = False

    def metric(self, name: str) -> Optional[Metric]:
        """Return the metric of that name, or None."""
        return next((metric for metric in self.metrics if metric.name == name), None)


def check(
    *,
    metrics: Sequence[Metric],
    remedy: Remedy,
    gpu: bool = True,
    load: bool = False,
    per_gpu: bool = False,
    legs: Sequence[str] = (),
    optional: str = "",
    after_load: bool = False,
) -> Callable[[Function], Check]:
    """Register a function as a check (see ``Check``)."""

    def register(function: Function) -> Check:
        return Check(
            function.__name__,
            function,
            tuple(metrics),
            remedy,
            gpu,
            load,
            inspect.getdoc(function) or "",  # python -OO leaves none
            per_gpu,
            tuple(legs),
            optional,
            after_load,
        )

    return register


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
