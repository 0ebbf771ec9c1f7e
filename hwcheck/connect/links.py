"""A running command: its stdin, stdout and stderr, over an SSH channel or over pipes."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import paramiko

from hwcheck.connect.deadlines import VisitError
from hwcheck.results.phases import PYTHON, SESSION

CHUNK_BYTES = 65536
END_S = 2.0
ROOM_S = 0.2


class LinkLostError(Exception):
    """The other side cannot be written to any more."""


class Link(Protocol):
    """One command on one host. ``cut`` may be called from another thread."""

    def send(self, data: bytes) -> None:
        """Write all of it to the command's stdin. Raises LinkLostError."""

    def receive(self, seconds: float) -> tuple[bytes, bytes]:
        """Return what came of stdout and of stderr, at most 64 kB each.

        Waits up to ``seconds`` for something to come or for the command to end.
        """

    def ended(self) -> bool:
        """Whether all output has been read and no more can come."""

    def how_it_ended(self) -> tuple[int | None, str]:
        """Return the exit status (None: unknown) and what happened in words."""

    def cut(self) -> None:
        """Make every call that is under way return or raise."""

    def close(self) -> None:
        """End the command and free everything."""


class ChannelLink:
    """A ``Link`` over an SSH channel; ``hang_up`` closes the connection below it."""

    def __init__(self, channel: paramiko.Channel, hang_up: Callable[[], None]) -> None:
        self._channel = channel
        self._transport = channel.get_transport()
        self._hang_up = hang_up

    def send(self, data: bytes) -> None:
        try:
            self._channel.settimeout(None)  # whoever calls bounds it
            self._channel.sendall(data)
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise LinkLostError(str(error) or "closed") from None

    def receive(self, seconds: float) -> tuple[bytes, bytes]:
        # Waits for stdout: what comes on stderr meanwhile is read when the time is over. (A
        # descriptor for both, Channel.fileno, costs two more descriptors and a pipe's traffic.)
        channel = self._channel
        channel.settimeout(0.0 if channel.recv_stderr_ready() else seconds)
        out = b""
        with contextlib.suppress(TimeoutError):
            out = channel.recv(CHUNK_BYTES)
        err = channel.recv_stderr(CHUNK_BYTES) if channel.recv_stderr_ready() else b""
        if not out and not err and channel.eof_received:  # recv does not wait any more
            channel.status_event.wait(seconds)
        return out, err

    def ended(self) -> bool:
        channel = self._channel
        over = channel.closed or (channel.eof_received and channel.exit_status_ready())
        return bool(over) and not channel.recv_ready() and not channel.recv_stderr_ready()

    def how_it_ended(self) -> tuple[int | None, str]:
        status = self._channel.recv_exit_status() if self._channel.exit_status_ready() else -1
        if status >= 0:
            return status, f"ended with exit status {status}"
        if self._transport.is_active():
            return None, "was killed"
        return None, "is out of reach, the connection broke"

    def cut(self) -> None:
        # Says no goodbye: that would wait behind a call that cannot send.
        self._hang_up()

    def close(self) -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):  # a dead peer
            self._channel.close()
        self._hang_up()


class LocalLink:
    """A ``Link`` to a command of this machine, over pipes."""

    def __init__(
        self, words: Sequence[str], phase: str = PYTHON, env: Mapping[str, str] | None = None
    ) -> None:
        """Start it in a session of its own, with ``env`` in place of this environment.

        Raises VisitError(phase) when it cannot be started.
        """
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=env,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise VisitError(phase, f"{words[0]}: not found") from None
        except OSError as error:
            raise VisitError(phase, f"{words[0]}: {error.strerror}") from None
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        self._stdin, self._readers = stdin, (stdout, stderr)
        os.set_blocking(stdin.fileno(), False)
        self._cut = threading.Event()
        self._pipes = (stdout.fileno(), stderr.fileno())
        self._open = set(self._pipes)
        # poll, not select: select fails on descriptors above 1023.
        self._poll = select.poll()
        for pipe in self._pipes:
            self._poll.register(pipe, select.POLLIN)

    def send(self, data: bytes) -> None:
        try:
            while data:
                taken = self._stdin.write(data)
                data = data[taken or 0 :]
                if taken is None:  # the pipe is full
                    self._wait_for_room()
        except (OSError, ValueError) as error:
            raise LinkLostError(str(error)) from None

    def _wait_for_room(self) -> None:
        # In short steps: a command that cannot be killed would hold this up for ever.
        poll = select.poll()
        poll.register(self._stdin, select.POLLOUT)
        while not poll.poll(ROOM_S * 1000):
            if self._cut.is_set():
                raise LinkLostError("cut off")

    def receive(self, seconds: float) -> tuple[bytes, bytes]:
        if not self._open:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
            return b"", b""
        ready = {pipe for pipe, _ in self._poll.poll(seconds * 1000)}
        out, err = (self._take(pipe) if pipe in ready else b"" for pipe in self._pipes)
        return out, err

    def _take(self, pipe: int) -> bytes:
        data = os.read(pipe, CHUNK_BYTES)
        if not data:
            self._poll.unregister(pipe)
            self._open.discard(pipe)
        return data

    def ended(self) -> bool:
        return not self._open and self._process.poll() is not None

    def how_it_ended(self) -> tuple[int | None, str]:
        status = self._process.poll()
        if status is None or status < 0:
            return None, "was killed"
        return status, f"ended with exit status {status}"

    def cut(self) -> None:
        self._cut.set()
        self._kill()

    def close(self) -> None:
        self._stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._kill()
        for reader in self._readers:
            reader.close()

    def _kill(self) -> None:
        if self._process.poll() is not None:
            return
        # It may have ended since, and sudo's belongs to another user: that one ends by itself when
        # its stdin is closed (node/lifeline.py), or is left to it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)


def run_over(
    transport: paramiko.Transport, line: str, seconds: float, hang_up: Callable[[], None]
) -> ChannelLink:
    """Start a command over one new channel of a connection. Raises VisitError."""
    try:
        channel = transport.open_session(timeout=seconds)
        channel.settimeout(seconds)
        channel.exec_command(line)
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise VisitError(SESSION, f"refused to run a command: {error or 'closed'}") from None
    return ChannelLink(channel, hang_up)
