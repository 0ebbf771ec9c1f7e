"""What follows from a leg that hung: is the driver still there, and what is not tried again.

A broken peer path can take the driver with it: nvidia-smi itself then hangs until a reboot
(NVIDIA/nccl-tests#117). What runs on such a node only adds processes that nobody can kill.
"""

from __future__ import annotations

from typing import Callable, Dict, Sequence

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.wire import DRIVER_ANSWERS
from hwcheck.node.node import Gpu
from hwcheck.node.threads import side_by_side

ENDED = {"hang": "hung", "not_started": "did not start"}
"""States of legs that were ended, and what became of these."""

Driver = Callable[[], str]
"""Says why the driver does not answer, within a bound; an empty text where it does."""


def nobody() -> str:
    """Be the driver of a node without one."""
    return ""


def problem_of(gpus: Sequence[Gpu]) -> str:
    """Return why the driver does not answer for each GPU, or which GPU is lost; or nothing.

    Each question is bounded in time by whoever reads NVML.
    """
    try:
        lost = [loss for loss in side_by_side(_loss, gpus) if loss]
    except CouldNotMeasure as error:
        return "the driver does not answer (%s)" % error
    return "; ".join(lost)


def _loss(gpu: Gpu) -> str:
    return gpu.loss()


class Hangs:
    """The legs of a visit that hung; ``driver`` is asked after each of them was killed."""

    def __init__(self, driver: Driver = nobody) -> None:
        self._driver = driver
        self._gone = ""
        self._hung: Dict[str, str] = {}

    def refuses(self, leg: str) -> str:
        """Return why a leg has no further turn in this visit, or an empty text."""
        return self._gone or self._hung.get(leg, "")

    def add(self, collective: str, leg: str, state: str = "hang") -> str:
        """Take note of a leg that was killed, in a state of ``ENDED``.

        Return what the driver did afterwards: ``answers``, or why it does not.
        """
        words = (leg, ENDED[state], collective)
        self._hung[leg] = "leg %s %s in %s: not tried again in this visit" % words
        return self.ask("leg %s of %s" % (leg, collective))

    def ask(self, killed: str) -> str:
        """Ask the driver after something was killed; return what it did, as ``add``."""
        problem = self._driver()
        if not problem:
            return DRIVER_ANSWERS
        self._gone = "after %s was killed, %s: reboot the node" % (killed, problem)
        return problem
