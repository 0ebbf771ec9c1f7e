from __future__ import annotations

import os
import signal

from hwcheck.node.multi_host.calls import Calls


def test_what_a_child_counted_is_there_after_its_death() -> None:
    with Calls(3) as calls:
        pid = os.fork()
        if pid == 0:
            for _ in range(5):
                calls.begin(1)
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
        calls.begin(2)
        assert [calls.of(index) for index in range(3)] == [0, 5, 1]
