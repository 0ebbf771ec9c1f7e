"""Frames from a running command: bounded in time and size, with a heartbeat the other way."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, NoReturn

from hwcheck.connect.deadlines import Deadlines, GivenUpError, VisitError
from hwcheck.connect.links import Link, LinkLostError
from hwcheck.connect.supervisor import Supervisor
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import OUTPUT_LIMIT_BYTES, Deframer, Lines
from hwcheck.inventory.inventory import Host
from hwcheck.results.phases import BECOME, PYTHON, RUN

HEARTBEAT_S = 5.0
LOOK_S = 0.5
OUTPUT_LIMIT_LINES = 20_000
"""Frames and other lines of a visit. With more of them a log is no help any more."""
LIMIT_BROKEN = 100
"""Lines that begin as a frame does and are none: what prints beside a frame breaks a few."""
HIDDEN = "[password]"
BASE64 = re.compile(r"[A-Za-z0-9+/=]{80,}")
SHELL_NOT_FOUND, SHELL_NOT_EXECUTABLE = 127, 126  # sh(1), exit status


class EndedError(Exception):
    """The command ended; ``status`` is its exit status, None where it has none."""

    def __init__(self, status: int | None, text: str) -> None:
        super().__init__(text)
        self.status = status


class Conversation:
    """Reads frames; everything else that the host writes goes to ``log``.

    ``last_line`` is the last line that was no frame: mostly what a shell or sudo complains about.
    ``given_up`` is asked all the while whether the conversation is not to go on, and why.
    """

    def __init__(
        self,
        link: Link,
        token: str,
        log: Callable[[str], None],
        supervisor: Supervisor,
        given_up: Callable[[], Reason] = Reason,
    ) -> None:
        self.link = link
        self._given_up = given_up
        self.last_line = ""
        self._log = log
        self._supervisor = supervisor
        self._token = token
        self._deframer = Deframer(token)
        self._frames: list[dict[str, Any]] = []
        self._bytes = 0
        self._lines = 0
        self._sent = time.monotonic()
        self._stderr = Lines()
        self._secret = ""

    def tell_secret(self, text: str, seconds: float, phase: str) -> None:
        """Write a line that is kept out of the log, where a shell that echoes would put it.

        Raises VisitError when it takes longer than ``seconds``.
        """
        self._secret = text.strip()
        self.send(text.encode() + b"\n", seconds, phase)

    def frame(self, end: float, late: VisitError, *, heartbeat: bool) -> dict[str, Any]:
        """Return the next frame.

        Raises ``late`` at ``end`` (time.monotonic), EndedError when the command ended, VisitError
        when the host wrote too much, the run was stopped or the visit is given up.
        """
        while not self._frames:
            self._supervisor.check(late.phase)
            if reason := self._given_up():
                raise GivenUpError(reason)
            left = end - time.monotonic()
            if left <= 0:
                raise late
            if heartbeat:
                self._beat(min(left, HEARTBEAT_S))
            if not self._receive(min(left, LOOK_S)) and self.link.ended():
                self._flush()
                raise EndedError(*self.link.how_it_ended())
        return self._frames.pop(0)

    def drain(self, seconds: float) -> None:
        """Keep what the command still writes until it ends, for at most ``seconds``."""
        end = time.monotonic() + seconds
        left = seconds
        while left > 0 and not self._supervisor.stop.is_set():
            if not self._receive(min(left, LOOK_S)) and self.link.ended():
                break
            left = end - time.monotonic()
        self._flush()

    def send(self, data: bytes, seconds: float, phase: str) -> None:
        """Write to the command. Raises VisitError when it takes longer than ``seconds``."""
        late = f"could not be sent within {seconds:.3g} s"
        with self._supervisor.bound(seconds, self.link.cut, phase, late):
            self.link.send(data)
        self._sent = time.monotonic()

    def _beat(self, seconds: float) -> None:
        if time.monotonic() - self._sent < HEARTBEAT_S:
            return
        try:
            self.send(b"\n", seconds, RUN)
        except LinkLostError:
            self._sent = time.monotonic()  # what it wrote before it ended may still be read

    def _receive(self, seconds: float) -> bool:
        out, err = self.link.receive(seconds)
        self._bytes += len(out) + len(err)
        self._lines += out.count(b"\n") + err.count(b"\n")
        if self._bytes > OUTPUT_LIMIT_BYTES:
            limit = f"{OUTPUT_LIMIT_BYTES >> 20} MiB"
            raise VisitError(RUN, f"cut off: it wrote more than {limit}", "invalid")
        if self._lines > OUTPUT_LIMIT_LINES:
            limit = f"{OUTPUT_LIMIT_LINES} lines"
            raise VisitError(RUN, f"cut off: it wrote more than {limit}", "invalid")
        if out:
            frames, noise = self._deframer.feed(out)
            self._frames += frames
            if self._deframer.broken > LIMIT_BROKEN:
                raise VisitError(RUN, f"cut off: more than {LIMIT_BROKEN} broken frames", "invalid")
            self._note(noise)
        if err:
            lines = self._stderr.feed(err)
            self._note([line.decode("utf-8", "replace") for line in lines])
        return bool(out or err)

    def _flush(self) -> None:
        rests = (self._deframer.rest(), self._stderr.rest().decode("utf-8", "replace"))
        self._note([rest for rest in rests if rest])
        self._deframer, self._stderr = Deframer(self._token), Lines()

    def _note(self, lines: list[str]) -> None:
        if self._secret:
            lines = [line.replace(self._secret, HIDDEN) for line in lines]
        if lines:
            self._log("\n".join(lines) + "\n")
            self.last_line = next((line for line in reversed(lines) if line.strip()), "").strip()


def first_frame(host: Host, talk: Conversation, deadlines: Deadlines) -> dict[str, Any]:
    """Give sudo its password and return the first frame. Raises VisitError, which says why not."""
    seconds = deadlines.within(deadlines.start_s)
    end = time.monotonic() + seconds
    if host.become and host.become_password is not None:
        talk.tell_secret(host.become_password, seconds, BECOME)
    phase, what = (BECOME, "sudo") if host.become else (PYTHON, host.python)
    late = VisitError(phase, f"nothing from {what} within {seconds:.3g} s")
    try:
        return talk.frame(end, late, heartbeat=False)
    except EndedError as ended:
        _explain_start(host, ended, talk.last_line)
    except VisitError as error:
        if error is late and talk.last_line:
            reason = f"{late.reason}; last line: {shortened(talk.last_line)}"
            raise VisitError(phase, reason) from None
        raise


def shortened(text: str) -> str:
    """Return a host's output as one short line, without what it repeats of our own program."""
    return BASE64.sub("...", re.sub(r"\s+", " ", text))[:300]


def _explain_start(host: Host, ended: EndedError, last_line: str) -> NoReturn:
    if last_line.startswith("sudo:"):
        raise VisitError(BECOME, last_line)
    python = host.python
    # sudo reports what it does not find by itself, and ends with another status.
    phase, first = (BECOME, host.become_exe) if host.become else (PYTHON, python)
    if ended.status == SHELL_NOT_FOUND:
        raise VisitError(phase, f"{first}: not found")
    if ended.status == SHELL_NOT_EXECUTABLE:
        raise VisitError(phase, f"{first}: cannot be executed")
    quote = f"; last line: {shortened(last_line)}" if last_line else ""
    if ended.status == 0:
        raise VisitError(RUN, f"{python} ended without an answer of ours{quote}", "invalid")
    raise VisitError(PYTHON, f"no answer: {python} {ended}{quote}")
