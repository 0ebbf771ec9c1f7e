"""The first word of a host's Python, and why it did not come."""

from __future__ import annotations

import re
import time
from typing import Any, NoReturn

from hwcheck.connect.conversation import Conversation, EndedError
from hwcheck.connect.deadlines import Deadlines, VisitError
from hwcheck.inventory.inventory import Host
from hwcheck.results.phases import BECOME, PYTHON, RUN

BASE64 = re.compile(r"[A-Za-z0-9+/=]{80,}")
SHELL_NOT_FOUND, SHELL_NOT_EXECUTABLE = 127, 126  # sh(1), exit status


def first_frame(host: Host, talk: Conversation, deadlines: Deadlines) -> dict[str, Any]:
    """Give sudo its password and return the first frame. Raises VisitError, which says why not."""
    seconds = deadlines.within(deadlines.hello_s)
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
            said = cut(talk.last_line)
            raise VisitError(phase, f"{late.reason}; last line: {said}") from None
        raise


def cut(text: str) -> str:
    """Return what a host said in one short line, without what it repeats of our own program."""
    return BASE64.sub("...", re.sub(r"\s+", " ", text))[:300]


def _explain_start(host: Host, ended: EndedError, last_line: str) -> NoReturn:
    if last_line.startswith("sudo:"):
        raise VisitError(BECOME, last_line)
    python = host.python
    # What sudo itself does not find it says, with another status.
    phase, first = (BECOME, host.become_exe) if host.become else (PYTHON, python)
    if ended.status == SHELL_NOT_FOUND:
        raise VisitError(phase, f"{first}: not found")
    if ended.status == SHELL_NOT_EXECUTABLE:
        raise VisitError(phase, f"{first}: cannot be executed")
    said = f"; last line: {cut(last_line)}" if last_line else ""
    if ended.status == 0:
        raise VisitError(RUN, f"{python} ended without an answer of ours{said}", "invalid")
    raise VisitError(PYTHON, f"no hello: {python} {ended}{said}")
