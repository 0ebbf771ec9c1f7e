"""The controller's side against hosts that misbehave: each costs only itself, with the reason."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hwcheck.connect.connector import Connector
from hwcheck.connect.deadlines import Deadlines
from hwcheck.connect.payload import Payload
from hwcheck.contract.wire import Request
from hwcheck.inventory.inventory import Host
from hwcheck.run.multi_host.orders import GLOO
from hwcheck.run.multi_host.participants import Participants, RunStoppedError
from tests.lab import stand_in
from tests.run.multi_host.test_orders import answer

MIB = 1024 * 1024
READY = {
    "port": 4000,
    "interface": "lo",
    "address": "127.0.0.1",
    "gpus": 0,
    "model": "",
    "rdma_ports": 0,
    "rdma_active": 0,
    "settings": [],
}
MAIN = """
import json
import os
import sys
import time

from hwcheck.node import lifeline
from hwcheck.contract.wire import frame

SCRIPT = json.loads({script!r})


def main(data, payload, load):
    out = os.dup(1)
    os.dup2(2, 1)

    def send(kind, **body):
        text = frame(data["token"], kind, **body).encode()
        while text:
            text = text[os.write(out, text):]

    came = []
    lifeline.start(0, 30, lambda: send("alive"), came.append)
    for step in SCRIPT:
        if step == "order":
            send("progress", text="waiting")
            orders = []
            while not orders:
                time.sleep(0.01)
                lines = [line for line in b"".join(came).split(b"\\n") if line]
                orders = [line for line in lines if b'"id"' in line and line not in seen]
            seen.append(orders[0])
        elif step == "freeze":
            import signal
            os.kill(os.getpid(), signal.SIGSTOP)
        elif step == "die":
            os._exit(7)
        else:
            send(step[0], **step[1])
    while not any(b'"end"' in part for part in came):
        time.sleep(0.01)
    send("report", report={{"facts": {{}}, "results": [], "duration_s": 1.0, "protocol": 1}})
    return 0


seen = []
"""
DEADLINES = replace(Deadlines(), silence_s=3.0, start_s=20.0)


def scripted(*steps: Any) -> Payload:
    """Return a payload that takes these steps: a frame, or one of order, freeze and die."""
    return stand_in.payload(MAIN.format(script=json.dumps(list(steps))))


def opened(payload: Payload, stop: threading.Event | None = None) -> Participants:
    """Return a group of one host that is this machine."""
    host = Host("here", "here", connection="local", python=sys.executable)
    connector = Connector(DEADLINES, stop or threading.Event())
    connector.prepare([host])
    requests = {"here": Request("", ("driver",))}
    return Participants([host], requests, payload, connector, lambda name, text: None)


def ask(members: Participants) -> Any:
    (run,) = members.run("all", 0, [["here"]], [MIB], GLOO)
    return run


GOOD = ("answer", {"answer": answer(id=1)})


def test_orders_answers_and_the_end() -> None:
    second = ("answer", {"answer": answer(id=2, reason="again")})
    with opened(scripted(("ready", {"ready": READY}), "order", GOOD, "order", second)) as members:
        assert members.present == ("here",)
        assert ask(members).state == "done"
        assert ask(members).reason == "here: again"
    assert members.absent == {}
    over = members.answers()["here"]
    assert (over.state, over.report) == (
        "reported",
        {"facts": {}, "results": [], "duration_s": 1.0, "protocol": 1},
    )


@pytest.mark.parametrize(
    ("steps", "code", "text"),
    [
        ([("refused", {"reason": {"code": "at_work", "text": "held"}})], "at_work", "held"),
        ([("refused", {"reason": {"code": ["x"], "text": 7}})], "not_measured", "7"),
        (
            [("ready", {"ready": {**READY, "port": 0}})],
            "visit_ended",
            "ready does not fit its schema: port",
        ),
        (["die"], "visit_ended", "the payload ended with exit status 7"),
        (["freeze"], "silent", "no sign of life for 3 s"),
        ([("error", {"phase": "run", "reason": "crashed"})], "visit_ended", "crashed"),
    ],
)
def test_a_host_that_does_not_get_ready_is_absent(steps: list[Any], code: str, text: str) -> None:
    with opened(scripted(*steps)) as members:
        assert members.present == ()
        assert members.absent["here"].code == code
        assert text in members.absent["here"].text


@pytest.mark.urgent
@pytest.mark.parametrize(
    ("steps", "reason", "kind"),
    [
        (
            [("answer", {"answer": answer(id=1, state="fine")})],
            "answer does not fit its schema",
            "failed",
        ),
        ([("answer", {"answer": answer(id=9)})], "an answer to another order", "failed"),
        (["die"], "the payload ended with exit status 7", "failed"),
        (["freeze"], "no sign of life for 3 s", "hang"),
        ([("refused", {"reason": "torch died"})], "torch died", "failed"),
    ],
)
def test_a_host_that_fails_its_order_is_blamed_and_asked_no_more(
    steps: list[Any], reason: str, kind: str
) -> None:
    with opened(scripted(("ready", {"ready": READY}), "order", *steps)) as members:
        run = ask(members)
        assert (run.state, [one.hosts for one in run.blamed]) == (kind, [("here",)])
        assert reason in run.reason
        assert members.present == ()
        started = time.monotonic()
        assert ask(members).state == kind, "at once, without a wait"
        assert time.monotonic() - started < 1


def test_a_host_that_dies_between_orders_is_noticed() -> None:
    with opened(scripted(("ready", {"ready": READY}), "order", GOOD, "die")) as members:
        assert ask(members).state == "done"
        run = ask(members)
        assert run.state == "failed"
        assert "exit status 7" in run.reason


def after(condition: Callable[[], bool], act: Callable[[], None]) -> threading.Thread:
    def wait() -> None:
        while not condition():
            time.sleep(0.01)
        act()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def test_a_stop_ends_what_is_under_way() -> None:
    stop = threading.Event()
    with opened(scripted(("ready", {"ready": READY}), "order", "freeze"), stop) as members:
        member = members._participants["here"]
        thread = after(lambda: len(member._under_way) > 1, stop.set)
        with pytest.raises(RunStoppedError):
            ask(members)
        thread.join()
        assert members.stopped
