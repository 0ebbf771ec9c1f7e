"""The payload's side of a session: it takes orders from the controller until it is told to end."""

from __future__ import annotations

import queue
import subprocess
import sys
from typing import Any, Callable, Dict, Mapping, Sequence

from hwcheck.contract.check import CouldNotMeasure, NotApplicable
from hwcheck.contract.reasons import NO_ANSWER, NO_TORCH, Reason
from hwcheck.contract.wire import to_dict
from hwcheck.node import json_lines, torch_process
from hwcheck.node.collective.hangs import problem_of
from hwcheck.node.collective.log import Log
from hwcheck.node.json_lines import Message
from hwcheck.node.live import LiveNode
from hwcheck.node.load_lock import BusyError
from hwcheck.node.multi_host.order import WORKS
from hwcheck.node.multi_host.place import description_of, local_address
from hwcheck.node.node import Gpu
from hwcheck.node.together.launch import END_LIMIT_S

STORE_LIMIT_S = 30.0
MOST_LOG_BYTES = 4 * 1024 * 1024
Send = Callable[..., None]


class OrderServer:
    """Serves one session; ``session`` is what the request says of it.

    ``interface`` may be empty; ``toward`` is another host's address, ``work`` one of ``WORKS``.
    """

    def __init__(self, session: Mapping[str, Any]) -> None:
        self._interface = str(session["interface"])
        self._toward = str(session["toward"])
        self._launcher, self._answer = WORKS[str(session.get("work", "collectives"))]
        self._orders: queue.Queue[Message] = queue.Queue()
        self._decoder = json_lines.Decoder()

    def feed(self, data: bytes) -> None:
        """Take what came on stdin, from the lifeline's thread."""
        for order in self._decoder.feed(data):
            self._orders.put(order)

    def serve(self, node: LiveNode, payload: str, send: Send) -> None:
        """Hold the node and answer one order after another; torch is imported once.

        A node that is at work, or cannot measure, says ``refused`` with the reason. Nobody else
        loads the node meanwhile. Returns when the controller sends ``end``; when it is gone, the
        lifeline ends this process and all that it started.
        """
        try:
            with node.reserved() as gpus:
                self._serve(node, gpus, payload, send)
        except (BusyError, CouldNotMeasure, NotApplicable) as error:
            send("refused", reason=to_dict(error.reason.cut(500)))

    def _serve(self, node: LiveNode, gpus: int, payload: str, send: Send) -> None:
        interface, address = local_address(self._interface, self._toward)
        setup = {
            "gpus": gpus,
            "address": address,
            "interface": interface,
            "memory_bytes": node.host.memory_available_bytes(),
        }
        place = dict(description_of(node, gpus), interface=interface, address=address, gpus=gpus)
        place["interface_gbps"] = node.host.interface_gbps(interface)
        setup["settings"] = place["settings"]
        python = node.request.torch_python or sys.executable
        passed_bytes = 0
        with Log() as log:
            child = Launcher(python, payload, log, self._launcher)
            try:
                child.tell(setup)
                ready = child.hear(torch_process.IMPORT_LIMIT_S + STORE_LIMIT_S)
                if "reason" in ready:
                    raise CouldNotMeasure(ready["reason"], NO_TORCH)
                send("ready", ready=dict(ready, **place))
                while True:
                    order = self._orders.get()
                    if order.get("end"):
                        return
                    answer = self._ask(child, node, order, bool(gpus))
                    problem = driver_problem(answer, node.gpus() if gpus else ())
                    send(self._answer, **{self._answer: answer})
                    passed_bytes += _pass_on(log, passed_bytes)
                    if problem:  # what else is started here could not be killed either
                        raise CouldNotMeasure(problem)
            finally:
                child.end()
                _pass_on(log, passed_bytes)

    def _ask(self, child: Launcher, node: LiveNode, order: Message, gpus: bool) -> Message:
        """Hand an order on and return the answer; of training, with what the GPUs showed."""
        limit_s = order["deadline_s"] + END_LIMIT_S
        if self._answer != "trained":
            child.tell(order)
            return child.hear(limit_s)
        from hwcheck.node.multi_host.observed import observing  # here: most sessions train nothing

        with observing(node.sampler() if gpus else None) as observed:
            child.tell(order)
            answer = child.hear(limit_s)
            return dict(answer, gpus=observed(answer["repeats"]))


def _pass_on(log: Log, passed_bytes: int) -> int:
    """Write what the log has beyond ``passed_bytes`` to stderr; return how many bytes that was.

    From there it goes into the host's log. A session that writes too much would be cut off.
    """
    new = max(0, min(log.size(), MOST_LOG_BYTES) - passed_bytes)
    if new:
        sys.stderr.write(log.read(passed_bytes, passed_bytes + new))
        sys.stderr.flush()
    return new


def driver_problem(answer: Dict[str, Any], gpus: Sequence[Gpu]) -> str:
    """Ask the driver after a hang; return what is wrong, which the answer then has as left over."""
    problem = problem_of(gpus) if answer["state"] == "hang" else ""
    if not problem:
        return ""
    words = "after a hang was killed, %s: reboot the node" % problem
    answer["left_over"].append(to_dict(Reason(NO_ANSWER, words[:200])))
    return words


class Launcher:
    """The launcher under the interpreter that has torch: JSON lines in, JSON lines out."""

    def __init__(self, python: str, payload: str, log: Log, module: str) -> None:
        """Start it. Raises CouldNotMeasure when the interpreter cannot be started."""
        boot = torch_process.BOOT % module
        self._process = torch_process.start(python, boot, payload, subprocess.PIPE, log.fd)
        self._python = python
        self._log = log
        assert self._process.stdout is not None
        self._messages = json_lines.Reader(self._process.stdout.fileno())

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send one message. Raises CouldNotMeasure when nobody reads it."""
        assert self._process.stdin is not None
        try:
            json_lines.write(self._process.stdin.fileno(), message)
        except OSError:
            raise self._death() from None

    def hear(self, limit_s: float) -> Message:
        """Return the next message. Raises CouldNotMeasure when none comes in time."""
        try:
            message = self._messages.next(limit_s)
        except TimeoutError:
            raise CouldNotMeasure(
                "%s gave no answer within %.0f s" % (self._python, limit_s), NO_TORCH
            ) from None
        if message is None:
            raise self._death()
        return message

    def end(self) -> None:
        """Kill it; what it forked dies with it."""
        assert self._process.stdin is not None
        torch_process.end(self._process)
        self._process.stdin = None

    def _death(self) -> CouldNotMeasure:
        code = self._process.wait(torch_process.KILL_LIMIT_S)
        words = torch_process.death(code, self._python, self._log.tail())
        return CouldNotMeasure(words, NO_TORCH)
