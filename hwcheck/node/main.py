"""The payload: a request comes in, the named checks run, frames go out, one report at the end."""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Sequence

from hwcheck.contract.check import Check, CouldNotMeasure, NotApplicable
from hwcheck.contract.reasons import CRASHED, NONE, Reason
from hwcheck.contract.wire import (
    CheckResult,
    GpuFacts,
    Leg,
    Report,
    Request,
    Sample,
    frame,
    to_dict,
)
from hwcheck.node import descendants, lifeline, load_lock
from hwcheck.node.live import LiveNode, Recorded
from hwcheck.node.node import Node

if TYPE_CHECKING:
    from hwcheck.node.multi_host.order_server import OrderServer


REASON_CHARACTERS = 500


Load = Callable[[Sequence[str]], Dict[str, Check]]
"""Gives the checks of these names, in the order in which they are run (``checks.load``)."""


class Wire:
    """Writes frames to the controller; whole lines, from any thread."""

    def __init__(self, fd: int, token: str) -> None:
        self._fd = fd
        self._token = token
        self._lock = threading.Lock()

    def send(self, kind: str, **body: Any) -> None:
        """Write one frame. Raises OSError when nobody reads."""
        data = frame(self._token, kind, **body).encode("ascii")
        with self._lock:
            while data:
                data = data[os.write(self._fd, data) :]


def main(data: Mapping[str, Any], payload: str, load: Load) -> int:
    """Serve one request; ``payload`` is the folder that this code lies in, ``load`` gives checks.

    stdin is the lifeline. Frames leave on the stdout that the process was started with; whatever
    else prints to stdout is sent to stderr. A request with ``session`` is followed by orders on
    stdin, see ``multi_host``. Nothing that was started outlives this. Returns 0 when the report was
    sent.
    """
    descendants.adopt()
    try:
        return _serve(data, payload, load)
    finally:
        descendants.kill_all()


def _serve(data: Mapping[str, Any], payload: str, load: Load) -> int:
    started = time.monotonic()
    request = Request.from_dict({key: data[key] for key in data if key != "session"})
    order_server = _order_server(data["session"]) if "session" in data else None
    wire = Wire(os.dup(1), request.token)
    os.dup2(2, 1)
    take = order_server.feed if order_server else None
    lifeline.start(0, request.lifeline_s, lambda: wire.send("alive"), take)
    node = LiveNode(
        request,
        payload,
        lambda text: wire.send("progress", text=text),
        lambda run: _send_series(wire, run),
    )
    if order_server is not None:
        order_server.serve(node, payload, wire.send)
    registry = load(request.checks)
    results: List[CheckResult] = []
    for name in request.checks:
        wire.send("progress", text=name)
        result = run_check(registry[name], node)
        results.append(result)
        wire.send("result", result=to_dict(result))
    report = Report(_facts(node), tuple(results), time.monotonic() - started)
    wire.send("report", report=to_dict(report))
    return 0


def _order_server(session: Mapping[str, Any]) -> OrderServer:
    from hwcheck.node.multi_host.order_server import OrderServer  # here: most visits are no session

    return OrderServer(session)


def _send_series(wire: Wire, run: Recorded) -> None:
    from hwcheck.contract.columnar import pack  # here: most visits load nothing

    wire.send("series", series=pack(run))


def run_check(check: Check, node: Node) -> CheckResult:
    """Run one check and say what became of it.

    A node that may not be loaded refuses to be (BusyError). A check that raises anything unforeseen
    could not measure; its traceback goes to the log, and what it had measured until then is kept.
    """
    started = time.monotonic()
    samples: List[Sample] = []
    legs: List[Leg] = []
    state, reason = "done", NONE
    try:
        _refuse_inapplicable(check, node)
        for item in check.function(node):
            if isinstance(item, Leg):
                legs.append(item)
            else:
                samples.append(item)
    except load_lock.BusyError as error:
        state, reason = "busy", error.reason
    except NotApplicable as error:
        state, reason = "not_applicable", error.reason
    except CouldNotMeasure as error:
        state, reason = "could_not_measure", error.reason
    except Exception as error:
        import traceback

        traceback.print_exc(file=sys.stderr)
        state = "could_not_measure"
        reason = Reason(CRASHED, "the check crashed: %r" % error)
    took = time.monotonic() - started
    return CheckResult(
        check.id, state, reason.cut(REASON_CHARACTERS), tuple(samples), tuple(legs), took
    )


def _refuse_inapplicable(check: Check, node: Node) -> None:
    if check.gpu and not node.request.expect.get("gpus") and not node.host.pci_gpus():
        raise NotApplicable("no NVIDIA device on the PCI bus and none expected")


def _facts(node: LiveNode) -> Mapping[str, Any]:
    uname = os.uname()
    return {
        "hostname": uname.nodename,
        "kernel": uname.release,
        "machine": uname.machine,
        "python": sys.version.split()[0],
        "uid": os.getuid(),
        "cpu_vendor": node.host.cpu_vendor(),
        "gpus": [_with_slot(gpu, node).to_dict() for gpu in node.gpu_facts()],
    }


def _with_slot(gpu: GpuFacts, node: LiveNode) -> GpuFacts:
    return replace(gpu, slot=node.host.pci_slot(gpu.pci_address)) if gpu.pci_address else gpu
