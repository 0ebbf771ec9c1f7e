"""Messages between our processes: JSON objects, one a line, over pipes."""

from __future__ import annotations

import json
import os
import select
import time
from typing import Any, Callable, Dict, List, Mapping, Optional

Message = Dict[str, Any]
Send = Callable[[Message], None]

READ_BYTES = 65536


def write(fd: int, message: Mapping[str, Any]) -> None:
    """Write one message. Raises OSError when nobody reads, ValueError for a NaN or an infinity."""
    data = json.dumps(message, allow_nan=False).encode("ascii") + b"\n"
    while data:
        data = data[os.write(fd, data) :]


class Decoder:
    """Bytes as they come, to messages. Empty lines are heartbeats and mean nothing."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> List[Message]:
        """Return the messages that these bytes complete. Raises ValueError for what is no JSON."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines if line]


class Reader:
    """The messages that come over one pipe; ``ended`` once whoever writes has closed it."""

    def __init__(self, fd: int) -> None:
        self.ended = False
        self._fd = fd
        self._decoder = Decoder()
        self._waiting: List[Message] = []

    def read(self) -> List[Message]:
        """Wait for bytes; return the messages that they complete."""
        data = os.read(self._fd, READ_BYTES)
        self.ended = not data
        return self._decoder.feed(data)

    def next(self, limit_s: Optional[float] = None) -> Optional[Message]:
        """Return the next message, or None at the end of the pipe.

        Raises TimeoutError where it does not come within ``limit_s``.
        """
        end = None if limit_s is None else time.monotonic() + limit_s
        while not self._waiting and not self.ended:
            left_s = None if end is None else max(0.0, end - time.monotonic())
            if not select.select([self._fd], [], [], left_s)[0]:
                raise TimeoutError
            self._waiting += self.read()
        return self._waiting.pop(0) if self._waiting else None
