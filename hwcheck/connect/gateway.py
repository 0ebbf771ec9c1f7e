"""What paramiko lacks for many connections through one gateway."""

from __future__ import annotations

import contextlib
from typing import Any

import paramiko

# RFC 4254, section 9: messages about one channel; the recipient's channel number follows.
CHANNEL_MESSAGES = range(93, 99)
CHANNEL_CLOSE = 97


class QuietTransport(paramiko.Transport):
    """A transport without a debug log: OpenSSH says a line at each login, written out bytewise."""

    def _parse_debug(self, m: paramiko.Message) -> None:
        """Take a debug message (RFC 4253, section 11.3), which may always be ignored."""


class GatewayTransport(QuietTransport):
    """A transport that sends nothing on a channel after its close.

    paramiko decides that a channel is open and sends in two steps, so one thread's data can follow
    another thread's close. A server takes that for an attack and hangs up on everybody behind the
    gateway (OpenSSH: "data packet referred to nonexistent channel").
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._closed_channels: set[int] = set()

    def _send_message(self, data: paramiko.Message) -> None:
        # Messages about channels come here one at a time: _send_user_message holds a lock.
        head = data.asbytes()[:5]
        if head[0] in CHANNEL_MESSAGES:
            recipient = int.from_bytes(head[1:], "big")
            if recipient in self._closed_channels:
                return
            if head[0] == CHANNEL_CLOSE:
                self._closed_channels.add(recipient)
        super()._send_message(data)  # type: ignore[misc]

    def _parse_channel_open_success(self, m: paramiko.Message) -> None:
        # The server gives a number again when both sides have closed the channel that had it. (A
        # message that was read has its type taken off: our number comes first, then the server's.)
        self._closed_channels.discard(int.from_bytes(m.asbytes()[4:8], "big"))
        super()._parse_channel_open_success(m)  # type: ignore[misc]


class GatewaySocket:
    """The byte stream through a gateway; closing it does not fail where the gateway is gone."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def close(self) -> None:
        """Close the channel."""
        with contextlib.suppress(EOFError, OSError, paramiko.SSHException):
            self._channel.close()
