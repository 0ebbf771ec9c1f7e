from __future__ import annotations

import socket
from collections.abc import Iterator

import paramiko
import pytest

from hwcheck.connect.gateway import GatewaySocket, GatewayTransport

DATA, CLOSE, GLOBAL_REQUEST = 94, 97, 80


def message(kind: int, recipient: int) -> paramiko.Message:
    made = paramiko.Message()
    made.add_byte(bytes([kind]))
    made.add_int(recipient)
    made.add_string(b"data")
    return made


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What goes out, as (kind, recipient)."""
    out: list[tuple[int, int]] = []

    def send(self: paramiko.Transport, data: paramiko.Message) -> None:
        head = data.asbytes()
        out.append((head[0], int.from_bytes(head[1:5], "big")))

    monkeypatch.setattr(paramiko.Transport, "_send_message", send)
    return out


@pytest.fixture
def transport() -> Iterator[GatewayTransport]:
    ours, theirs = socket.socketpair()
    yield GatewayTransport(ours)
    ours.close()
    theirs.close()


def test_nothing_follows_a_close(transport: GatewayTransport, sent: list[tuple[int, int]]) -> None:
    for kind, recipient in [(DATA, 1), (CLOSE, 1), (DATA, 1), (CLOSE, 1), (DATA, 2)]:
        transport._send_message(message(kind, recipient))
    assert sent == [(DATA, 1), (CLOSE, 1), (DATA, 2)]


def test_other_messages_pass(transport: GatewayTransport, sent: list[tuple[int, int]]) -> None:
    transport._send_message(message(CLOSE, 1))
    transport._send_message(message(GLOBAL_REQUEST, 1))
    assert sent[-1] == (GLOBAL_REQUEST, 1)


def test_a_number_that_is_given_again_can_be_sent_to(
    transport: GatewayTransport, sent: list[tuple[int, int]]
) -> None:
    transport._send_message(message(CLOSE, 7))
    confirmation = paramiko.Message()
    for number in (3, 7, 1000, 1000):  # our channel, the server's, window, packet size
        confirmation.add_int(number)
    transport._parse_channel_open_success(paramiko.Message(confirmation.asbytes()))
    transport._send_message(message(DATA, 7))
    assert sent == [(CLOSE, 7), (DATA, 7)]


def test_closing_does_not_fail_where_the_gateway_is_gone() -> None:
    class Channel:
        eof_received = True

        def close(self) -> None:
            raise EOFError

    wrapped = GatewaySocket(Channel())  # type: ignore[arg-type]
    wrapped.close()
    assert wrapped.eof_received, "everything else is the channel's own"
