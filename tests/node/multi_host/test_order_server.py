from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.node.multi_host.order_server import OrderServer, driver_problem
from tests.node.multi_host.local_server import LocalMember, order
from tests.node.multi_host.test_orders_served import children


def test_lines_are_put_together_and_heartbeats_dropped() -> None:
    member = OrderServer({"interface": "", "toward": ""})
    for data in (b"\n", b'{"a"', b":1}", b'\n\n{"b":2}\n{"c"'):
        member.feed(data)
    assert [member._orders.get_nowait() for _ in range(2)] == [{"a": 1}, {"b": 2}]
    assert member._orders.empty(), "a line that has not ended waits"


def test_a_launcher_that_dies_ends_the_session_with_the_reason(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with LocalMember(tmp_path, "6") as member:
        ready = member.hear("ready")["ready"]
        (launcher,) = [
            pid
            for pid in children(member.process.pid)
            if b"multi_host.launcher" in Path(f"/proc/{pid}/cmdline").read_bytes()
            and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
            == str(member.process.pid)
        ]
        os.kill(launcher, signal.SIGKILL)
        member.tell(order(1, 0, ready))
        assert "was killed by signal 9" in member.hear("refused")["reason"]["text"]
        assert member.hear("report")
        assert member.process.wait(10) == 0


class Gpu:
    """A GPU whose driver says this of its loss, or does not answer."""

    def __init__(self, loss: str | None) -> None:
        self._loss = loss

    def loss(self) -> str:
        if self._loss is None:
            raise CouldNotMeasure("NVML did not answer within 5 s")
        return self._loss


@pytest.mark.parametrize(
    ("state", "losses", "problem"),
    [
        ("hang", ["", ""], ""),
        ("done", [None], ""),
        ("hang", [None, ""], "the driver does not answer (NVML did not answer within 5 s)"),
        ("hang", ["", "gpu1 is lost"], "gpu1 is lost"),
    ],
)
def test_the_driver_is_asked_after_a_hang(
    state: str, losses: list[str | None], problem: str
) -> None:
    answer: dict[str, Any] = {"state": state, "left_over": []}
    said = driver_problem(answer, [Gpu(loss) for loss in losses])
    expected = f"after a hang was killed, {problem}: reboot the node" if problem else ""
    assert said == expected
    assert [each["text"] for each in answer["left_over"]] == [expected][: bool(problem)]
