"""How long each phase of a visit may take, and the error that ends a visit."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

from hwcheck.contract import reasons
from hwcheck.contract.reasons import Reason
from hwcheck.results.phases import NO_VISIT, RUN
from hwcheck.results.run_folder import INTERRUPTED


@dataclass(frozen=True)
class Deadlines:
    """Bounds on each phase, in seconds.

    ``start_s`` runs from the command to the first frame (shell profile, sudo, interpreter start),
    ``run_s`` from there to the report; without any frame for ``silence_s`` the host is lost (the
    payload says that it lives every 5 s). ``visit_s`` bounds them all together: ``begun`` sets
    ``end`` (time.monotonic) for one visit, and ``within`` holds a phase to it.
    """

    connect_s: float = 10.0
    banner_s: float = 10.0
    authentication_s: float = 20.0
    start_s: float = 30.0
    push_s: float = 60.0
    run_s: float = 300.0
    silence_s: float = 30.0
    visit_s: float = math.inf
    end: float = math.inf

    def begun(self) -> Deadlines:
        """Return the deadlines of a visit that begins now."""
        return replace(self, end=time.monotonic() + self.visit_s)

    def within(self, seconds: float) -> float:
        """Return how long a phase may take that has so many seconds of its own, at least 0."""
        return max(0.0, min(seconds, self.end - time.monotonic()))


class VisitError(Exception):
    """One host's visit ends here: in which phase, and why, in one line.

    ``state`` is the host state (``results.HOST_STATES``) that this error stands for; empty where
    the phase says it.
    """

    def __init__(
        self, phase: str, reason: str, state: str = "", code: str = reasons.VISIT_ENDED
    ) -> None:
        super().__init__(f"{phase}: {reason}")
        self.phase = phase
        self.reason = Reason(code, " ".join(reason.split())[:1000])
        self.state = state or ("unreachable" if phase in NO_VISIT else "lost")


class StoppedError(VisitError):
    """The run was stopped while this visit was under way."""

    def __init__(self, phase: str) -> None:
        super().__init__(phase, INTERRUPTED.text, "lost", INTERRUPTED.code)


class GivenUpError(VisitError):
    """The visit is not to go on, for this reason: ``GIVEN_UP`` with more, or ``OUT_OF_TIME``."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(RUN, reason.text, "lost", reason.code)
