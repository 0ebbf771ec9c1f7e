"""The launcher's own parts; its way with workers is tested where it is started (test_launch)."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from hwcheck.node.collective.log import Log
from hwcheck.node.collective.ranks import RankGroup
from hwcheck.node.json_lines import Send
from hwcheck.node.load.launcher import Relay, lack
from hwcheck.node.load.spec import BurnSpec, Target


class Stage:
    """Workers that are forked here, and what a relay says of them."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.group = RankGroup()
        self.said: list[dict[str, Any]] = []
        self.go_fd, self.gate_fd = os.pipe()
        self.stop_fd, self.stop_end = os.pipe()

    def fork(self, body: Any) -> None:
        worker = len(self.group.ranks)
        self.group.fork(worker, body, {}, self.log.fd, [self.gate_fd, self.stop_end])

    def relay(self, patience_s: float = 0.2) -> None:
        relay = Relay(self.group, patience_s, self.said.append, self.gate_fd)
        relay.until_all_ended(self.stop_fd)

    def kinds(self, worker: int) -> list[str]:
        return [message["kind"] for message in self.said if message["worker"] == worker]


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Log() as log:
        one = Stage(log)
        with one.group:
            yield one
        os.close(one.go_fd)
        os.close(one.stop_fd)


def test_all_start_when_the_last_is_prepared(stage: Stage) -> None:
    hold, release = os.pipe()

    def quick(send: Send) -> None:
        send({"kind": "prepared"})
        shut = not select.select([stage.go_fd], [], [], 0.3)[0]
        os.write(release, b"x")
        select.select([stage.go_fd], [], [])
        send({"kind": "done", "shut": shut})

    def slow(send: Send) -> None:
        os.read(hold, 1)
        send({"kind": "prepared"})
        select.select([stage.go_fd], [], [])
        send({"kind": "done"})

    stage.fork(quick)
    stage.fork(slow)
    stage.relay()
    assert stage.kinds(0) == stage.kinds(1) == ["prepared", "done"]
    assert [message["shut"] for message in stage.said if "shut" in message] == [True]
    for fd in (hold, release, stage.stop_end):
        os.close(fd)


def test_one_that_fails_before_it_is_prepared_does_not_hold_up_the_others(stage: Stage) -> None:
    def healthy(send: Send) -> None:
        send({"kind": "prepared"})
        select.select([stage.go_fd], [], [])
        send({"kind": "done"})

    def dies(send: Send) -> None:
        os._exit(7)

    def leaves(send: Send) -> None:
        os._exit(0)

    for body in (healthy, dies, leaves):
        stage.fork(body)
    stage.relay()
    assert stage.kinds(0) == ["prepared", "done"]
    lost = {message["worker"]: message for message in stage.said if message["kind"] == "lost"}
    pids = [worker.pid for worker in stage.group.ranks]
    assert lost[1]["reason"] == f"process {pids[1]} exited with code 7"
    assert lost[2]["reason"] == f"process {pids[2]} ended without a word"
    os.close(stage.stop_end)


def test_who_does_not_end_is_killed(stage: Stage) -> None:
    def deaf(send: Send) -> None:
        send({"kind": "prepared"})
        threading.Event().wait()

    stage.fork(deaf)
    os.close(stage.stop_end)
    stage.relay(patience_s=0.5)
    pid = stage.group.ranks[0].pid
    assert stage.said[-1] == {
        "kind": "lost",
        "reason": f"process {pid} did not end within 0.5 s and was killed",
        "worker": 0,
    }
    assert stage.group.alive() == []


def test_only_gpus_need_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = pytest.importorskip("hwcheck.node.torch_runtime")
    monkeypatch.setattr(runtime.torch.version, "cuda", None)
    assert lack(BurnSpec((), 1.0)) == ""
    assert lack(BurnSpec((Target("gpu0", "GPU-a"),), 1.0)).endswith("has no CUDA")
