"""What a check is and may declare. What it may ask of its node is in ``node``."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import (
    Any,
    Callable,
    Iterator,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
)

from hwcheck.contract import reasons
from hwcheck.contract.limits import AbovePeers, Growth, Limit, Steady
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import Leg, Sample

A = TypeVar("A", bound="Unanswered")

WITHOUT_MIG = "GPUs without MIG"
"""What a check of whole GPUs names as optional; believed only of a node that names one with MIG."""


class Unanswered(Exception):  # noqa: N818 - an answer, not an error
    """An answer of its own kind: its text is for the operator, its code for what decides.

    Without a code (one of ``reasons.CODES``) it has that of its kind.
    """

    CODE = reasons.NOT_MEASURED

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

    Without a code the text is all that says what to do (``reasons.NOT_MEASURED``).
    """


class NotApplicable(Unanswered):
    """The check has no meaning on this node; it does not count against coverage."""

    CODE = reasons.NOT_APPLICABLE


GROUPS = (
    *("GPUs", "GPU memory", "PCIe", "NVLink, P2P", "power, clocks", "heat", "collectives"),
    *("network", "software", "host", "other"),
)
"""What checks are about, in the order of the report's columns."""

STAGES = ("inventory", "idle", "prove", "load", "dcgm", "collectives")
"""The stages of an acceptance that run checks, in their order."""

TIMED = ("load", "collectives")
"""Those whose bandwidths are held against what a check says of links and software."""

PROOFS = ("", "readings", "events")
"""What of a check's answer a fault's record for the vendor has."""


@dataclass(frozen=True)
class Varies:
    """Why a metric is not alike where all is well: over like hosts, GPUs of a node, or nights."""

    why: str
    hosts: bool = True
    neighbors: bool = True
    nights: bool = True


BY_USE = Varies("goes by use")
BY_RUN = Varies("goes by the run: how long the load was, and how large its messages")
BY_TRAFFIC = Varies("goes by traffic and congestion")
BY_AGE = Varies("goes by age: what it grew by since another night is news", nights=False)
BY_SLOT = Varies("goes by its slot", hosts=False, nights=False)
BY_IDENTITY = Varies("its identity: the GPUs are compared themselves")
OWN_MAXIMUM = Varies("held against its own maximum; what it lost since is news", nights=False)
IDLE_LINK = Varies("at idle a link slows down to save power")


@dataclass(frozen=True)
class Grounds:
    """A reason of the vendor to take a GPU back where the metric fails, and who says so."""

    text: str
    source: str


@dataclass(frozen=True)
class Metric:
    """One quantity of a check: its unit, what it means and what it is held against.

    A metric with no limit is recorded, and may serve others as their reference. An answer that
    claims to be done has a ``required`` one, for every GPU where the check is ``per_gpu``. A
    percentage may name the two metrics of the check that it is the ``ratio`` of, which say more.

    How far like figures lie apart is known of the ``unit`` (``units``). What else is known of a
    metric is said here, where it is not as usual:

    - ``low_is_bad``: of its figures, where neither its limits nor its unit say so.
    - ``setting``: a number that somebody or the design sets, so it is alike or it is not.
    - ``varies``: it is not alike where all is well.
    - ``of_some``: why some of the GPUs of one kind have it and others do not.
    - ``at_work``: a GPU of which it is told is at work, of a count where it is not zero.
    - ``past``: it is held against the subject's former runs, and how.
    - ``follows``: checks whose complaints of the same subject say already that it changed.
    - ``fact``: what of a host or GPU it tells (``driver``), which figures go by.
    - ``proof``: what its failing proves to the vendor.
    - ``drawn_as``: the title under which it is drawn over the fleet's GPUs.
    """

    name: str
    unit: str
    meaning: str
    limits: Tuple[Union[Limit, AbovePeers], ...] = ()
    required: bool = False
    ratio: Tuple[str, ...] = ()
    low_is_bad: bool = False
    setting: bool = False
    varies: Optional[Varies] = None
    of_some: str = ""
    at_work: bool = False
    past: Union[Steady, Growth, None] = None
    follows: Tuple[str, ...] = ()
    fact: str = ""
    proof: Optional[Grounds] = None
    drawn_as: str = ""


MEANING = "meaning"
"""A metric of this name says in words what the others of its subject mean."""


def in_words(meaning: str) -> Metric:
    """Return the metric of a check that says in words what its others mean."""
    return Metric(MEANING, "", meaning, of_some="of a GPU with something to say")


@dataclass(frozen=True)
class Remedy:
    """What to do when a check fails: likely cause, fix, a command that shows it, a role."""

    cause: str
    fix: str
    command: str = ""
    role: str = ""


Function = Callable[[Any], Iterator[Union[Sample, Leg]]]


@dataclass(frozen=True)
class Check:
    """A registered check; ``id`` is the stem of its file and the name of its function.

    ``gpu``: it needs an NVIDIA GPU, and is not applicable on a node that has none and should have
    none. ``load``: it loads the node, so it does not run on a node at work. ``after_load``: it
    looks back on what those checks did, so it comes after them. The rest says what an answer has to
    hold to be taken for one: with ``per_gpu`` something of every GPU; ``legs`` are the legs that it
    times; ``optional`` names what a node may lack for the check not to apply (an
    empty text: it applies everywhere).

    What others ask of a check is said here as well:

    - ``group``: the column of the report that it stands in; what is none of ``GROUPS`` is the last.
    - ``follows``: checks whose complaints say already why a host or GPU lacks what it measures.
    - ``varies``: why it applies to one of two like hosts and not to the other. So may those of a
      load that follow none: they go by MIG and by the number of GPUs, which are compared, and by
      who is at work.
    - ``explains_silence``: where it complains other quantities of a GPU are known than elsewhere.
    - ``stage``: the one of an acceptance that runs it, where it is not that of its load.
    - ``beside``: other stages that repeat it, since their figures are held against what it says.
    - ``proof``: what a fault's record for the vendor has of it, one of ``PROOFS``.
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
    group: str = "other"
    follows: Tuple[str, ...] = ()
    varies: str = ""
    explains_silence: bool = False
    stage: str = ""
    beside: Tuple[str, ...] = ()
    proof: str = ""

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
    group: str = "other",
    follows: Sequence[str] = (),
    varies: str = "",
    explains_silence: bool = False,
    stage: str = "",
    beside: Sequence[str] = (),
    proof: str = "",
) -> Callable[[Function], Check]:
    """Register a function as a check (see ``Check``)."""

    def register(function: Function) -> Check:
        return Check(
            id=function.__name__,
            function=function,
            metrics=tuple(metrics),
            remedy=remedy,
            gpu=gpu,
            load=load,
            doc=inspect.getdoc(function) or "",  # python -OO leaves none
            per_gpu=per_gpu,
            legs=tuple(legs),
            optional=optional,
            after_load=after_load,
            group=group if group in GROUPS else GROUPS[-1],
            follows=tuple(follows),
            varies=varies,
            explains_silence=explains_silence,
            stage=stage or ("load" if load else "idle"),
            beside=tuple(beside),
            proof=proof,
        )

    return register
