from __future__ import annotations

import os
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from hwcheck.connect.deadlines import VisitError
from hwcheck.connect.links import ChannelLink, LinkLostError, LocalLink


def collect(link: LocalLink, seconds: float = 20) -> tuple[bytes, bytes]:
    out = err = b""
    end = time.monotonic() + seconds
    while not link.ended():
        assert time.monotonic() < end
        more_out, more_err = link.receive(0.5)
        out, err = out + more_out, err + more_err
    return out, err


def test_both_outputs_are_read_whatever_comes_first() -> None:
    code = "import sys; sys.stderr.write('e' * 200000); sys.stdout.write('o' * 200000)"
    link = LocalLink([sys.executable, "-c", code])
    out, err = collect(link)
    assert (len(out), len(err)) == (200_000, 200_000)
    assert link.how_it_ended() == (0, "ended with exit status 0")
    link.close()


def test_input_arrives() -> None:
    link = LocalLink(["cat"])
    link.send(b"x" * 100)
    out = b""
    while len(out) < 100:
        out += link.receive(5)[0]
    link.close()
    assert out == b"x" * 100


def test_a_command_that_is_gone_cannot_be_written_to() -> None:
    link = LocalLink(["true"])
    collect(link)
    with pytest.raises(LinkLostError):
        link.send(b"x")
    link.close()


def test_cut_ends_the_whole_group() -> None:
    link = LocalLink(["sh", "-c", "sleep 600 & echo started; wait"])
    while b"started" not in link.receive(5)[0]:
        pass
    link.cut()
    collect(link)  # the pipes are closed only when the sleeper is gone too
    assert link.how_it_ended() == (None, "was killed")
    link.close()


def test_a_command_that_is_not_there() -> None:
    with pytest.raises(VisitError, match="python: /no/such: not found"):
        LocalLink(["/no/such"])


def refuse(error: OSError, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every kill of a process group fail, as for a process of sudo's."""

    def killpg(group: int, number: int) -> None:
        raise error

    monkeypatch.setattr("hwcheck.connect.links.os.killpg", killpg)


def test_a_command_that_ended_before_it_was_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    link = LocalLink(["cat"])
    refuse(ProcessLookupError(3, "No such process"), monkeypatch)
    link._stdin.close()  # it ends while it is being killed
    link.cut()
    collect(link)
    assert link.how_it_ended() == (0, "ended with exit status 0")
    link.close()


def test_a_command_of_another_user_ends_when_its_input_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = LocalLink(["cat"])
    refuse(PermissionError(1, "Operation not permitted"), monkeypatch)
    monkeypatch.setattr("hwcheck.connect.links.END_S", 0.1)
    link.cut()
    assert not link.ended()
    monkeypatch.setattr("hwcheck.connect.links.END_S", 20)
    started = time.monotonic()
    link.close()
    assert time.monotonic() - started < 10
    assert link.how_it_ended() == (0, "ended with exit status 0")


def test_a_command_that_cannot_be_killed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    link = LocalLink(["sleep", "600"])
    with monkeypatch.context() as patched:
        refuse(PermissionError(1, "Operation not permitted"), patched)
        patched.setattr("hwcheck.connect.links.END_S", 0.1)
        lost = []

        def send() -> None:
            with pytest.raises(LinkLostError, match="cut off"):
                link.send(b"x" * (1 << 20))  # more than a pipe takes
            lost.append(True)

        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        link.cut()
        thread.join(10)
        assert lost == [True]
        link.close()
    os.kill(link._process.pid, 9)
    link._process.wait(10)


def test_cut_does_not_wait_behind_a_channel_that_cannot_send() -> None:
    hung_up = []
    channel = SimpleNamespace(
        get_transport=lambda: None, close=lambda: pytest.fail("it would wait for the sender")
    )
    ChannelLink(channel, lambda: hung_up.append(True)).cut()  # type: ignore[arg-type]
    assert hung_up == [True]
