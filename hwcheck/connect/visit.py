"""One visit to one host: start, push the payload when it is missing, request, gather."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hwcheck.connect.connector import Connector
from hwcheck.connect.conversation import Conversation, EndedError, first_frame, shortened
from hwcheck.connect.deadlines import GivenUpError, VisitError
from hwcheck.connect.links import LinkLostError
from hwcheck.connect.payload import Payload, bootstrap_arguments
from hwcheck.contract.reasons import NONE, Reason
from hwcheck.contract.wire import PROTOCOL, SERIES_LIMIT_BYTES, Request, to_dict, to_json
from hwcheck.inventory.inventory import Host
from hwcheck.results.phases import PUSH, PYTHON, RUN
from hwcheck.results.run_folder import UNDER_WAY, HostAnswer, utc_now
from hwcheck.results.schema_check import schema_problem

PROGRESS_CHARACTERS = 200
DRAIN_S = 2.0
FRAMES = {
    "progress": {"text"},
    "series": {"series"},
    "result": {"result"},
    "report": {"report"},
    "alive": set(),
    "error": {"phase", "reason"},
}
"""What a frame has beside its kind. One with more is none of ours, and reading it costs time."""
MOST_FIGURES = 6000
"""Samples of all results, and sizes of their legs. Eight GPUs have 2,300 and 200 to 1,000, sixteen
not twice as many; to judge and to show them costs the controller far more than to read them
(benchmarks/lying.py)."""
FIGURES_OF_GPU = 400
"""For each GPU of a host of which the inventory expects very many."""
RESULTS_LIMIT_BYTES = 4 * 1024 * 1024
"""What all results of a host may take. The samples of eight GPUs take 200 kB; the logs of failed
collectives come to 1 MB."""
FACTS_LIMIT_BYTES = 256 * 1024
"""What a report may say beside its results: eight GPUs take 5 kB."""
SMALL = 2000
"""Samples that are written again with each result that comes: what a node of eight GPUs has."""


@dataclass(frozen=True)
class Listener:
    """Callbacks for a visit under way; they are called from its thread.

    ``record`` gets the record so far each time a result arrives; ``log`` what the host wrote
    beside its answer; ``progress`` what it works on; ``series`` the time series of its GPUs under
    load, at the end of a visit whose answer can be trusted. ``given_up`` is asked all the while: it
    returns why the visit is not to go on, or an empty text.
    """

    record: Callable[[HostAnswer], None]
    log: Callable[[str], None]
    progress: Callable[[str], None]
    series: Callable[[dict[str, Any]], None]
    given_up: Callable[[], Reason] = Reason


class Visit:
    """One visit; ``run`` it once."""

    def __init__(
        self,
        host: Host,
        request: Request,
        payload: Payload,
        connector: Connector,
        listener: Listener,
    ) -> None:
        self._host = connector.as_reached(host)
        self._request = replace(request, token=secrets.token_hex(8))
        self._payload = payload
        self._connector = connector
        self._listener = listener
        self._deadlines = connector.deadlines.begun()
        self._started = time.monotonic()
        self._started_utc = utc_now()
        self._results: list[dict[str, Any]] = []
        self._figures = self._result_bytes = 0
        self._written = self._unwritten = 0
        self._report: dict[str, Any] | None = None
        self._series: dict[str, Any] = {}

    def run(self) -> HostAnswer:
        """Return what became of the host. Raises nothing that a host can cause."""
        try:
            self._converse()
            record = self._record("reported", "", NONE)
        except VisitError as error:
            record = self._ended(error)
        if self._series and record.state != "invalid":
            self._listener.series(self._series)
        return record

    def _converse(self) -> None:
        if reason := self._listener.given_up():
            raise GivenUpError(reason)
        arguments = bootstrap_arguments(self._payload.sha256, self._request.token)
        link = self._connector.start(self._host, arguments, self._deadlines)
        try:
            talk = Conversation(
                *(link, self._request.token, self._listener.log, self._connector.supervisor),
                self._listener.given_up,
            )
            self._send_request(talk, has_payload=self._has_payload(talk))
            self._gather(talk)
            talk.drain(self._deadlines.within(DRAIN_S))
        except LinkLostError as error:
            raise VisitError(RUN, f"the connection was lost: {error}") from None
        finally:
            link.close()

    def _has_payload(self, talk: Conversation) -> bool:
        """Wait for the bootstrap; return whether the host has the payload."""
        frame = first_frame(self._host, talk, self._deadlines)
        self._refuse_error(frame)
        if frame.get("kind") != "started" or not isinstance(frame.get("cached"), bool):
            raise _invalid("the first frame is not that of a start")
        return bool(frame["cached"])

    def _send_request(self, talk: Conversation, *, has_payload: bool) -> None:
        data = b"" if has_payload else self._payload.data
        request = json.dumps(self._request_fields()).encode("ascii")
        header = f"hwcheck {self._request.token} {len(data)} {len(request)}\n".encode("ascii")
        seconds = self._deadlines.within(self._deadlines.push_s)
        talk.send(header + data + request, seconds, PUSH)

    def _request_fields(self) -> dict[str, Any]:
        """Return the request as it is sent; a run over several hosts sends more."""
        return to_dict(self._request)

    def _gather(self, talk: Conversation) -> None:
        limits = self._deadlines
        end = time.monotonic() + limits.within(limits.run_s)
        late = VisitError(RUN, f"no report within {min(limits.run_s, limits.visit_s):g} s")
        silent = VisitError(RUN, f"no sign of life for {limits.silence_s:g} s")
        while self._report is None:
            quiet_end = time.monotonic() + limits.silence_s
            overdue = (end, late) if end < quiet_end else (quiet_end, silent)
            try:
                frame = talk.frame(*overdue, heartbeat=True)
            except EndedError as ended:
                quote = f"; last line: {shortened(talk.last_line)}" if talk.last_line else ""
                raise VisitError(RUN, f"no report: the payload {ended}{quote}") from None
            self._take(frame)

    def _take(self, frame: dict[str, Any]) -> None:
        kind = frame.get("kind")
        if frame.keys() - {"kind"} - FRAMES.get(str(kind), frame.keys()):
            raise _invalid(f"a frame of kind {kind} with more than that has")
        self._refuse_error(frame)
        if kind == "progress":
            text = frame.get("text")
            if not isinstance(text, str):
                raise _invalid("a progress frame without a text")
            self._listener.progress(text[:PROGRESS_CHARACTERS])
        elif kind == "series":
            self._take_series(frame.get("series"))
        elif kind == "result":
            self._take_result(frame.get("result"))
        elif kind == "report":
            self._take_report(frame.get("report"))
        elif kind != "alive":
            raise _invalid(f"a frame of unknown kind {str(kind)[:50]!r}")

    def _take_series(self, series: Any) -> None:
        problem = schema_problem(series, "series")
        if problem:
            raise _invalid(f"a series does not fit its schema: {problem}")
        if not self._series.keys().isdisjoint(series):
            raise _invalid(f"two series of the {next(iter(series))}")
        self._series.update(series)
        if len(to_json(self._series)) > SERIES_LIMIT_BYTES:
            raise _invalid(f"series of more than {SERIES_LIMIT_BYTES >> 20} MiB")

    def _take_result(self, result: Any) -> None:
        problem = schema_problem(result, "result")
        if problem:
            raise _invalid(f"a result does not fit its schema: {problem}")
        if result["check"] not in self._request.checks:
            raise _invalid(f"a result of {result['check'][:50]!r}, which nobody asked for")
        if any(result["check"] == earlier["check"] for earlier in self._results):
            raise _invalid(f"two results of {result['check']}")
        self._results.append(result)
        self._figures += len(result["samples"]) + sum(len(leg["sizes"]) for leg in result["legs"])
        self._result_bytes += len(to_json(result))
        most = max(MOST_FIGURES, FIGURES_OF_GPU * int(self._request.expect.get("gpus", 0)))
        if self._figures > most:
            raise _invalid(f"more than {most} samples and sizes of legs")
        if self._result_bytes > RESULTS_LIMIT_BYTES:
            raise _invalid(f"results of more than {RESULTS_LIMIT_BYTES >> 20} MiB")
        self._unwritten += 1 + len(result["samples"])
        if self._written + self._unwritten <= SMALL or self._unwritten >= self._written:
            # All of them are written each time: of many, only once there are twice as many.
            self._written, self._unwritten = self._written + self._unwritten, 0
            self._listener.record(self._record("partial", RUN, UNDER_WAY))

    def _take_report(self, report: Any) -> None:
        # The results were checked one by one as they came: only the rest is new.
        if not isinstance(report, dict) or report.get("results") != self._results:
            raise _invalid("the report does not repeat the results that came before it")
        if len(to_json({**report, "results": []})) > FACTS_LIMIT_BYTES:
            raise _invalid(f"facts of more than {FACTS_LIMIT_BYTES >> 10} KiB")
        problem = schema_problem({**report, "results": []}, "report")
        if problem:
            raise _invalid(f"the report does not fit its schema: {problem}")
        missing = set(self._request.checks) - {result["check"] for result in self._results}
        if missing:
            raise _invalid(f"the report lacks {', '.join(sorted(missing))}")
        self._report = report

    def _refuse_error(self, frame: dict[str, Any]) -> None:
        if frame.get("kind") != "error":
            return
        phase, reason = frame.get("phase"), frame.get("reason")
        if phase not in (PYTHON, "cache", PUSH, "request", RUN) or not isinstance(reason, str):
            raise _invalid("an error frame without a phase or a reason")
        raise VisitError(phase, reason)

    def _ended(self, error: VisitError) -> HostAnswer:
        if error.state == "lost" and self._results:
            return self._record("partial", error.phase, error.reason)
        if error.state == "invalid":
            self._results, self._report = [], None
        return self._record(error.state, error.phase, error.reason)

    def _record(self, state: str, phase: str, reason: Reason) -> HostAnswer:
        took = time.monotonic() - self._started
        report = self._report
        if report is None and self._results:
            results = tuple(self._results)
            report = {"facts": {}, "results": results, "duration_s": took, "protocol": PROTOCOL}
        return HostAnswer(self._host.name, state, reason, phase, self._started_utc, took, report)


def _invalid(reason: str) -> VisitError:
    return VisitError(RUN, reason, "invalid")
