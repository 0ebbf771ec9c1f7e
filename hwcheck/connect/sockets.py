"""The byte stream below SSH: a TCP connection, or a proxy command's ends."""

from __future__ import annotations

import errno
import ipaddress
import os
import queue
import select
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from hwcheck.connect.deadlines import VisitError
from hwcheck.results.phases import CONNECT, NAME_LOOKUP

POLL_S = 0.2
AHEAD_BYTES = 16384


class ReadAhead(socket.socket):
    """A socket for one reader, and fewer reads: paramiko asks for each packet in parts."""

    def __init__(self, family: int) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._ahead = b""

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Return up to ``size`` bytes."""
        if not self._ahead:
            self._ahead = super().recv(max(size, AHEAD_BYTES), flags)
        data, self._ahead = self._ahead[:size], self._ahead[size:]
        return data


def tcp(
    address: str, port: int, seconds: float, check: Callable[[str], None], family: int = 0
) -> socket.socket:
    """Connect to the first address that answers.

    ``family`` is AF_INET or AF_INET6 where only such addresses may be used. ``check`` is called
    every 0.2 s and raises when the run was stopped. Raises VisitError.
    """
    end = time.monotonic() + seconds
    where = f"{address}:{port}"
    late = VisitError(CONNECT, f"no answer from {where} within {seconds:.3g} s")
    last: VisitError = late
    for of_target, _, _, _, target in _resolve(address, port, seconds, check, family):
        sock = ReadAhead(of_target)
        sock.setblocking(False)
        code = sock.connect_ex(target)
        if code == errno.EINPROGRESS:
            code = _finish(sock, end, check)
        if code == 0:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        sock.close()
        slow = code in (errno.EINPROGRESS, errno.ETIMEDOUT)
        last = late if slow else VisitError(CONNECT, f"{where}: {os.strerror(code)}")
    raise last


def _resolve(
    address: str, port: int, seconds: float, check: Callable[[str], None], family: int
) -> list[Any]:
    """Return what getaddrinfo does, which knows no deadline: it runs in a thread of its own."""
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return _look_up(address, port, seconds, check, family)
    # An address needs no lookup, and a thread for each of a thousand hosts costs.
    return _addresses(address, port, family)


def _addresses(address: str, port: int, family: int) -> list[Any]:
    """Ask the resolver, and wait for it. Raises VisitError where there is no such address."""
    try:
        return socket.getaddrinfo(address, port, family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        text = getattr(error, "strerror", None) or str(error)
        raise VisitError(NAME_LOOKUP, f"cannot resolve {address}: {text}") from None


def _look_up(
    address: str, port: int, seconds: float, check: Callable[[str], None], family: int
) -> list[Any]:
    answers: queue.SimpleQueue[list[Any] | VisitError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(_addresses(address, port, family))
        except VisitError as error:
            answers.put(error)

    threading.Thread(target=ask, daemon=True).start()
    end = time.monotonic() + seconds
    while True:
        left = end - time.monotonic()
        try:
            answer = answers.get(timeout=max(0.0, min(left, POLL_S)))
        except queue.Empty:
            check(NAME_LOOKUP)
            if left <= 0:
                late = f"cannot resolve {address}: no answer within {seconds:.3g} s"
                raise VisitError(NAME_LOOKUP, late) from None
            continue
        if isinstance(answer, VisitError):
            raise answer
        return answer


def _finish(sock: socket.socket, end: float, check: Callable[[str], None]) -> int:
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    try:
        while (left := end - time.monotonic()) > 0:
            if poll.poll(min(left, POLL_S) * 1000):
                return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            check(CONNECT)
    except VisitError:
        sock.close()
        raise
    return errno.EINPROGRESS


class Proxy:
    """A running ProxyCommand; ``sock`` is its stdin and stdout."""

    def __init__(self, words: Sequence[str]) -> None:
        """Start it without a shell. Raises VisitError when it cannot be started."""
        self.sock, of_command = socket.socketpair()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        try:
            self._process = subprocess.Popen(
                words,
                stdin=of_command.fileno(),
                stdout=of_command.fileno(),
                stderr=self._stderr.fileno(),
                start_new_session=True,
            )
        except OSError as error:
            self.sock.close()
            self._stderr.close()
            raise VisitError(CONNECT, f"proxy command {words[0]}: {error.strerror}") from None
        finally:
            of_command.close()

    def close(self) -> None:
        """End the command."""
        self.sock.close()
        self._process.kill()
        self._process.wait()
        self._stderr.close()

    def last_line(self) -> str:
        """Return the last line that the command wrote to stderr."""
        end = os.fstat(self._stderr.fileno()).st_size
        tail = os.pread(self._stderr.fileno(), 1000, max(0, end - 1000))
        return (tail.decode("utf-8", "replace").strip().splitlines() or [""])[-1]
