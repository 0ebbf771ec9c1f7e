"""Events as pynvml gets them: what happens from the moment on in which somebody listens."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.nvml_answers import Asker, Stand

TYPES = ["xid", "double_bit_ecc"]
LISTEN = "nvmlDeviceRegisterEvents(gpus[%d], nvmlEventTypeXidCriticalError, %s)"
# An asker evaluates expressions: the set is kept where the next question finds it.
SET = "globals().setdefault('events', nvmlEventSetCreate())"
NEXT = (
    "[(nvmlDeviceGetIndex(e.device), e.eventType, e.eventData)"
    " for e in [nvmlEventSetWait_v2(events, %d)]][0]"
)
XID = 8


def scenario(*events: dict[str, Any]) -> dict[str, Any]:
    return {"gpus": [{}, {"event_types": TYPES, "events": list(events)}]}


def listen(asker: Asker) -> None:
    assert asker.ask(f"{SET} and None") is None
    assert asker.ask(LISTEN % (1, "events")) is None


def test_what_happens_while_somebody_listens(stand: Stand) -> None:
    past, lost = {"type": "xid", "data": 31}, {"type": "xid", "data": 79}
    stand.says(scenario(past))
    with stand.asker() as asker:
        listen(asker)
        assert asker.ask(NEXT % 0) == "error: Timeout"
        stand.says(scenario(past, {"type": "double_bit_ecc"}, lost))
        assert asker.ask(NEXT % 0) == [1, XID, 79]
        assert asker.ask(NEXT % 0) == "error: Timeout"


def test_an_event_that_comes_later_is_waited_for(stand: Stand) -> None:
    stand.says(scenario({"type": "xid", "data": 48, "after_s": 0.4}))
    with stand.asker() as asker:
        listen(asker)
        assert asker.ask(NEXT % 0) == "error: Timeout"
        assert asker.ask(NEXT % 5000) == [1, XID, 48]


def test_a_wait_sees_what_is_written_meanwhile(stand: Stand) -> None:
    stand.says(scenario())
    with stand.asker() as asker:
        listen(asker)
        asker.send(NEXT % 20_000)
        assert not asker.has_answered(within_s=0.1)
        stand.says(scenario({"type": "xid", "data": 74}))
        assert asker.answer() == [1, XID, 74]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("nvmlDeviceGetSupportedEventTypes(gpus[1])", 2 | XID),
        ("nvmlDeviceGetSupportedEventTypes(gpus[0])", "error: Not Supported"),
        (LISTEN % (0, "nvmlEventSetCreate()"), "error: Not Supported"),
        ("nvmlDeviceRegisterEvents(gpus[1], nvmlEventTypeClock, nvmlEventSetCreate())",
         "error: Not Supported"),
        ("nvmlEventSetFree(nvmlEventSetCreate())", None),
        ("nvmlEventSetWait_v2(None, 0)", "error: Invalid Argument"),
    ],
)  # fmt: skip
def test_what_can_be_listened_to(stand: Stand, question: str, answer: object) -> None:
    stand.says(scenario())
    assert stand.answers([question])[question] == answer
