"""One host of a run over several: a visit that stays, takes orders and gives answers."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from hwcheck.connect.connector import Connector
from hwcheck.connect.conversation import HEARTBEAT_S, Conversation, EndedError
from hwcheck.connect.deadlines import VisitError
from hwcheck.connect.links import LinkLostError
from hwcheck.connect.payload import Payload
from hwcheck.connect.visit import Listener, Visit
from hwcheck.contract import reasons
from hwcheck.contract.reasons import NONE, Reason
from hwcheck.contract.wire import Request
from hwcheck.inventory.inventory import Host
from hwcheck.node.multi_host.order import WORKS
from hwcheck.node.together.launch import END_LIMIT_S
from hwcheck.node.torch_process import IMPORT_LIMIT_S
from hwcheck.results.phases import RUN
from hwcheck.results.run_folder import HostAnswer
from hwcheck.results.schema_check import schema_problem
from hwcheck.run.multi_host.orders import Ready

READY_LIMIT_S = IMPORT_LIMIT_S + 60.0
GRACE_S = 10.0
LOOK_S = 0.5
BEAT_LIMIT_S = 5.0


class ParticipantLostError(Exception):
    """The host gives no answer any more, for this reason."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


class Participant(Visit):
    """A session with one host, in a thread of its own.

    The host is held, and torch imported once, from ``ready`` to ``leave``. ``session`` has the
    ``interface`` that leads to the other hosts, or an empty text, ``toward``, the address of one of
    them, and the ``work`` that it is for.
    """

    def __init__(
        self,
        host: Host,
        request: Request,
        session: Mapping[str, Any],
        payload: Payload,
        connector: Connector,
        log: Callable[[str], None],
    ) -> None:
        listener = Listener(lambda _: None, log, lambda _: None, lambda _: None)
        super().__init__(host, request, payload, connector, listener)
        self.name = host.name
        self.answer: HostAnswer | None = None
        self.ready: Future[Ready] = Future()
        self._session = session
        self._answer = WORKS[session.get("work", "collectives")][1]
        self._lock = threading.Lock()
        self._lost = NONE
        self._orders: queue.SimpleQueue[tuple[Mapping[str, Any], Future[Any]] | None]
        self._orders = queue.SimpleQueue()
        self._under_way: list[Future[Any]] = [self.ready]
        self._thread = threading.Thread(target=self._live, daemon=True)

    def enter(self) -> None:
        """Start; ``ready`` gets the result, or ParticipantLostError."""
        self._thread.start()

    def ask(self, order: Mapping[str, Any]) -> Future[dict[str, Any]]:
        """Send an order; its future gets the answer or ParticipantLostError, in time."""
        future: Future[dict[str, Any]] = Future()
        with self._lock:
            if self._lost:
                future.set_exception(ParticipantLostError(self._lost))
            else:
                self._under_way.append(future)
                self._orders.put((order, future))
        return future

    def leave(self) -> None:
        """Tell the host to end what it started, after the orders that were given."""
        self._orders.put(None)

    def join(self, seconds: float) -> None:
        """Wait for the end of the visit; ``answer`` is there then."""
        self._thread.join(seconds)

    def _live(self) -> None:
        reason = Reason(reasons.CRASHED, "unforeseen error, see its log")
        try:
            self.answer = self.run()
            reason = self.answer.reason or Reason(reasons.VISIT_ENDED, "it has left")
        finally:
            with self._lock:
                self._lost = reason
                for future in self._under_way:
                    if not future.done():
                        future.set_exception(ParticipantLostError(reason))

    def _request_fields(self) -> dict[str, Any]:
        return {**super()._request_fields(), "session": dict(self._session)}

    def _gather(self, talk: Conversation) -> None:
        body = self._hear(talk, "ready", READY_LIMIT_S)
        settings = tuple(tuple(each) for each in body["settings"])
        self.ready.set_result(Ready(**{**body, "settings": settings}))
        while True:
            task = self._next(talk)
            if task is None:
                break
            order, future = task
            self._tell(talk, order)
            limit_s = order["deadline_s"] + END_LIMIT_S + GRACE_S
            answer = self._hear(talk, self._answer, limit_s)
            if answer["id"] != order["id"]:
                raise VisitError(RUN, "an answer to another order", "invalid")
            future.set_result(answer)
        self._tell(talk, {"end": True})
        super()._gather(talk)

    def _tell(self, talk: Conversation, message: Mapping[str, Any]) -> None:
        try:
            talk.send(b"\n" + json.dumps(message).encode("ascii") + b"\n", BEAT_LIMIT_S, RUN)
        except LinkLostError as error:
            # How it ended says more than that it did, and is what comes next from it.
            self._listener.log(f"an order could not be sent: {error}\n")

    def _next(self, talk: Conversation) -> tuple[Mapping[str, Any], Future[Any]] | None:
        """Wait for an order, with heartbeats both ways. Raises VisitError when the host is gone."""
        quiet_s = self._deadlines.silence_s
        silent = VisitError(RUN, f"no sign of life for {quiet_s:g} s", code=reasons.SILENT)
        nothing = VisitError(RUN, "nothing yet")
        last_frame = beat = time.monotonic()
        while True:
            try:
                return self._orders.get(timeout=LOOK_S)
            except queue.Empty:
                now = time.monotonic()
            if now - beat > HEARTBEAT_S:
                talk.send(b"\n", BEAT_LIMIT_S, RUN)
                beat = now
            try:
                self._frame(talk, now + 0.01, nothing, heartbeat=False)
                last_frame = now
            except VisitError as error:
                if error is not nothing:
                    raise
            if now - last_frame > quiet_s:
                raise silent

    def _hear(self, talk: Conversation, kind: str, limit_s: float) -> dict[str, Any]:
        """Return the next message of this kind, checked against its schema."""
        end = time.monotonic() + limit_s
        quiet_s = self._deadlines.silence_s
        late = VisitError(RUN, f"no {kind} within {limit_s:.3g} s", code=reasons.SILENT)
        silent = VisitError(RUN, f"no sign of life for {quiet_s:g} s", code=reasons.SILENT)
        while True:
            quiet_end = time.monotonic() + quiet_s
            frame = self._frame(talk, min(end, quiet_end), late if end < quiet_end else silent)
            if frame.get("kind") == kind:
                body = frame.get(kind)
                problem = schema_problem(body, kind)
                if problem:
                    raise VisitError(RUN, f"{kind} does not fit its schema: {problem}", "invalid")
                assert isinstance(body, dict)
                return body

    def _frame(
        self, talk: Conversation, end: float, late: VisitError, *, heartbeat: bool = True
    ) -> dict[str, Any]:
        """Return the next frame. Raises VisitError for those that end a session."""
        try:
            frame = talk.frame(end, late, heartbeat=heartbeat)
        except EndedError as ended:
            raise VisitError(RUN, f"the payload {ended}; last line: {talk.last_line}") from None
        self._refuse_error(frame)
        if frame.get("kind") == "refused":
            raise _refusal(frame.get("reason"))
        return frame


def _refusal(told: Any) -> VisitError:
    """Return why a host takes no part; it comes from a node, so its code is believed if known."""
    reason = told if isinstance(told, dict) else {}
    code, text = str(reason.get("code")), str(reason.get("text", told))[:500]
    return VisitError(RUN, text, code=code if code in reasons.CODES else reasons.NOT_MEASURED)
