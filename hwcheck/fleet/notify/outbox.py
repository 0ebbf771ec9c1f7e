"""The outbox: messages on disk until somebody took them, each sent once.

``<message>.<receiver>.json`` is to be sent, ``.sending`` is on its way. A name that is in
``taken/`` was sent and is not again; in ``refused/`` is what the receiver does not want, and in
``unknown/`` what was on its way when the sweep was killed or the connection broke: to send that
again could tell people twice, so it is left and named in the receiver's next message.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

from hwcheck.fleet.notify.config import Receiver
from hwcheck.fleet.notify.send import NOT_TAKEN, REFUSED, REPEATABLE, TAKEN, UNKNOWN, Result, send
from hwcheck.results.files import NotPlainError, read_plain, replace_file, sync_folder

FOLDER = "outbox"
LOCK = ".lock"
KEPT = 200
"""So many that were taken are remembered for each receiver; later sweeps have later names."""
WAITS_S = (1.0, 5.0, 20.0)
"""Between one try and the next; after the last the message waits for the next sweep."""
MOST_BYTES = 16 * 2**20
_NAME = re.compile(r"(?P<id>[A-Za-z0-9._-]{1,150})\.(?P<receiver>[a-z0-9_-]{1,40})\.json\Z")

Send = Callable[[Receiver, str, Any], Result]


class Outbox:
    """The folder of one sweep's state."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FOLDER

    def put(self, message_id: str, receiver: Receiver, body: Any) -> None:
        """Keep a message for a receiver, unless it is there or was sent. Raises OSError.

        What Alertmanager has not taken yet is replaced: the newest says all that is open.
        """
        name = f"{_safe(message_id)}.{receiver.name}.json"
        for folder in (TAKEN, REFUSED, UNKNOWN):
            (self.path / folder).mkdir(parents=True, exist_ok=True)
        sending = self.path / f"{name}.sending"
        if sending.exists() or any(place.exists() for place in self._places(name)):
            return
        replace_file(self.path / name, json.dumps(body, allow_nan=False).encode(), sync=True)
        if receiver.kind == "alertmanager":
            for older in self._of(receiver.name):
                if older.name != name:
                    older.unlink(missing_ok=True)

    def in_doubt(self, receiver: str) -> list[str]:
        """Return the messages of which nobody knows whether they came, and which were not named."""
        return [each.name.removesuffix(f".{receiver}.json") for each in self._doubtful(receiver)]

    def named(self, receiver: str) -> None:
        """Note that they were named in a message. Raises OSError."""
        for each in self._doubtful(receiver):
            os.replace(each, each.with_name(f"{each.name}.named"))

    def waiting(self) -> dict[str, int]:
        """Return how many messages wait, by receiver."""
        amounts: dict[str, int] = {}
        for name in sorted(os.listdir(self.path)) if self.path.is_dir() else ():
            match = _NAME.match(name.removesuffix(".sending"))
            if match:
                amounts[match["receiver"]] = amounts.get(match["receiver"], 0) + 1
        return amounts

    def deliver(
        self,
        receivers: Sequence[Receiver],
        *,
        waits_s: Sequence[float] = WAITS_S,
        send: Send = send,
        wait: Callable[[float], object] = time.sleep,
    ) -> list[str]:
        """Send what waits, the oldest first, and return in words what was not taken.

        One who does not answer keeps nobody else waiting. Raises OSError.
        """
        if not self.path.is_dir():
            return []
        with self._lock() as held:
            if not held:
                return ["another hwcheck is sending what is in the outbox"]
            self._after_a_kill(receivers)
            complaints = [
                line
                for receiver in receivers
                for line in self._deliver_to(receiver, waits_s, send, wait)
            ]
        names = {receiver.name for receiver in receivers}
        orphans = {name: n for name, n in self.waiting().items() if name not in names}
        complaints += [
            f"{self.path}: {amount} for {name}, who is no receiver any more; delete them"
            for name, amount in orphans.items()
        ]
        return complaints

    def _deliver_to(
        self,
        receiver: Receiver,
        waits_s: Sequence[float],
        send: Send,
        wait: Callable[[float], object],
    ) -> Iterator[str]:
        for file in self._of(receiver.name):
            result = self._try(receiver, file, waits_s, send, wait)
            if result.state == NOT_TAKEN:
                left = len(self._of(receiver.name))
                yield f"{receiver.name} was not told: {result.why}; {left} in {self.path}"
                return
            if result.state == REFUSED:
                yield f"{receiver.name} refuses a message: {result.why}; {self.path / REFUSED}"
            if result.state == UNKNOWN:
                yield f"{receiver.name} may not have been told: {result.why}"
            if result.state == TAKEN and result.why:
                yield f"{receiver.name}: {result.why}"

    def _try(
        self,
        receiver: Receiver,
        file: Path,
        waits_s: Sequence[float],
        send: Send,
        wait: Callable[[float], object],
    ) -> Result:
        message_id = file.name.removesuffix(f".{receiver.name}.json")
        sending = file.with_name(f"{file.name}.sending")
        try:
            body = json.loads(read_plain(self.path, PurePath(file.name), MOST_BYTES))
        except (ValueError, RecursionError, NotPlainError):
            os.replace(file, self.path / REFUSED / file.name)
            return Result(REFUSED, f"{file} is damaged")
        for pause_s in (*waits_s, None):
            os.replace(file, sending)
            sync_folder(self.path)
            result = send(receiver, message_id, body)
            if result.state == UNKNOWN and receiver.kind in REPEATABLE:
                result = Result(NOT_TAKEN, result.why)
            if result.state != NOT_TAKEN:
                os.replace(sending, self.path / result.state / file.name)
                self._forget_old(receiver.name)
                return result
            os.replace(sending, file)
            if pause_s is not None:
                wait(pause_s)
        return result

    def _after_a_kill(self, receivers: Iterable[Receiver]) -> None:
        kinds = {receiver.name: receiver.kind for receiver in receivers}
        for sending in sorted(self.path.glob("*.sending")):
            name = sending.name.removesuffix(".sending")
            match = _NAME.match(name)
            repeatable = match is not None and kinds.get(match["receiver"]) in REPEATABLE
            os.replace(sending, self.path / name if repeatable else self.path / UNKNOWN / name)

    def _of(self, receiver: str) -> list[Path]:
        """Return what waits for a receiver, the oldest first."""
        return sorted(
            (self.path / name for name in os.listdir(self.path) if _is_for(name, receiver)),
            key=lambda file: (file.lstat().st_mtime_ns, file.name),
        )

    def _doubtful(self, receiver: str) -> list[Path]:
        folder = self.path / UNKNOWN
        names = sorted(os.listdir(folder)) if folder.is_dir() else []
        return [folder / name for name in names if _is_for(name, receiver)]

    def _places(self, name: str) -> Iterator[Path]:
        yield self.path / name
        for folder in (TAKEN, REFUSED, UNKNOWN):
            yield self.path / folder / name
        yield self.path / UNKNOWN / f"{name}.named"

    def _forget_old(self, receiver: str) -> None:
        folder = self.path / TAKEN
        taken = [folder / name for name in os.listdir(folder) if _is_for(name, receiver)]
        taken.sort(key=lambda file: file.lstat().st_mtime_ns)
        for file in taken[:-KEPT]:
            file.unlink(missing_ok=True)

    @contextmanager
    def _lock(self) -> Iterator[bool]:
        """Hold the lock, which dies with its holder; false where somebody else does."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(self.path / LOCK, flags, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
        finally:
            os.close(handle)


def _is_for(name: str, receiver: str) -> bool:
    match = _NAME.match(name)
    return match is not None and match["receiver"] == receiver


def _safe(message_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", message_id)[:150] or "message"
