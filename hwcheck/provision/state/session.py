"""One session on one host, in which any number of commands run one after the other."""

from __future__ import annotations

import base64
import binascii
import json
import logging
import secrets
import time
from dataclasses import dataclass
from typing import Any

from hwcheck.connect.connector import Connector
from hwcheck.connect.conversation import Conversation, EndedError, first_frame
from hwcheck.connect.deadlines import VisitError
from hwcheck.connect.links import LinkLostError
from hwcheck.connect.payload import LOADER, packed
from hwcheck.inventory.inventory import Host
from hwcheck.results.phases import RUN

_log = logging.getLogger(__name__)

COMMAND_S = 60.0
"""How long one command may take on the host, in seconds."""
ON_THE_WAY_S = 10.0
"""How much later than that its answer may arrive, in seconds."""


@dataclass(frozen=True)
class Answer:
    """What became of a command: exit status (negative: the signal that ended it) and output."""

    status: int
    out: bytes
    err: bytes


class AssertSession:
    """A Python of the host that runs commands, over one SSH connection; root where it becomes so.

    Opening it raises VisitError. After the first error every ``run`` raises that error again.
    """

    def __init__(self, host: Host, connector: Connector) -> None:
        """Connect; ``connector`` has been prepared with the host."""
        host = connector.as_reached(host)
        self._host = host
        self._token = secrets.token_hex(8)
        self._error: VisitError | None = None
        deadlines = connector.deadlines.begun()
        arguments = ["-c", LOADER, packed("provision/state/agent.py"), self._token]
        self._link = connector.start(host, arguments, deadlines)
        # What the host writes beside its answers is a banner, or what an error quotes anyway.
        self._talk = Conversation(self._link, self._token, _log.debug, connector.supervisor)
        try:
            frame = first_frame(host, self._talk, deadlines)
            if frame.get("kind") != "started":
                raise VisitError(RUN, "the first frame is not that of a start", "invalid")
        except BaseException:
            self._link.close()
            raise

    def run(self, command: str, within_s: float = COMMAND_S) -> Answer:
        """Run a command of ``sh`` to its end. Raises VisitError when there is no answer."""
        if self._error is not None:
            raise self._error
        try:
            frame = self._ask(command, within_s)
        except (EndedError, LinkLostError) as error:
            self._error = VisitError(RUN, f"the connection was lost: {error}")
            raise self._error from None
        except VisitError as error:
            self._error = error
            raise
        if frame.get("kind") == "refused":  # this command's own fault: the next one may run
            raise VisitError(RUN, f"{str(frame.get('reason'))[:200]}: {command}")
        return _answer(frame)

    def close(self) -> None:
        """End it; nothing is left running on the host."""
        self._link.close()

    def _ask(self, command: str, within_s: float) -> dict[str, Any]:
        request = json.dumps({"command": command, "within_s": within_s})
        self._talk.send(f"hwcheck {self._token} {request}\n".encode("ascii"), ON_THE_WAY_S, RUN)
        late = VisitError(RUN, f"no answer within {within_s + ON_THE_WAY_S:g} s to: {command}")
        end = time.monotonic() + within_s + ON_THE_WAY_S
        return self._talk.frame(end, late, heartbeat=False)


def _answer(frame: dict[str, Any]) -> Answer:
    status, out, err = (frame.get(key) for key in ("status", "out", "err"))
    if frame.get("kind") != "done" or not isinstance(status, int):
        raise VisitError(RUN, "an answer without an exit status", "invalid")
    try:
        return Answer(status, *(base64.b64decode(str(data), validate=True) for data in (out, err)))
    except binascii.Error:
        raise VisitError(RUN, "an answer whose output cannot be decoded", "invalid") from None
