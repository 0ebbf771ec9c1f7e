from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from hwcheck.connect import conversation
from hwcheck.connect.conversation import (
    HEARTBEAT_S,
    OUTPUT_LIMIT_LINES,
    Conversation,
    EndedError,
    first_frame,
    shortened,
)
from hwcheck.connect.deadlines import Deadlines, VisitError
from hwcheck.connect.links import LinkLostError
from hwcheck.connect.supervisor import Supervisor
from hwcheck.contract.wire import OUTPUT_LIMIT_BYTES, frame
from hwcheck.inventory.inventory import Host

LATE = VisitError("run", "late")


class ScriptedLink:
    """A link that gives these pieces of output and ends, or stays."""

    def __init__(self, *pieces: tuple[bytes, bytes], stays: bool = False) -> None:
        self.pieces = list(pieces)
        self.sent: list[bytes] = []
        self.broken = False
        self._stays = stays

    def send(self, data: bytes) -> None:
        if self.broken:
            raise LinkLostError("closed")
        self.sent.append(data)

    def receive(self, seconds: float) -> tuple[bytes, bytes]:
        if self.pieces:
            return self.pieces.pop(0)
        time.sleep(min(seconds, 0.01) if self._stays else 0)
        return b"", b""

    def ended(self) -> bool:
        return not self.pieces and not self._stays

    def how_it_ended(self) -> tuple[int | None, str]:
        return 3, "ended with exit status 3"

    def cut(self) -> None:
        self.broken = True

    def close(self) -> None:
        self.broken = True


def talk(link: ScriptedLink, log: Callable[[str], None] = lambda text: None) -> Conversation:
    return Conversation(link, "t", log, Supervisor(threading.Event()))


def soon() -> float:
    return time.monotonic() + 5


def test_frames_in_order_and_the_rest_in_the_log() -> None:
    text = b"banner\n" + frame("t", "a").encode() + frame("t", "b").encode() + b"tail"
    log: list[str] = []
    link = ScriptedLink((text[:20], b"on std"), (text[20:], b"err\nunfinished"))
    conversation = talk(link, log.append)
    assert conversation.frame(soon(), LATE, heartbeat=False)["kind"] == "a"
    assert conversation.frame(soon(), LATE, heartbeat=False)["kind"] == "b"
    with pytest.raises(EndedError, match="exit status 3") as caught:
        conversation.frame(soon(), LATE, heartbeat=False)
    assert caught.value.status == 3
    assert "".join(log).splitlines() == ["banner", "on stderr", "tail", "unfinished"]
    assert conversation.last_line == "unfinished"


def test_a_frame_that_came_before_the_end_is_still_read() -> None:
    link = ScriptedLink((frame("t", "a").encode(), b""))
    assert talk(link).frame(soon(), LATE, heartbeat=True)["kind"] == "a"


def test_too_late() -> None:
    with pytest.raises(VisitError, match="run: late"):
        talk(ScriptedLink(stays=True)).frame(time.monotonic() + 0.05, LATE, heartbeat=False)


@pytest.mark.parametrize("which", [0, 1])
def test_the_limit_counts_stdout_and_stderr(which: int) -> None:
    piece = b"x" * 65535 + b"\n"
    pieces = [(piece, b"") if which == 0 else (b"", piece)] * (OUTPUT_LIMIT_BYTES // 65536 + 1)
    with pytest.raises(VisitError, match="wrote more than 16 MiB") as caught:
        talk(ScriptedLink(*pieces)).frame(soon(), LATE, heartbeat=False)
    assert caught.value.state == "invalid"
    pieces = pieces[:-1]
    with pytest.raises(EndedError):
        talk(ScriptedLink(*pieces)).frame(soon(), LATE, heartbeat=False)


@pytest.mark.parametrize("heartbeat", [True, False])
def test_heartbeats(monkeypatch: pytest.MonkeyPatch, heartbeat: bool) -> None:
    monkeypatch.setattr(conversation, "HEARTBEAT_S", 0.05)
    link = ScriptedLink(stays=True)
    with pytest.raises(VisitError, match="late"):
        talk(link).frame(time.monotonic() + 0.3, LATE, heartbeat=heartbeat)
    assert set(link.sent) == ({b"\n"} if heartbeat else set())


def test_a_heartbeat_that_cannot_be_sent_leaves_what_was_written_readable() -> None:
    link = ScriptedLink((b"", b""), (frame("t", "error").encode(), b""))
    link.broken = True
    conversation = talk(link)
    conversation._sent -= HEARTBEAT_S
    assert conversation.frame(soon(), LATE, heartbeat=True)["kind"] == "error"


def test_drain_keeps_what_comes_until_the_end() -> None:
    log: list[str] = []
    talk(ScriptedLink((b"", b"one\n"), (b"", b"two")), log.append).drain(5)
    assert "".join(log) == "one\ntwo\n"


def test_drain_is_bounded() -> None:
    started = time.monotonic()
    talk(ScriptedLink(stays=True)).drain(0.1)
    assert time.monotonic() - started < 3


PLAIN = Host("n1", "192.0.2.1", python="/opt/python")
BECOMES = Host("n1", "192.0.2.1", python="/opt/python", become=True, become_exe="doas-like")


def ended(host: Host, status: int | None, last_line: str) -> VisitError:
    """Return the error for a command that ended so before its first frame."""

    def frame(*_: Any, **__: Any) -> NoReturn:
        raise EndedError(status, f"ended with exit status {status}")

    talk = cast(Conversation, SimpleNamespace(frame=frame, last_line=last_line))
    with pytest.raises(VisitError) as caught:
        first_frame(host, talk, Deadlines().begun())
    return caught.value


@pytest.mark.parametrize(
    ("host", "status", "last_line", "reason"),
    [
        (PLAIN, 127, "sh: 1: /opt/python: not found", "python: /opt/python: not found"),
        (PLAIN, 126, "Permission denied", "python: /opt/python: cannot be executed"),
        (BECOMES, 127, "sh: 1: doas-like: not found", "become: doas-like: not found"),
        (BECOMES, 126, "Permission denied", "become: doas-like: cannot be executed"),
        (BECOMES, 1, "sudo: /opt/python: command not found", "become: sudo: /opt/python: command"),
        (BECOMES, 1, "Traceback", "python: no answer: /opt/python ended with exit status 1; last"),
    ],
)
def test_which_command_was_not_there(host: Host, status: int, last_line: str, reason: str) -> None:
    error = ended(host, status, last_line)
    assert f"{error.phase}: {error.reason.text}".startswith(reason)


def test_our_own_program_is_not_repeated() -> None:
    last_line = f"bash: -c: line 1: {'QUJD' * 40}: syntax error"
    assert ended(PLAIN, 2, last_line).reason.text.endswith(
        "; last line: bash: -c: line 1: ...: syntax error"
    )
    assert shortened("a\t b  " + "x" * 400) == "a b ..."


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (b"\n" * 30_000, "more than 20000 lines"),
        (frame("t", "alive").encode() * 30_000, "more than 20000 lines"),
        (b"@hwcheck:t {\n" * 101, "more than 100 broken frames"),
    ],
)
@pytest.mark.parametrize("piece", [1000, 65536])
def test_a_node_that_writes_many_lines_is_cut_off(output: bytes, why: str, piece: int) -> None:
    log: list[str] = []
    pieces = [(output[at : at + piece], b"") for at in range(0, len(output), piece)]
    conversation = talk(ScriptedLink(*pieces), log.append)

    def read_all() -> None:
        while True:
            conversation.frame(soon(), LATE, heartbeat=False)

    with pytest.raises(VisitError, match=why) as caught:
        read_all()
    assert caught.value.state == "invalid"
    assert "".join(log).count("\n") <= OUTPUT_LIMIT_LINES


def test_broken_frames_of_a_healthy_node_are_noise() -> None:
    link = ScriptedLink((b"@hwcheck:t {\n" * 100 + frame("t", "a").encode(), b""))
    assert talk(link).frame(soon(), LATE, heartbeat=False)["kind"] == "a"
