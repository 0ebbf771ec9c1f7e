from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from hwcheck.node.group.member import Member
from tests.node.group.members import LocalMember, order
from tests.node.group.test_session import children


def test_lines_are_put_together_and_heartbeats_dropped() -> None:
    member = Member({"interface": "", "toward": ""})
    for data in (b"\n", b'{"a"', b":1}", b'\n\n{"b":2}\n{"c"'):
        member.feed(data)
    assert [member._lines.get_nowait() for _ in range(2)] == [b'{"a":1}', b'{"b":2}']
    assert member._lines.empty(), "a line that has not ended waits"


def test_a_launcher_that_dies_ends_the_session_with_the_reason(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with LocalMember(tmp_path, "6") as member:
        ready = member.hear("ready")["ready"]
        (launcher,) = [
            pid
            for pid in children(member.process.pid)
            if b"group.launcher" in Path(f"/proc/{pid}/cmdline").read_bytes()
            and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
            == str(member.process.pid)
        ]
        os.kill(launcher, signal.SIGKILL)
        member.tell(order(1, 0, ready))
        assert "was killed by signal 9" in member.hear("refused")["reason"]
        assert member.hear("report")
        assert member.process.wait(10) == 0
