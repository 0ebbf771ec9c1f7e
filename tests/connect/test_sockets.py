from __future__ import annotations

import socket
import threading
import time

import pytest

from hwcheck.connect.deadlines import StoppedError, VisitError
from hwcheck.connect.sockets import AHEAD_BYTES, Proxy, tcp
from hwcheck.connect.supervisor import Supervisor


def no_stop(phase: str) -> None:
    return None


def test_connects_without_delay() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        tcp("127.0.0.1", listener.getsockname()[1], 5, no_stop) as sock,
    ):
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_reading_ahead_loses_nothing() -> None:
    sent = bytes(range(256)) * (3 * AHEAD_BYTES // 256)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        tcp("127.0.0.1", listener.getsockname()[1], 5, no_stop) as sock,
    ):
        sock.settimeout(5)
        peer, _ = listener.accept()
        threading.Thread(target=lambda: (peer.sendall(sent), peer.close())).start()
        got, sizes = b"", iter([16, 4, 5000, 1, AHEAD_BYTES + 1])
        while data := sock.recv(next(sizes, 777)):
            got += data
        assert sock.recv(1) == b"", "the end stays the end"
    assert got == sent


@pytest.fixture
def full() -> int:
    """A port of this machine that answers nothing: its queue of connections is full."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    waiting = []
    for _ in range(3):
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(listener.getsockname())
        waiting.append(sock)
    yield listener.getsockname()[1]
    for sock in [*waiting, listener]:
        sock.close()


def test_no_answer(full: int) -> None:
    started = time.monotonic()
    with pytest.raises(VisitError, match=f"connect: no answer from 127.0.0.1:{full} within 0.3 s"):
        tcp("127.0.0.1", full, 0.3, no_stop)
    assert time.monotonic() - started < 3


def test_stop_ends_the_wait(full: int) -> None:
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(StoppedError):
        tcp("127.0.0.1", full, 60, Supervisor(stop).check)


def test_a_name_that_does_not_resolve() -> None:
    with pytest.raises(VisitError, match=r"name lookup: cannot resolve no-such-host\.invalid: "):
        tcp("no-such-host.invalid", 22, 5, no_stop)
    with pytest.raises(VisitError, match="cannot resolve"):
        tcp("a" * 300, 22, 5, no_stop)


@pytest.mark.parametrize(
    ("address", "family"),
    [("127.0.0.1", socket.AF_INET6), ("::1", socket.AF_INET), ("ip4", socket.AF_INET6)],
)
def test_only_addresses_of_the_family_asked_for(
    monkeypatch: pytest.MonkeyPatch, address: str, family: socket.AddressFamily
) -> None:
    look_up = socket.getaddrinfo

    def hosts_file(name: str, *rest: object) -> object:
        return look_up("127.0.0.1" if name == "ip4" else name, *rest)

    monkeypatch.setattr(socket, "getaddrinfo", hosts_file)
    with pytest.raises(VisitError, match=f"^name lookup: cannot resolve {address}: "):
        tcp(address, 22, 5, no_stop, family)


def test_a_name_server_that_keeps_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: silent.wait(30))
    started = time.monotonic()
    try:
        with pytest.raises(VisitError, match=r"cannot resolve n1: no answer within 0\.3 s"):
            tcp("n1", 22, 0.3, no_stop)
    finally:
        silent.set()
    assert time.monotonic() - started < 3


def test_a_proxy_command_gets_words_not_a_line() -> None:
    proxy = Proxy(("printf", "%s|%s|%s|", "n1; reboot", "2222", "ann"))
    try:
        assert proxy.sock.recv(100, socket.MSG_WAITALL) == b"n1; reboot|2222|ann|"
    finally:
        proxy.close()


def test_a_proxy_command_ends_with_the_connection() -> None:
    proxy = Proxy(("sleep", "600"))
    assert proxy._process.poll() is None
    proxy.close()
    assert proxy._process.poll() is not None
