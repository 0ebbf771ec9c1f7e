"""The closed set of limit kinds: what a sample is held against, with its source.

Standard library only, Python 3.8: checks declare their limits with these, so the module travels
in the payload. Nothing on the node calls ``judge``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Optional, Union

from hwcheck.contract.wire import Value

CONFIDENCES = ("measured", "published", "vendor", "derived", "inventory")


@dataclass(frozen=True)
class FromSample:
    """The value of another metric of the same check and subject (``node`` where that has none)."""

    metric: str

    def __str__(self) -> str:
        return self.metric


@dataclass(frozen=True)
class FromInventory:
    """The inventory's ``hwcheck_<name>``; the limit does not apply where it is not declared."""

    name: str

    def __str__(self) -> str:
        return "hwcheck_" + self.name


@dataclass(frozen=True)
class FromFleet:
    """What most hosts of the run give that have the same GPUs, or for a GPU most of its model.

    A thing of the node, such as a port, is compared with that of the same name. With ``alike``
    only those are compared that give the same value for that other metric of the check, and with
    ``by_slot`` a GPU only with that of the same name, since slots may differ by design. The limit
    does not apply where the inventory declares what the metric should be, nor without another host
    to compare with. Where the inventory declares such a host golden the judge makes it ``golden``:
    what that host gives.
    """

    alike: str = ""
    golden: bool = False
    by_slot: bool = False

    def __str__(self) -> str:
        return ("the golden host" if self.golden else "most hosts") + " of this kind"


@dataclass(frozen=True)
class FromModel:
    """What a healthy GPU of the subject's model reaches, from ``hwcheck/judge/models``.

    A subject whose model is not there has nothing to be held against: inconclusive, or with
    ``known_only`` the limit does not apply, where another one holds for all.
    """

    figure: str
    known_only: bool = False

    def __str__(self) -> str:
        return "the model's " + self.figure


Operand = Union[FromSample, FromInventory, FromFleet, FromModel]
OPERANDS = (FromSample, FromInventory, FromFleet, FromModel)


@dataclass(frozen=True)
class Equal:
    """The value must equal ``to``; anything else gives ``otherwise`` (fail or warn)."""

    to: Union[Value, Operand]
    source: str
    confidence: str = "vendor"
    otherwise: str = "fail"

    @property
    def operand(self) -> Optional[Operand]:
        """Where the reference comes from, or None for a constant."""
        return self.to if isinstance(self.to, OPERANDS) else None

    def judge(self, value: Value, reference: Optional[Value]) -> str:
        """Return pass, or ``otherwise``. ``reference`` is the operand's value."""
        wanted = self.to if self.operand is None else reference
        # To Python 1 is True and 0 is False; to a check a count is no yes or no.
        same_kind = isinstance(value, bool) == isinstance(wanted, bool)
        return "pass" if same_kind and value == wanted else self.otherwise

    def text(self, reference: Optional[Value] = None) -> str:
        """Say the limit in words."""
        if self.operand is None:
            return "= " + _plain(self.to)
        return "= %s%s" % (self.to, "" if reference is None else " (%s)" % _plain(reference))


def like_most(why: str, alike: str = "", *, by_slot: bool = False) -> Equal:
    """Return the limit that warns of a host that differs from most hosts of its kind."""
    return Equal(FromFleet(alike, by_slot=by_slot), why, "derived", "warn")


@dataclass(frozen=True)
class _Border:
    """A border for failing and one for warning; shares of the operand where ``of`` is set."""

    source: str
    fail: Optional[float] = None
    warn: Optional[float] = None
    of: Optional[Operand] = None
    confidence: str = "vendor"
    sign: ClassVar[str]
    bad_side: ClassVar[float]

    @property
    def operand(self) -> Optional[Operand]:
        """Where the reference comes from, or None for a constant."""
        return self.of

    def judge(self, value: Value, reference: Optional[Value]) -> str:
        """Return pass, warn or fail. Raises TypeError for what is not a number."""
        number = _number(value)
        scale = 1.0 if reference is None else _number(reference)
        for outcome, border in (("fail", self.fail), ("warn", self.warn)):
            if border is None:
                continue
            beyond = self.bad_side * (number - border * scale)
            # 0.7 x 90 is a hair below 63: a value on the border has not crossed it.
            if beyond > 1e-9 * abs(border * scale):
                return outcome
        return "pass"

    def text(self, reference: Optional[Value] = None) -> str:
        """Say the limit in words."""
        parts = []
        for name, border in (("fail", self.fail), ("warn", self.warn)):
            if border is None:
                continue
            text = "%s %g" % (self.sign, border)
            if self.of is not None:
                text += " x %s" % self.of
                if reference is not None:
                    text += " (%g)" % (border * _number(reference))
            parts.append("%s unless %s" % (name, text))
        return ", ".join(parts)


class AtLeast(_Border):
    """fail below ``fail``, warn below ``warn``."""

    sign = ">="
    bad_side = -1.0


class AtMost(_Border):
    """fail above ``fail``, warn above ``warn``."""

    sign = "<="
    bad_side = 1.0


@dataclass(frozen=True)
class AbovePeers:
    """warn far above the figure of the same slot (``gpu3``) on hosts with the same GPUs.

    Every number is compared so, by what its unit allows for (``judge/peers.py``); this is for a
    metric of which more is known. It may lie ``margin`` above the median over the hosts, in the
    metric's unit, or ``scatter`` median absolute deviations where that is more. Of fewer than
    ``least_hosts`` nothing is said.
    """

    source: str
    margin: float
    scatter: float = 5.0
    least_hosts: int = 5
    confidence: str = "derived"

    @property
    def operand(self) -> Optional[Operand]:
        """None: the reference is not in the answer of one host."""
        return None

    def text(self) -> str:
        """Say the limit in words."""
        return "warn unless <= the same slot over the hosts + %g" % self.margin


Limit = Union[Equal, AtLeast, AtMost]


@dataclass(frozen=True)
class Steady:
    """How the figures of a metric are held against those of the subject's former runs.

    ``bad`` is the side that is: 1 above, -1 below. With ``ratio`` the rest are shares, otherwise in
    the unit. ``scatter`` is what healthy runs of one machine scatter by at least (a standard
    deviation; ``docs/own-past.md`` has where each is from), and a change below ``least`` is not
    worth a word.
    """

    bad: int
    ratio: bool
    scatter: float
    least: float


@dataclass(frozen=True)
class Growth:
    """How the growth of a counter is held against its former growth.

    It counts from ``least`` events on, where it is ``decades`` above the usual number a day: those
    since the last run, or of all runs within the last ``window_h`` hours where they are more.
    """

    least: float
    decades: float
    window_h: float


RARE = Growth(least=4, decades=0.5, window_h=3.0)
"""Events that a healthy link does not have, or once when the node starts; more than three
link-downs in three hours are what Azure's and Crusoe's health agents name a flapping port."""
OFTEN = Growth(least=1000, decades=2.0, window_h=24.0)
"""Other counters are let go as far as those of like hosts may lie apart (``units.COUNTER``)."""


def _number(value: Value) -> float:
    if isinstance(value, (str, bool)):
        raise TypeError("a limit on a number was given %r" % str(value)[:80])
    return float(value)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "%g" % value if isinstance(value, float) else str(value)
